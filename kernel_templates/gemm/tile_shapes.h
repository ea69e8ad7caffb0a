#pragma once

#include <cstdint>

#include "kernel_templates/gemm/family_parts.h"

// What follows from a family's Shape, whatever else it has, where its members have these names.
namespace autotune::gemm {

template <class Shape>
BlockOrder order_of(const Shape& s) {
    return {s.block_m, s.block_n, s.raster, s.swizzle_stride};
}

// Blocks of one part of K.
template <class Shape>
std::int64_t tiles(const Gemm& g, const Shape& s) {
    return ceil_div(g.m, s.block_m) * ceil_div(g.n, s.block_n) * g.batch;
}

// How much of K a part is.
template <class Shape>
std::int64_t k_per_split(const Gemm& g, const Shape& s) {
    return round_up(ceil_div(g.k, s.split_k), s.block_k);
}

}  // namespace autotune::gemm
