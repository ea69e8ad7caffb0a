#include "src/core/problem/dtype.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace autotune {
namespace {

constexpr bool rows_stand_at_their_types() {
    for (std::size_t i = 0; i < kDTypes.size(); ++i) {
        if (static_cast<std::size_t>(kDTypes[i].type) != i) return false;
    }
    return true;
}
static_assert(rows_stand_at_their_types(), "traits_of() finds a row by its type's number");

// 2^exponent, a normal number. The functions of libm take ten times as long, and verifiers convert every element of a tensor.
double power_of_two(int exponent) {
    return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

// The nearest integer (ties to even) of 0 <= value < 2^52. After 2^52 is added the unit of the last place is 1, so the addition
// rounds.
double nearest_integer(double value) {
    constexpr double unit_is_1 = 4503599627370496.0;  // 2^52
    return (value + unit_is_1) - unit_is_1;
}

// A floating-point format of at most 16 bits.
struct SmallFloat {
    int exponent_bits;
    int mantissa_bits;
    bool has_infinity;

    explicit SmallFloat(const DTypeTraits& traits)
        : exponent_bits(traits.exponent_bits), mantissa_bits(traits.mantissa_bits), has_infinity(traits.has_infinity) {}

    int bias() const { return (1 << (exponent_bits - 1)) - 1; }
    int least_exponent() const { return 1 - bias(); }
    std::uint64_t exponent_mask() const { return (1U << exponent_bits) - 1; }
    std::uint64_t mantissa_mask() const { return (1U << mantissa_bits) - 1; }
    std::uint64_t sign_bit() const { return std::uint64_t{1} << (exponent_bits + mantissa_bits); }
    std::uint64_t nan_bits() const { return sign_bit() - 1; }
    // The first bit pattern after the finite ones: infinity, or the only NaN if there is no infinity.
    std::uint64_t end_of_finite() const { return has_infinity ? exponent_mask() << mantissa_bits : nan_bits(); }
};

std::uint64_t encode_small(const SmallFloat& format, double value) {
    if (std::isnan(value)) return format.nan_bits();
    const std::uint64_t sign = std::signbit(value) ? format.sign_bit() : 0;
    const double magnitude = std::fabs(value);
    const std::uint64_t past_end = format.has_infinity ? format.end_of_finite() : format.end_of_finite() - 1;
    if (magnitude >= power_of_two(format.bias() + 2)) return sign | past_end;

    const int exponent =
        std::max(static_cast<int>(std::bit_cast<std::uint64_t>(magnitude) >> 52) - 1023, format.least_exponent());
    // In units of the last place. Rounding up to the next power of two carries into the exponent field, as it should.
    const auto units = static_cast<std::uint64_t>(nearest_integer(magnitude * power_of_two(format.mantissa_bits - exponent)));
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
    if (exponent == 0) return sign * (mantissa * power_of_two(format.least_exponent() - format.mantissa_bits));
    const double significand = mantissa + power_of_two(format.mantissa_bits);
    return sign * (significand * power_of_two(exponent - format.bias() - format.mantissa_bits));
}

// Saturates. Negative numbers are in two's complement.
std::uint64_t encode_integer(const DTypeTraits& traits, double value) {
    if (std::isnan(value)) return 0;
    const double rounded = std::nearbyint(value), limit = std::ldexp(1.0, traits.mantissa_bits);
    const std::uint64_t most = ~std::uint64_t{0} >> (64 - traits.mantissa_bits);
    const std::uint64_t mask = ~std::uint64_t{0} >> (64 - traits.bits);
    if (rounded >= limit) return most;
    if (is_unsigned(traits.type)) return rounded <= 0 ? 0 : static_cast<std::uint64_t>(rounded);
    if (rounded <= -limit) return ~most & mask;
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(rounded)) & mask;
}

double decode_integer(const DTypeTraits& traits, std::uint64_t bits) {
    const int unused = 64 - traits.bits;
    if (is_unsigned(traits.type)) return static_cast<double>(bits << unused >> unused);
    return static_cast<double>(static_cast<std::int64_t>(bits << unused) >> unused);
}

}  // namespace

std::optional<DType> parse_dtype(std::string_view text) {
    for (const DTypeTraits& row : kDTypes) {
        if (row.word == text) return row.type;
    }
    return std::nullopt;
}

double unit_roundoff(DType type) {
    const DTypeTraits& traits = traits_of(type);
    return traits.kind == NumberKind::integer ? 0.0 : std::ldexp(1.0, -traits.mantissa_bits - 1);
}

double underflow_roundoff(DType type) {
    const DTypeTraits& traits = traits_of(type);
    if (traits.kind == NumberKind::integer) return 0.5;
    const int least_exponent = 2 - (1 << (traits.exponent_bits - 1));
    return std::ldexp(1.0, least_exponent - traits.mantissa_bits - 1);
}

std::int64_t exact_integers(DType type) {
    const DTypeTraits& traits = traits_of(type);
    const int digits = traits.mantissa_bits + (traits.kind == NumberKind::floating ? 1 : 0);
    constexpr int kMostDigits = 62;
    return (std::int64_t{1} << std::min(digits, kMostDigits)) - (traits.kind == NumberKind::floating ? 0 : 1);
}

std::uint64_t encode(DType type, double value) {
    const DTypeTraits& traits = traits_of(type);
    if (traits.kind == NumberKind::integer) return encode_integer(traits, value);
    if (type == DType::f64) return std::bit_cast<std::uint64_t>(value);
    if (type == DType::f32) return std::bit_cast<std::uint32_t>(static_cast<float>(value));
    return encode_small(SmallFloat(traits), value);
}

double decode(DType type, std::uint64_t bits) {
    const DTypeTraits& traits = traits_of(type);
    if (traits.kind == NumberKind::integer) return decode_integer(traits, bits);
    if (type == DType::f64) return std::bit_cast<double>(bits);
    if (type == DType::f32) return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    return decode_small(SmallFloat(traits), bits);
}

double round_to(DType type, double value) {
    return decode(type, encode(type, value));
}

}  // namespace autotune
