#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace autotune {

// The type of a tensor's elements in memory.
enum class DType : std::uint8_t { f16, bf16, f32, f64, e4m3, e5m2, i32, i8, u8, i16, u16, u32, i64, u64 };

enum class NumberKind : std::uint8_t { floating, integer };

// Everything that the host knows about an element type. Conversions, sizes, words and harness kernels follow from it, so a new
// type is one more row of kDTypes. Kernels that compute with a type also need its C++ type in a header of
// kernel_templates/common.
struct DTypeTraits {
    DType type;
    std::string_view word;  // the type's name in the command line, in the database and in device code
    NumberKind kind;
    int bits;
    int exponent_bits;    // 0 for integers
    int mantissa_bits;    // the stored bits without the hidden one; for an integer, its bits without the sign
    bool has_infinity;    // a floating-point type without infinity has one NaN of either sign, and conversions saturate
    int tensor_map_type;  // the value of CUtensorMapDataType; types that TMA does not know are copied as bytes
};

inline constexpr std::array<DTypeTraits, 14> kDTypes = {{
    {DType::f16, "f16", NumberKind::floating, 16, 5, 10, true, 6},
    {DType::bf16, "bf16", NumberKind::floating, 16, 8, 7, true, 9},
    {DType::f32, "f32", NumberKind::floating, 32, 8, 23, true, 7},
    {DType::f64, "f64", NumberKind::floating, 64, 11, 52, true, 8},
    {DType::e4m3, "e4m3", NumberKind::floating, 8, 4, 3, false, 0},
    {DType::e5m2, "e5m2", NumberKind::floating, 8, 5, 2, true, 0},
    {DType::i32, "i32", NumberKind::integer, 32, 0, 31, false, 3},
    {DType::i8, "i8", NumberKind::integer, 8, 0, 7, false, 0},
    {DType::u8, "u8", NumberKind::integer, 8, 0, 8, false, 0},
    {DType::i16, "i16", NumberKind::integer, 16, 0, 15, false, 1},
    {DType::u16, "u16", NumberKind::integer, 16, 0, 16, false, 1},
    {DType::u32, "u32", NumberKind::integer, 32, 0, 32, false, 2},
    {DType::i64, "i64", NumberKind::integer, 64, 0, 63, false, 5},
    {DType::u64, "u64", NumberKind::integer, 64, 0, 64, false, 4},
}};

constexpr const DTypeTraits& traits_of(DType type) {
    return kDTypes[static_cast<std::size_t>(type)];
}

// The spelling used in the command line, the database and templates: "f16", "bf16", ...
constexpr std::string_view to_string(DType type) {
    return traits_of(type).word;
}
std::optional<DType> parse_dtype(std::string_view text);
constexpr bool is_unsigned(DType type) {
    return traits_of(type).kind == NumberKind::integer && traits_of(type).mantissa_bits == traits_of(type).bits;
}
constexpr std::size_t size_bytes(DType type) {
    return static_cast<std::size_t>(traits_of(type).bits) / 8;
}

// Half an ulp at 1, the relative error of rounding a real number once to `type`: 2^-11 for f16, 2^-8 for bf16, 2^-24 for f32. 0
// for integers.
double unit_roundoff(DType type);
// Half the least positive number of `type`, or 0.5 for integers. It is the rounding error of numbers so small that a relative
// error means nothing.
double underflow_roundoff(DType type);
// The largest n such that `type` has every integer from 0 to n.
std::int64_t exact_integers(DType type);

// The bits of `value` rounded once to `type`: to nearest, ties to even. Beyond the largest finite number: infinity, or the
// largest finite number if the type has no infinity. NaN becomes 0 in an integer type. The device's conversions give the same
// bits.
std::uint64_t encode(DType type, double value);
// The value of the low size_bytes(type) bytes of `bits`. Exact, except for 64-bit integers above 2^53.
double decode(DType type, std::uint64_t bits);
// decode(encode(value)): the value of a number after it was stored.
double round_to(DType type, double value);

}  // namespace autotune
