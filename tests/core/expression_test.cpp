#include "src/core/family/expression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "src/core/error.h"
#include "tests/support/refusal.h"

namespace autotune {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::optional<std::int64_t> known(std::string_view name) {
    static const std::map<std::string, std::int64_t, std::less<>> values = {
        {"m", 1000}, {"block_m", 128}, {"zero", 0}, {"dtype.f16", 1}, {"huge", INT64_MAX}};
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional(found->second);
}

std::int64_t value(const std::string& text) {
    return Expression(text).evaluate(known);
}

std::string refusal(const std::string& text) {
    return test::refusal_of([&] { Expression(text).evaluate(known); });
}

TEST(Expression, FollowsTheUsualPrecedence) {
    EXPECT_EQ(value("2 + 3 * 4"), 14);
    EXPECT_EQ(value("(2 + 3) * 4"), 20);
    EXPECT_EQ(value("20 - 3 - 4"), 13);
    EXPECT_EQ(value("100 / 7 % 5"), 4);
    EXPECT_EQ(value("-2 * -3"), 6);
    EXPECT_EQ(value("1 + 1 == 2 && 3 < 2 || 1"), 1);
    EXPECT_EQ(value("!0 + 1"), 2);
    EXPECT_EQ(value("1 != 1"), 0);
}

TEST(Expression, KnowsFunctionsAndNames) {
    EXPECT_EQ(value("ceil_div(m, block_m)"), 8);
    EXPECT_EQ(value("round_up(m, block_m)"), 1024);
    EXPECT_EQ(value("min(m, 3) + max(m, 3)"), 1003);
    EXPECT_EQ(value("dtype.f16 ? 2 : 4"), 2);
    EXPECT_EQ(value("ceil_div(-7, 2)"), -3);
    EXPECT_THAT(Expression("m * block_m + m - dtype.f16").names(), ElementsAre("m", "block_m", "dtype.f16"));
}

TEST(Expression, EvaluatesOnlyWhatItNeeds) {
    EXPECT_EQ(value("zero != 0 && m / zero > 1"), 0);
    EXPECT_EQ(value("zero == 0 || m / zero > 1"), 1);
    EXPECT_EQ(value("zero ? m / zero : 7"), 7);
    EXPECT_EQ(value("0 ? 1 : 0 ? 2 : 3"), 3);
}

TEST(Expression, RefusesWhatHasNoValue) {
    EXPECT_THAT(refusal("m / zero"), AllOf(HasSubstr("'m / zero'"), HasSubstr("division by zero")));
    EXPECT_THAT(refusal("m % zero"), HasSubstr("division by zero"));
    EXPECT_THAT(refusal("huge + 1"), HasSubstr("64 bits"));
    EXPECT_THAT(refusal("huge * 2"), HasSubstr("64 bits"));
    EXPECT_THAT(refusal("-(-huge - 1)"), HasSubstr("64 bits"));
    EXPECT_THAT(refusal("(-huge - 1) / -1"), HasSubstr("64 bits"));
    EXPECT_EQ(value("(-huge - 1) % -1"), 0);
    EXPECT_THAT(refusal("block_q"), HasSubstr("there is no 'block_q'"));
    EXPECT_THAT(refusal("ceil_div(3, -2)"), HasSubstr("positive"));
}

TEST(Expression, RefusesTextThatItDoesNotUnderstandWithItsPlace) {
    EXPECT_THAT(refusal("2 +"), AllOf(HasSubstr("'2 +'"), HasSubstr("value is missing"), HasSubstr("character 4")));
    EXPECT_THAT(refusal("2 3"), HasSubstr("an operator is missing before '3'"));
    EXPECT_THAT(refusal("(2"), HasSubstr("')' is missing"));
    EXPECT_THAT(refusal("1 ? 2"), HasSubstr("':' is missing"));
    EXPECT_THAT(refusal("cube(2)"), HasSubstr("no function 'cube'"));
    EXPECT_THAT(refusal("12ab"), HasSubstr("runs into a word"));
    EXPECT_THAT(refusal("99999999999999999999"), HasSubstr("64 bits"));
    EXPECT_THAT(refusal("a = 2"), HasSubstr("write == for '='"));
    EXPECT_THAT(refusal(""), HasSubstr("value is missing"));
    EXPECT_THAT(refusal("$"), HasSubstr("'$'"));
    EXPECT_THAT(refusal(std::string(100'000, '(')), HasSubstr("nested too deeply"));
    EXPECT_THAT(refusal(std::string(100'000, '-') + "1"), HasSubstr("nested too deeply"));
}

double number(const std::string& text) {
    return Expression(text).evaluate_number(known);
}

TEST(Expression, AFloatOnEitherSideMakesAFloat) {
    EXPECT_DOUBLE_EQ(number("2.0 * m"), 2000);
    EXPECT_DOUBLE_EQ(number("m / 3.0"), 1000 / 3.0);
    EXPECT_DOUBLE_EQ(number("1e-3 + 2.5E2"), 250.001);
    EXPECT_EQ(number("m / 3"), 333) << "of two integers it truncates";
    EXPECT_EQ(value("2.5 > 2 && 0.5 < 1"), 1);
    EXPECT_DOUBLE_EQ(number("sqrt(m * m)"), 1000);
    EXPECT_THAT(refusal("2.0 * m"), HasSubstr("a float stands where an integer is expected"));
    EXPECT_THAT(refusal("m % 2.0"), HasSubstr("a float"));
    EXPECT_THAT(refusal("sqrt(-1)"), HasSubstr("square root of a negative number"));
    EXPECT_THAT(refusal("1.0 / 0"), HasSubstr("division by zero"));
}

TEST(Expression, AChainOfComparisonsMeansAllOfThem) {
    EXPECT_EQ(value("64 <= m <= 1024"), 1);
    EXPECT_EQ(value("64 <= m <= 512"), 0) << "left to right this is (64 <= m) <= 512, which always holds";
    EXPECT_EQ(value("1 < 2 < 3 < 4"), 1);
    EXPECT_EQ(value("3 > 2 > 2"), 0);
    EXPECT_EQ(value("m == 1000 == 1000"), 1);
}

TEST(Expression, KnowsMembersAndMoreFunctions) {
    EXPECT_EQ(value("block_m in [64, 128]"), 1);
    EXPECT_EQ(value("block_m in [64, 256]"), 0);
    EXPECT_EQ(value("!(m in [1]) && m in [m]"), 1);
    EXPECT_EQ(value("min(4, 3, 2) + max(1, 5, 2)"), 7);
    EXPECT_EQ(value("abs(-7) + clamp(m, 1, 64)"), 71);
    EXPECT_EQ(value("log2(block_m) + pow2(3)"), 15);
    EXPECT_EQ(value("is_pow2(block_m) - is_pow2(m)"), 1);
    EXPECT_THAT(refusal("log2(m)"), HasSubstr("log2 takes a power of two, not 1000"));
    EXPECT_THAT(refusal("pow2(63)"), HasSubstr("pow2 takes 0 to 62"));
    EXPECT_THAT(refusal("clamp(1, 3, 2)"), HasSubstr("low end is above"));
    EXPECT_THAT(Expression("size_of(a)").names(), ElementsAre("a.type_bytes"));
}

TEST(Expression, ComparesWords) {
    const Expression::Scope scope = [](std::string_view name) -> std::optional<Expression::Value> {
        if (name == "layout") return "nn";
        if (name == "m") return std::int64_t{8};
        return std::nullopt;
    };
    const auto of = [&](const std::string& text) { return Expression(text).evaluate(scope); };
    EXPECT_EQ(of("layout == \"nn\" ? 2 : 4"), 2);
    EXPECT_EQ(of("layout == 'nt'"), 0);
    EXPECT_EQ(of("layout == nn"), 1) << "a bare word";
    EXPECT_EQ(of("nt != layout"), 1);
    EXPECT_EQ(of("layout in [nt, nn]"), 1);
    EXPECT_THAT(test::refusal_of([&] { of("layout == m"); }), HasSubstr("a word is compared with a number"));
    EXPECT_THAT(test::refusal_of([&] { of("layout + 1"); }), HasSubstr("the word 'nn' stands where a number is expected"));
    EXPECT_THAT(test::refusal_of([&] { of("layout"); }), HasSubstr("a word stands where an integer is expected"));
    EXPECT_TRUE(Expression("layout == nn").may_be_word("nn"));
    EXPECT_FALSE(Expression("layout == nn && nn > 1").may_be_word("nn"));
}

TEST(Expression, TellsThePlaceOfAnError) {
    try {
        Expression("m + 4 * (block_q - 1)").evaluate(known);
        FAIL();
    } catch (const ExpressionError& error) {
        EXPECT_EQ(error.reason, "there is no 'block_q'");
        EXPECT_EQ(error.offset, 9U);
        EXPECT_EQ(error.length, 7U);
    }
}

}  // namespace
}  // namespace autotune
