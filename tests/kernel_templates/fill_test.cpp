#include "kernel_templates/common/fill.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "kernel_templates/common/harness.h"

namespace autotune {
namespace {

constexpr int kSamples = 200'000;

double moment(int power) {
    double sum = 0;
    for (int i = 0; i < kSamples; ++i)
        sum += std::pow(fill_value({Fill::Kind::normal, 1}, DType::f32, {7, 0, 0, i / 500, i % 500}), power);
    return sum / kSamples;
}

TEST(Fill, NormalHasTheMomentsOfN01) {
    EXPECT_NEAR(moment(1), 0.0, 0.01);
    EXPECT_NEAR(moment(2), 1.0, 0.02);
    EXPECT_NEAR(moment(3), 0.0, 0.05);
    EXPECT_NEAR(moment(4), 2.9, 0.1);  // 3 - 6/5/12: twelve summands
}

TEST(Fill, IntegersAreUniformInMinusTwoToTwo) {
    std::array<int, 5> counts{};
    for (int i = 0; i < kSamples; ++i) {
        const double value = fill_value({Fill::Kind::integers, 1}, DType::f16, {7, 1, 0, i / 500, i % 500});
        ++counts.at(static_cast<std::size_t>(value + 2));
    }
    for (const int count : counts) EXPECT_NEAR(count, kSamples / 5, kSamples / 100);
}

TEST(Fill, EveryCoordinateAndTheSeedMatter) {
    const FillPlace base = {7, 1, 2, 3, 4};
    const auto value = [](const FillPlace& place) { return fill_value({Fill::Kind::normal, 1}, DType::f64, place); };
    EXPECT_EQ(value(base), value({7, 1, 2, 3, 4}));
    EXPECT_NE(value(base), value({8, 1, 2, 3, 4}));
    EXPECT_NE(value(base), value({7, 2, 2, 3, 4}));
    EXPECT_NE(value(base), value({7, 1, 3, 3, 4}));
    EXPECT_NE(value(base), value({7, 1, 2, 4, 4}));
    EXPECT_NE(value(base), value({7, 1, 2, 3, 5}));
}

// What autotune_fill writes on a GPU, computed by hand: a change here is a change of what every stored check was made of.
TEST(Fill, IsTheSameForEver) {
    EXPECT_EQ(fill_value({Fill::Kind::integers, 1}, DType::f16, {1, 0, 0, 0, 0}), 2);
    EXPECT_EQ(fill_value({Fill::Kind::normal, 1}, DType::f64, {1, 0, 0, 0, 0}), 172240 / 131072.0);
}

TEST(Fill, EveryKeepsOneInSoManyAndZeroesTheRest) {
    int kept = 0;
    for (int col = 0; col < 1000; ++col) kept += fill_value({Fill::Kind::normal, 10}, DType::f32, {1, 0, 0, 5, col}) != 0 ? 1 : 0;
    EXPECT_EQ(kept, 100);
}

TEST(Fill, OperandsKeepTheirGapsAsNan) {
    Operand operand;
    operand.dtype = DType::bf16;
    operand.rows = 2;
    operand.cols = 3;
    operand.ld = 4;
    const std::vector<double> values = filled_operand({Fill::Kind::integers, 1}, operand, 0, 1);
    ASSERT_EQ(values.size(), 7U);
    EXPECT_TRUE(std::isnan(values[3]));
    EXPECT_FALSE(std::isnan(values[4]));
}

CompareResult compare_one(double out, double expected, double bound) {
    CompareResult result;
    compare_element(result, DType::f16, encode(DType::f16, out), expected, bound, 5);
    return result;
}

TEST(Compare, AZeroBoundAsksForTheRoundedBits) {
    EXPECT_EQ(compare_one(2050, 2049.5, 0).violations, 0U);
    EXPECT_EQ(compare_one(2048, 2049.5, 0).violations, 1U);
    EXPECT_EQ(compare_one(2048, 2049.5, 0).first_wrong(), 5U);
}

TEST(Compare, ABoundIsInclusive) {
    EXPECT_EQ(compare_one(1.5, 1.0, 0.5).violations, 0U);
    EXPECT_EQ(compare_one(1.5, 1.0, 0.5).max_ratio, 1.0);
    EXPECT_EQ(compare_one(1.5, 1.0, 0.25).violations, 1U);
}

TEST(Compare, CountsNanOnlyWhereANumberWasExpected) {
    const double nan = std::nan("");
    EXPECT_EQ(compare_one(nan, 1.0, 10).nan_count, 1U);
    EXPECT_EQ(compare_one(nan, 1.0, 10).violations, 1U);
    EXPECT_EQ(compare_one(nan, nan, 10).violations, 0U);
    EXPECT_EQ(compare_one(1.0, nan, 10).violations, 1U);
}

TEST(Compare, EqualInfinitiesAgree) {
    const double inf = std::numeric_limits<double>::infinity();
    EXPECT_EQ(compare_one(inf, inf, 1).violations, 0U);
    EXPECT_EQ(compare_one(-inf, inf, 1).violations, 1U);
    EXPECT_EQ(compare_one(65504, inf, 1).violations, 1U);
    EXPECT_EQ(compare_one(inf, 1e6, 0).violations, 0U);  // beyond f16, so infinity is the right answer
}

TEST(Compare, PassesAsksForTheNormOnlyWhereTheCheckDoes) {
    CompareResult result;
    result.sum_error2 = 1;
    result.sum_expected2 = 4;
    Check check;
    EXPECT_TRUE(passes(check, result));
    check.max_norm_ratio = 0.5;
    EXPECT_TRUE(passes(check, result));
    check.max_norm_ratio = 0.4;
    EXPECT_FALSE(passes(check, result));
}

}  // namespace
}  // namespace autotune
