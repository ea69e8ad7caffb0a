// Stores of C from registers. REQUIRES gemm/fp8_output.cuh, gemm/hopper_schedule.cuh and, as constants before the include: swap_ab, align_c,
// reads_c.
#pragma once

namespace {

// `value`: what alpha and the scales made of a sum.
__device__ __forceinline__ float with_c(const Output& out, const Out* c, float value) {
    return !reads_c || out.beta == 0.0f ? value : value + out.beta * to_f32(*c);
}

__device__ __forceinline__ void store_one(const Output& out, const Shape& s, const Tile& tile, int row, int col, float value) {
    if (row >= s.m || col >= s.n) return;
    Out* to = out.c + tile.batch * out.stride_c + (swap_ab ? col * out.ldc + row : row * out.ldc + col);
    *to = from_f32<Out>(with_c(out, to, value));
}

// Two neighbouring columns at (row, col), scaled, with bounds.
__device__ __forceinline__ void store_pair(const Output& out, const Shape& s, const Tile& tile, int row, int col, const Pair& sums) {
    if (!swap_ab && align_c >= 2 * sizeof(Out) && row < s.m && col + 1 < s.n) {
        Out* to = out.c + tile.batch * out.stride_c + row * out.ldc + col;
        const float first = with_c(out, to, sums.low);
        const float second = with_c(out, to + 1, sums.high);
        if constexpr (sizeof(Out) == 4)
            *reinterpret_cast<float2*>(to) = make_float2(first, second);
        else
            *reinterpret_cast<u32*>(to) = pack2<Out>(first, second);
    } else {
        store_one(out, s, tile, row, col, sums.low);
        store_one(out, s, tile, row, col + 1, sums.high);
    }
}

}  // namespace
