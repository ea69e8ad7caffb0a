#include "src/core/dtype.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "src/core/error.h"

namespace autotune {
namespace {

struct TypeFacts {
    DType type;
    std::string_view word;
    std::size_t bytes;
    int mantissa_bits;  // stored, without the hidden one
};

constexpr std::array<TypeFacts, 7> kTypes = {{
    {DType::f16, "f16", 2, 10},
    {DType::bf16, "bf16", 2, 7},
    {DType::f32, "f32", 4, 23},
    {DType::f64, "f64", 8, 52},
    {DType::e4m3, "e4m3", 1, 3},
    {DType::e5m2, "e5m2", 1, 2},
    {DType::i32, "i32", 4, 31},
}};

const TypeFacts& facts(DType type) {
    for (const TypeFacts& entry : kTypes) {
        if (entry.type == type) return entry;
    }
    throw Error(ErrorCode::internal, "internal error: unknown element type");
}

// A floating-point format of at most 16 bits.
struct SmallFloat {
    int exponent_bits;
    int mantissa_bits;
    bool has_infinity;

    int bias() const { return (1 << (exponent_bits - 1)) - 1; }
    int least_exponent() const { return 1 - bias(); }
    std::uint64_t exponent_mask() const { return (1U << exponent_bits) - 1; }
    std::uint64_t mantissa_mask() const { return (1U << mantissa_bits) - 1; }
    std::uint64_t sign_bit() const { return std::uint64_t{1} << (exponent_bits + mantissa_bits); }
    std::uint64_t nan_bits() const { return sign_bit() - 1; }
    // The first pattern above the finite ones: infinity, or the only NaN where there is no infinity.
    std::uint64_t end_of_finite() const { return has_infinity ? exponent_mask() << mantissa_bits : nan_bits(); }
};

SmallFloat small_float(DType type) {
    switch (type) {
        case DType::f16:
            return {5, 10, true};
        case DType::bf16:
            return {8, 7, true};
        case DType::e4m3:
            return {4, 3, false};
        case DType::e5m2:
            return {5, 2, true};
        default:
            throw Error(ErrorCode::internal, "internal error: not a small floating-point type");
    }
}

std::uint64_t encode_small(const SmallFloat& format, double value) {
    if (std::isnan(value)) return format.nan_bits();
    const std::uint64_t sign = std::signbit(value) ? format.sign_bit() : 0;
    const double magnitude = std::fabs(value);
    const std::uint64_t past_end = format.has_infinity ? format.end_of_finite() : format.end_of_finite() - 1;
    if (magnitude >= std::ldexp(1.0, format.bias() + 2)) return sign | past_end;

    int exponent = 0;
    std::frexp(magnitude, &exponent);
    exponent = magnitude == 0 ? format.least_exponent() : std::max(exponent - 1, format.least_exponent());
    // In units of the last place; rounding up to the next power of two carries into the exponent field by itself.
    const auto units = static_cast<std::uint64_t>(std::nearbyint(std::ldexp(magnitude, format.mantissa_bits - exponent)));
    const auto steps = static_cast<std::uint64_t>(exponent - format.least_exponent());
    const std::uint64_t bits = (steps << format.mantissa_bits) + units;
    return sign | std::min(bits, past_end);
}

double decode_small(const SmallFloat& format, std::uint64_t bits) {
    const std::uint64_t magnitude = bits & (format.sign_bit() - 1);
    const double sign = (bits & format.sign_bit()) != 0 ? -1.0 : 1.0;
    if (format.has_infinity && magnitude == format.end_of_finite()) return sign * std::numeric_limits<double>::infinity();
    if (magnitude >= format.end_of_finite()) return std::numeric_limits<double>::quiet_NaN();
    const auto exponent = static_cast<int>(magnitude >> format.mantissa_bits);
    const auto mantissa = static_cast<double>(magnitude & format.mantissa_mask());
    if (exponent == 0) return sign * std::ldexp(mantissa, format.least_exponent() - format.mantissa_bits);
    const double significand = mantissa + std::ldexp(1.0, format.mantissa_bits);
    return sign * std::ldexp(significand, exponent - format.bias() - format.mantissa_bits);
}

std::uint64_t encode_i32(double value) {
    if (std::isnan(value)) return 0;
    const double low = std::numeric_limits<std::int32_t>::min();
    const double high = std::numeric_limits<std::int32_t>::max();
    const auto rounded = static_cast<std::int32_t>(std::nearbyint(std::fmin(std::fmax(value, low), high)));
    return static_cast<std::uint32_t>(rounded);
}

}  // namespace

std::string_view to_string(DType type) {
    return facts(type).word;
}

std::optional<DType> parse_dtype(std::string_view text) {
    for (const TypeFacts& entry : kTypes) {
        if (entry.word == text) return entry.type;
    }
    return std::nullopt;
}

std::size_t size_bytes(DType type) {
    return facts(type).bytes;
}

double unit_roundoff(DType type) {
    return type == DType::i32 ? 0.0 : std::ldexp(1.0, -facts(type).mantissa_bits - 1);
}

std::uint64_t encode(DType type, double value) {
    switch (type) {
        case DType::f32:
            return std::bit_cast<std::uint32_t>(static_cast<float>(value));
        case DType::f64:
            return std::bit_cast<std::uint64_t>(value);
        case DType::i32:
            return encode_i32(value);
        default:
            return encode_small(small_float(type), value);
    }
}

double decode(DType type, std::uint64_t bits) {
    switch (type) {
        case DType::f32:
            return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
        case DType::f64:
            return std::bit_cast<double>(bits);
        case DType::i32:
            return static_cast<std::int32_t>(static_cast<std::uint32_t>(bits));
        default:
            return decode_small(small_float(type), bits);
    }
}

double round_to(DType type, double value) {
    return decode(type, encode(type, value));
}

}  // namespace autotune
