#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "src/core/error.h"

namespace autotune {

// The number of pieces of size `by` that hold `value`. REQUIRES: value >= 0, by > 0, and their sum fits.
constexpr std::int64_t ceil_div(std::int64_t value, std::int64_t by) {
    return (value + by - 1) / by;
}
// The least multiple of `unit` that is at least `value`. REQUIRES: as for ceil_div().
constexpr std::int64_t round_up(std::int64_t value, std::int64_t unit) {
    return ceil_div(value, unit) * unit;
}

// left * right and left + right; nullopt if the result does not fit. For numbers from outside: extents, strides, sizes.
constexpr std::optional<std::int64_t> checked_product(std::int64_t left, std::int64_t right) {
    std::int64_t product = 0;
    if (__builtin_mul_overflow(left, right, &product)) return std::nullopt;
    return product;
}
constexpr std::optional<std::int64_t> checked_sum(std::int64_t left, std::int64_t right) {
    std::int64_t sum = 0;
    if (__builtin_add_overflow(left, right, &sum)) return std::nullopt;
    return sum;
}

// `value` as a narrower integer. All 64-bit numbers that become 32-bit arguments or grid extents go through this function. Throws
// Error{internal} if the value does not fit: that is a bug, since such problems are refused earlier.
template <std::integral To>
To narrow(std::integral auto value, const char* what = "a number of a launch") {
    if (!std::in_range<To>(value))
        internal_error(std::string(what) + " is " + std::to_string(value) + ", which does not fit " +
                       std::to_string(8 * sizeof(To)) + " bits");
    return static_cast<To>(value);
}

}  // namespace autotune
