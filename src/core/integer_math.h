#pragma once

#include <cstdint>

namespace autotune {

// How many of `by` it takes to hold `value`. REQUIRES: value >= 0, by > 0, and their sum fits.
constexpr std::int64_t ceil_div(std::int64_t value, std::int64_t by) {
    return (value + by - 1) / by;
}
// The least multiple of `unit` that is not below `value`. REQUIRES: as ceil_div().
constexpr std::int64_t round_up(std::int64_t value, std::int64_t unit) {
    return ceil_div(value, unit) * unit;
}

}  // namespace autotune
