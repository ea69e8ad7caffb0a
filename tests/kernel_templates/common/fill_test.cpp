#include "kernel_templates/harness/fill.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <set>

#include "kernel_templates/harness/harness.h"

namespace autotune::fill_test {
namespace {

constexpr int kSamples = 200'000;

double moment(int power) {
    double sum = 0;
    for (int i = 0; i < kSamples; ++i)
        sum += std::pow(fill_value(Fill::normal(), DType::f32, {7, 0, 0, i / 500, i % 500}), power);
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
        const double value = fill_value(Fill::integers(), DType::f16, {7, 1, 0, i / 500, i % 500});
        ++counts.at(static_cast<std::size_t>(value + 2));
    }
    for (const int count : counts) EXPECT_NEAR(count, kSamples / 5, kSamples / 100);
}

TEST(Fill, EveryCoordinateAndTheSeedMatter) {
    const FillPlace base = {7, 1, 2, 3, 4};
    const auto value = [](const FillPlace& place) { return fill_value(Fill::normal(), DType::f64, place); };
    EXPECT_EQ(value(base), value({7, 1, 2, 3, 4}));
    EXPECT_NE(value(base), value({8, 1, 2, 3, 4}));
    EXPECT_NE(value(base), value({7, 2, 2, 3, 4}));
    EXPECT_NE(value(base), value({7, 1, 3, 3, 4}));
    EXPECT_NE(value(base), value({7, 1, 2, 4, 4}));
    EXPECT_NE(value(base), value({7, 1, 2, 3, 5}));
}

// These are the values that autotune_fill writes on a GPU, computed by hand. A change here would invalidate every stored check.
TEST(Fill, IsTheSameForEver) {
    EXPECT_EQ(fill_value(Fill::integers(), DType::f16, {1, 0, 0, 0, 0}), 2);
    EXPECT_EQ(fill_value(Fill::normal(), DType::f64, {1, 0, 0, 0, 0}), 172240 / 131072.0);
}

TEST(Fill, EveryKeepsOneInSoManyAndZeroesTheRest) {
    Fill one_in_ten = Fill::normal();
    one_in_ten.every = 10;
    int kept = 0;
    for (int col = 0; col < 1000; ++col) kept += fill_value(one_in_ten, DType::f32, {1, 0, 0, 5, col}) != 0 ? 1 : 0;
    EXPECT_EQ(kept, 100);
}

// 10,000 elements in rows of 100.
std::vector<double> values_of(const Fill& fill, DType type) {
    Tensor tensor;
    tensor.dtype = type;
    tensor.dims = dense_dims({100, 100});
    return filled_tensor(fill, tensor, 0, 11);
}

TEST(Fill, NormalHasTheMeanAndTheDeviationAskedFor) {
    double sum = 0, squares = 0;
    for (const double value : values_of(Fill::normal(3, 0.5F), DType::f32)) {
        sum += value;
        squares += (value - 3) * (value - 3);
    }
    EXPECT_NEAR(sum / 10'000, 3, 0.02);
    EXPECT_NEAR(squares / 10'000, 0.25, 0.01);
}

TEST(Fill, IndicesAreInTheirRangeAndReachBothEnds) {
    const std::vector<double> values = values_of(Fill::indices(7), DType::i32);
    EXPECT_EQ(*std::min_element(values.begin(), values.end()), 0);
    EXPECT_EQ(*std::max_element(values.begin(), values.end()), 6);
}

TEST(Fill, OneHotHasOneHotColumnInEachRowAndNotAlwaysTheSame) {
    const std::vector<double> values = values_of(Fill::one_hot(4, -1), DType::f16);
    std::set<std::ptrdiff_t> columns;
    for (int row = 0; row < 100; ++row) {
        const auto first = values.begin() + row * 100;
        EXPECT_EQ(std::count(first, first + 100, 4.0), 1);
        EXPECT_EQ(std::count(first, first + 100, -1.0), 99);
        columns.insert(std::find(first, first + 100, 4.0) - first);
    }
    EXPECT_GT(columns.size(), 40U);
}

TEST(Fill, PowersArePositivePowersOfTwo) {
    for (const double value : values_of(Fill::powers(-2, 3), DType::f32)) {
        int exponent = 0;
        EXPECT_EQ(std::frexp(value, &exponent), 0.5);
        EXPECT_TRUE(exponent - 1 >= -2 && exponent - 1 <= 3) << value;
    }
}

TEST(Fill, UniformStaysInItsRange) {
    for (const double value : values_of(Fill::uniform(0.5F, 1.5F), DType::f32)) EXPECT_TRUE(value >= 0.5 && value < 2) << value;
}

TEST(Fill, OffsetsAscendAndNoPartIsLongerThanTheLongest) {
    for (const std::int64_t parts : {1, 2, 5, 64}) {
        for (const std::int64_t longest : {1, 7, 1000}) {
            for (const std::int64_t total : {longest, parts * longest / 2, parts * longest}) {
                if (total < longest) continue;
                std::int64_t before = 0;
                for (std::int64_t i = 0; i <= parts; ++i) {
                    const FillPlace place{.seed = 3, .col = i, .cols = parts + 1};
                    const auto offset =
                        static_cast<std::int64_t>(fill_value(Fill::offsets(total, parts, longest), DType::i32, place));
                    EXPECT_EQ(i == 0 ? offset : 0, 0);
                    EXPECT_EQ(i == parts ? offset : total, total);
                    EXPECT_GE(offset, before);
                    EXPECT_LE(offset - before, longest) << parts << " parts of " << total;
                    before = offset;
                }
            }
        }
    }
}

TEST(Fill, QuantisedValuesAreThoseOfTheNarrowerType) {
    for (const double value : values_of(Fill::quantised(DType::e4m3, 100), DType::f32)) {
        EXPECT_EQ(value, round_to(DType::e4m3, value));
        EXPECT_LE(std::fabs(value), 448);
    }
}

TEST(Fill, AConstantIsRoundedToTheType) {
    EXPECT_EQ(values_of(Fill::constant(1.3F), DType::e4m3).front(), 1.25);
}

TEST(Fill, TensorsKeepTheirGapsAsNan) {
    Tensor tensor;
    tensor.dtype = DType::bf16;
    tensor.dims = {{2, 4}, {3, 1}};
    const std::vector<double> values = filled_tensor(Fill::integers(), tensor, 0, 1);
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

TEST(Compare, HalfTheSpacingOfATypeGrowsWithThePowerOfTwoAndEndsAtTheLeastNormal) {
    EXPECT_EQ(half_spacing(DType::f16, 1.0), 0x1p-11);
    EXPECT_EQ(half_spacing(DType::f16, -1.99), 0x1p-11);
    EXPECT_EQ(half_spacing(DType::f16, 2.0), 0x1p-10);
    EXPECT_EQ(half_spacing(DType::f16, 0.0), 0x1p-25);
    EXPECT_EQ(half_spacing(DType::bf16, 4.0), 0x1p-6);
    EXPECT_EQ(half_spacing(DType::f32, 1.5), 0x1p-24);
}

// 2049 is halfway between 2048 and 2050 in f16, so both are right results.
TEST(Compare, WhatRoundingExplainsIsNoErrorOfAccumulation) {
    EXPECT_EQ(compare_one(2050, 2049, 1.25).max_ratio, 0.8);
    EXPECT_EQ(compare_one(2050, 2049, 1.25).max_accumulation, 0.0);
    EXPECT_EQ(compare_one(2048, 2049, 1.25).max_accumulation, 0.0);
}

TEST(Compare, AnErrorBeyondRoundingIsComparedWithTheRoomThatTheBoundLeavesForIt) {
    EXPECT_EQ(compare_one(2052, 2049, 5).max_accumulation, 0.5);  // 3 - 1 of 5 - 1
    EXPECT_EQ(compare_one(2052, 2049, 5).max_ratio, 0.6);
    EXPECT_EQ(compare_one(2052, 2049, 0).max_accumulation, 0.0) << "an exact test has no room";
    EXPECT_EQ(compare_one(2052, 2049, 0.5).max_accumulation, kInfiniteRatio);
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
    EXPECT_EQ(compare_one(inf, 1e6, 0).violations, 0U);  // The value is beyond f16, so infinity is the right result.
}

TEST(Compare, PassesAsksForTheNormOnlyWhereTheCheckDoes) {
    CompareResult result;
    result.sum_error2 = 1;
    result.sum_expected2 = 4;
    OutputCheck check;
    EXPECT_TRUE(passes(check, result));
    check.max_norm_ratio = 0.5;
    EXPECT_TRUE(passes(check, result));
    check.max_norm_ratio = 0.4;
    EXPECT_FALSE(passes(check, result));
}

// A NaN passes where NaN is right, but not the poison, which no kernel has written.
TEST(Compare, AnElementThatWasNotWrittenNeverPasses) {
    const double nan = std::nan("");
    CompareResult written, unwritten;
    compare_element(written, DType::f32, 0x7FFFFFFFU, nan, 1e-3, 0);
    EXPECT_EQ(written.violations, 0U);
    EXPECT_EQ(written.expected_nan, 1U);
    compare_element(unwritten, DType::f32, 0xFFFFFFFFU, nan, 1e-3, 3);
    EXPECT_EQ(unwritten.violations, 1U);
    EXPECT_EQ(unwritten.nan_count, 1U);
    EXPECT_EQ(unwritten.first_wrong(), 3U);
}

// 2^53 + 1 is no double.
TEST(Compare, IntegersOf64BitsAreComparedByTheirBits) {
    const std::uint64_t odd = (std::uint64_t{1} << 53) + 1;
    CompareResult same, other;
    compare_element(same, DType::i64, odd, std::bit_cast<double>(odd), 0, 0);
    EXPECT_EQ(same.violations, 0U);
    compare_element(other, DType::u64, odd - 1, std::bit_cast<double>(odd), 0, 7);
    EXPECT_EQ(other.violations, 1U);
    EXPECT_EQ(other.first_wrong(), 7U);
}

}  // namespace
}  // namespace autotune::fill_test
