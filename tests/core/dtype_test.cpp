#include "src/core/problem/dtype.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace autotune {
namespace {

constexpr std::array kSmallTypes = {DType::f16, DType::bf16, DType::e4m3, DType::e5m2};

TEST(DType, EveryTypeParsesFromItsOwnWord) {
    for (const DTypeTraits& row : kDTypes) EXPECT_EQ(parse_dtype(row.word), row.type);
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
    EXPECT_EQ(round_to(DType::f16, 2049.0000001), 2050.0);  // if it were rounded to f32 first, it would be a tie
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

// ---- against independent definitions ----

// The two 8-bit formats as defined by Micikevicius et al. (FP8 formats for deep learning, 2022), in plain arithmetic.
double defined_e4m3(unsigned code) {
    const unsigned exponent = code / 8 % 16, mantissa = code % 8;
    if (exponent == 15 && mantissa == 7) return std::nan("");
    const double magnitude =
        exponent == 0 ? mantissa / 8.0 * std::pow(2, -6) : (1 + mantissa / 8.0) * std::pow(2, exponent - 7.0);
    return code >= 128 ? -magnitude : magnitude;
}

double defined_e5m2(unsigned code) {
    const unsigned exponent = code / 4 % 32, mantissa = code % 4;
    const double sign = code >= 128 ? -1 : 1;
    if (exponent == 31) return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
    return sign * (exponent == 0 ? mantissa / 4.0 * std::pow(2, -14) : (1 + mantissa / 4.0) * std::pow(2, exponent - 15.0));
}

double defined(DType type, unsigned code) {
    if (type == DType::i8) return code < 128 ? code : static_cast<double>(code) - 256;
    return type == DType::e4m3 ? defined_e4m3(code) : defined_e5m2(code);
}

constexpr std::array kByteTypes = {DType::e4m3, DType::e5m2, DType::i8};

TEST(DType, EveryCodeOfAByteStandsForWhatTheDefinitionSays) {
    for (const DType type : kByteTypes) {
        for (unsigned code = 0; code < 256; ++code) {
            const double right = defined(type, code), found = decode(type, code);
            if (std::isnan(right)) {
                EXPECT_TRUE(std::isnan(found)) << to_string(type) << " " << code;
            } else {
                EXPECT_EQ(found, right) << to_string(type) << " " << code;
                EXPECT_EQ(std::signbit(found), std::signbit(right)) << to_string(type) << " " << code;
                EXPECT_EQ(encode(type, right), code) << to_string(type) << " " << code;
            }
        }
    }
}

// The nearest of all codes, and of two equally near ones the even one. Half a step or more beyond the largest it is infinity, if
// the type has one.
std::uint64_t nearest_code(DType type, double value) {
    unsigned best = 0;
    double best_distance = std::numeric_limits<double>::infinity();
    double largest = 0, step = 0;
    for (unsigned code = 0; code < 128; ++code) {
        const double candidate = defined(type, code);
        if (!std::isfinite(candidate)) continue;
        step = candidate - largest;
        largest = candidate;
    }
    for (unsigned code = 0; code < 256; ++code) {
        const double candidate = defined(type, code);
        if (!std::isfinite(candidate) || (candidate == 0 && std::signbit(candidate) != std::signbit(value) && type != DType::i8))
            continue;
        const double distance = std::fabs(candidate - value);
        if (distance > best_distance || (distance == best_distance && code % 2 != 0)) continue;
        best = code;
        best_distance = distance;
    }
    if (type == DType::e5m2 && std::fabs(value) >= largest + step / 2) return value < 0 ? 0xFCU : 0x7CU;
    return best;
}

TEST(DType, EncodesToTheNearestCodeOfAByte) {
    for (const DType type : kByteTypes) {
        std::vector<double> values = {1e-9, 460, 464, 465, 480, 500, 57343, 57344, 61439, 61440, 1e6, 126.5, 127.4, 127.6, 128.5};
        for (unsigned code = 0; code + 1 < 128; ++code) {
            const double low = defined(type, code), high = defined(type, code + 1);
            if (!std::isfinite(low) || !std::isfinite(high)) continue;
            for (const double part : {0.0, 0.25, 0.499, 0.5, 0.501, 0.75}) values.push_back(low + (high - low) * part);
        }
        for (const double value : values) {
            EXPECT_EQ(encode(type, value), nearest_code(type, value)) << to_string(type) << " of " << value;
            EXPECT_EQ(encode(type, -value), nearest_code(type, -value)) << to_string(type) << " of " << -value;
        }
    }
}

TEST(DType, IntegersSaturateAndTakeNoNan) {
    EXPECT_EQ(round_to(DType::i8, 1000), 127);
    EXPECT_EQ(round_to(DType::i8, -1000), -128);
    EXPECT_EQ(round_to(DType::i8, 2.5), 2);
    EXPECT_EQ(round_to(DType::i32, 3e9), 2147483647);
    EXPECT_EQ(round_to(DType::i32, -3e9), -2147483648.0);
    EXPECT_EQ(encode(DType::i32, -1), 0xFFFFFFFFU);
    EXPECT_EQ(encode(DType::i8, std::nan("")), 0U);
    EXPECT_EQ(unit_roundoff(DType::i8), 0);
}

TEST(DType, IntegersOfAllWidthsSaturate) {
    EXPECT_EQ(encode(DType::u8, 255.4), 255U);
    EXPECT_EQ(encode(DType::u8, 300), 255U);
    EXPECT_EQ(encode(DType::u8, -3), 0U);
    EXPECT_EQ(decode(DType::u8, 200), 200);
    EXPECT_EQ(encode(DType::i16, -40000), 0x8000U);
    EXPECT_EQ(decode(DType::i16, 0xFFFF), -1);
    EXPECT_EQ(decode(DType::u16, 0xFFFF), 65535);
    EXPECT_EQ(encode(DType::u32, 4294967295.0), 0xFFFFFFFFU);
    EXPECT_EQ(decode(DType::u32, 0xFFFFFFFFU), 4294967295.0);
    EXPECT_EQ(encode(DType::u64, 1e30), ~std::uint64_t{0});
    EXPECT_EQ(encode(DType::i64, 1e30), ~std::uint64_t{0} >> 1);
    EXPECT_EQ(encode(DType::i64, -1e30), std::uint64_t{1} << 63);
    EXPECT_EQ(decode(DType::i64, ~std::uint64_t{0}), -1);
    EXPECT_TRUE(is_unsigned(DType::u16) && is_unsigned(DType::u64));
    EXPECT_FALSE(is_unsigned(DType::i64) || is_unsigned(DType::f32));
}

TEST(DType, UnderflowLosesHalfTheLeastNumber) {
    EXPECT_EQ(underflow_roundoff(DType::f16), std::ldexp(1.0, -25));
    EXPECT_EQ(underflow_roundoff(DType::bf16), std::ldexp(1.0, -134));
    EXPECT_EQ(underflow_roundoff(DType::f32), std::ldexp(1.0, -150));
    EXPECT_EQ(underflow_roundoff(DType::e4m3), std::ldexp(1.0, -10));
}

TEST(DType, HasEveryIntegerUpToItsLimit) {
    for (const DTypeTraits& row : kDTypes) {
        if (row.bits == 64) continue;  // the next number is not valid either
        const auto most = static_cast<double>(exact_integers(row.type));
        EXPECT_EQ(round_to(row.type, most), most) << row.word;
        EXPECT_NE(round_to(row.type, most + 1), most + 1) << row.word;
    }
}

}  // namespace
}  // namespace autotune
