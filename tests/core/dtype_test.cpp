#include "src/core/dtype.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

namespace autotune {
namespace {

constexpr std::array kAllTypes = {DType::f16, DType::bf16, DType::f32, DType::f64, DType::e4m3, DType::e5m2, DType::i32};
constexpr std::array kSmallTypes = {DType::f16, DType::bf16, DType::e4m3, DType::e5m2};

TEST(DType, EveryTypeParsesFromItsOwnWord) {
    for (const DType type : kAllTypes) EXPECT_EQ(parse_dtype(to_string(type)), type);
    EXPECT_EQ(parse_dtype("f17"), std::nullopt);
    EXPECT_EQ(parse_dtype(""), std::nullopt);
}

TEST(DType, RoundoffIsHalfAnUlpAtOne) {
    EXPECT_EQ(unit_roundoff(DType::f16), std::ldexp(1.0, -11));
    EXPECT_EQ(unit_roundoff(DType::bf16), std::ldexp(1.0, -8));
    EXPECT_EQ(unit_roundoff(DType::f32), std::ldexp(1.0, -24));
    EXPECT_EQ(unit_roundoff(DType::e4m3), std::ldexp(1.0, -4));
}

TEST(DType, EveryFinitePatternOfASmallTypeSurvivesARoundTrip) {
    for (const DType type : kSmallTypes) {
        const std::uint64_t patterns = std::uint64_t{1} << (8 * size_bytes(type));
        for (std::uint64_t bits = 0; bits < patterns; ++bits) {
            const double value = decode(type, bits);
            if (std::isnan(value)) continue;
            ASSERT_EQ(encode(type, value), bits) << to_string(type) << " pattern " << bits;
        }
    }
}

TEST(DType, RoundsToNearestWithTiesToEven) {
    EXPECT_EQ(round_to(DType::f16, 2049.0), 2048.0);
    EXPECT_EQ(round_to(DType::f16, 2051.0), 2052.0);
    EXPECT_EQ(round_to(DType::f16, 2049.0000001), 2050.0);  // through f32 this would be a tie
    EXPECT_EQ(round_to(DType::bf16, 257.0), 256.0);
    EXPECT_EQ(round_to(DType::bf16, 259.0), 260.0);
    EXPECT_EQ(round_to(DType::f32, 16777217.0), 16777216.0);
}

TEST(DType, RoundsSubnormalsAndUnderflow) {
    EXPECT_EQ(encode(DType::f16, std::ldexp(1.0, -24)), 1U);
    EXPECT_EQ(encode(DType::f16, std::ldexp(1.0, -25)), 0U);
    EXPECT_EQ(encode(DType::f16, std::ldexp(1.5, -25)), 1U);
    EXPECT_EQ(encode(DType::f16, -0.0), 0x8000U);
}

TEST(DType, OverflowIsInfinityWhereThereIsOne) {
    EXPECT_EQ(round_to(DType::f16, 65519.0), 65504.0);
    EXPECT_TRUE(std::isinf(round_to(DType::f16, 65520.0)));
    EXPECT_TRUE(std::isinf(round_to(DType::bf16, 1e39)));
    EXPECT_EQ(round_to(DType::e4m3, -1e9), -448.0);
    EXPECT_TRUE(std::isinf(round_to(DType::e5m2, -1e9)));
}

TEST(DType, RoundToAgreesWithEncodeBetweenAllNeighbours) {
    for (const DType type : kSmallTypes) {
        const std::uint64_t patterns = std::uint64_t{1} << (8 * size_bytes(type) - 1);
        for (std::uint64_t bits = 0; bits + 1 < patterns; ++bits) {
            const double low = decode(type, bits);
            const double high = decode(type, bits + 1);
            if (!std::isfinite(low) || !std::isfinite(high)) continue;
            for (const double part : {0.25, 0.5, 0.75}) {
                const double value = -(low + (high - low) * part);
                ASSERT_EQ(round_to(type, value), decode(type, encode(type, value))) << to_string(type) << " of " << value;
            }
        }
    }
}

TEST(DType, NanStaysNan) {
    for (const DType type : kSmallTypes) EXPECT_TRUE(std::isnan(round_to(type, std::numeric_limits<double>::quiet_NaN())));
}

}  // namespace
}  // namespace autotune
