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
    EXPECT_THAT(refusal("2 3"), HasSubstr("left over"));
    EXPECT_THAT(refusal("(2"), HasSubstr("')' is missing"));
    EXPECT_THAT(refusal("1 ? 2"), HasSubstr("':' is missing"));
    EXPECT_THAT(refusal("abs(2)"), HasSubstr("no function 'abs'"));
    EXPECT_THAT(refusal("12ab"), HasSubstr("runs into a word"));
    EXPECT_THAT(refusal("99999999999999999999"), HasSubstr("64 bits"));
    EXPECT_THAT(refusal("a = 2"), HasSubstr("left over"));
    EXPECT_THAT(refusal(""), HasSubstr("value is missing"));
    EXPECT_THAT(refusal("$"), HasSubstr("'$'"));
    EXPECT_THAT(refusal(std::string(100'000, '(')), HasSubstr("nested too deeply"));
    EXPECT_THAT(refusal(std::string(100'000, '-') + "1"), HasSubstr("nested too deeply"));
}

}  // namespace
}  // namespace autotune
