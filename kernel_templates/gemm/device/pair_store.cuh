// Stores of C from registers, pair by pair. REQUIRES common/hopper.cuh, gemm/device/pairs.cuh, gemm/device/hopper/hopper_schedule.cuh and, before the include:
// Out, Register, swap_ab, align_c, reads_c.
#pragma once

namespace {

struct Output {
    Out* c;
    const hopper::TensorMap* map;
    u64 policy;  // cache policy for TMA stores
    float alpha, beta;
    long long ldc, stride_c;
    Register* partial;  // slots of block_m * block_n sums
    u32* counters;      // the number of finished parts for each tile and consumer warpgroup; zero between launches
};

// The final value of C for a sum. `scaled`: the sum already includes alpha and scales.
template <bool scaled>
__device__ __forceinline__ float with_c(const Output& out, const Out* c, float sum) {
    const float value = scaled ? sum : out.alpha * sum;
    return !reads_c || out.beta == 0.0f ? value : value + out.beta * to_f32(*c);
}

template <bool scaled>
__device__ __forceinline__ void store_one(const Output& out, const Extents& s, const Tile& tile, int row, int col, float sum) {
    if (row >= s.m || col >= s.n) return;
    Out* to = out.c + tile.batch * out.stride_c + (swap_ab ? col * out.ldc + row : row * out.ldc + col);
    *to = from_f32<Out>(with_c<scaled>(out, to, sum));
}

// Two neighbouring columns at (row, col), with bounds.
template <bool scaled>
__device__ __forceinline__ void store_pair(const Output& out, const Extents& s, const Tile& tile, int row, int col, const Pair& sums) {
    if (!swap_ab && align_c >= 2 * sizeof(Out) && row < s.m && col + 1 < s.n) {
        Out* to = out.c + tile.batch * out.stride_c + row * out.ldc + col;
        const float first = with_c<scaled>(out, to, sums.low);
        const float second = with_c<scaled>(out, to + 1, sums.high);
        if constexpr (sizeof(Out) == 4)
            *reinterpret_cast<float2*>(to) = make_float2(first, second);
        else
            *reinterpret_cast<u32*>(to) = pack2<Out>(first, second);
    } else {
        store_one<scaled>(out, s, tile, row, col, sums.low);
        store_one<scaled>(out, s, tile, row, col + 1, sums.high);
    }
}

}  // namespace
