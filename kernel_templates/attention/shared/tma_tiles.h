#pragma once

#include <cstdint>

#include "kernel_templates/attention/op/attention_problem.h"

// Tiles that TMA loads, for the families on wgmma (device code: hopper_tiles.cuh).
namespace autotune::attention {

// Columns of a tile in shared memory, rounded up to whole swizzle spans; and elements of such a span.
constexpr std::int64_t padded(std::int64_t columns) {
    return round_up(columns, 32);
}
constexpr std::int64_t span_of(std::int64_t columns) {
    return padded(columns) % 64 == 0 ? 64 : 32;
}

// A tensor of two-byte elements, loaded one span of columns by `rows` rows at a time.
TensorMapArg map_of(const Problem& problem, int tensor, std::int64_t rows);

}  // namespace autotune::attention
