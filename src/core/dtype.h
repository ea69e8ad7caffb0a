#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace autotune {

// The type of an operand's elements in memory.
enum class DType : std::uint8_t { f16, bf16, f32, f64, e4m3, e5m2, i32 };

// The spelling used in the command line, the database and templates: "f16", "bf16", ...
std::string_view to_string(DType type);
std::optional<DType> parse_dtype(std::string_view text);
std::size_t size_bytes(DType type);

// Half an ulp at 1, the relative error of rounding a real number once to `type`: 2^-11 for f16, 2^-8 for bf16, 2^-24 for f32.
double unit_roundoff(DType type);

// The bits of `value` rounded once to `type`: to nearest, ties to even; beyond the largest finite number infinity, or that number
// for e4m3, which has none. The device's conversions give the same bits.
std::uint64_t encode(DType type, double value);
// The value that the low size_bytes(type) bytes of `bits` stand for. Exact.
double decode(DType type, std::uint64_t bits);
// decode(encode(value)): what is left of a number once it is stored.
double round_to(DType type, double value);

}  // namespace autotune
