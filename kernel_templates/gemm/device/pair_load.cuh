// Loads C into registers without waiting for stores. REQUIRES gemm/device/hopper/hopper_parts.cuh and its requirements.
#pragma once

namespace {

template <typename Element>
__device__ __forceinline__ Pair unpack2(u32 pair) {
    return {to_f32(Element{static_cast<u16>(pair)}), to_f32(Element{static_cast<u16>(pair >> 16)})};
}

// Two neighbouring columns of C; zeros outside of it. Elements that are read one by one stay in two registers, because packing
// them would wait for the loads.
constexpr bool reads_pairs_of_c = !swap_ab && align_c >= 4;
struct PairOfC {
    u32 low = 0, high = 0;
};
__device__ __forceinline__ PairOfC pair_of_c(const Output& out, const Extents& s, const Tile& tile, int row, int col) {
    const Out* from = out.c + tile.batch * out.stride_c + (swap_ab ? col * out.ldc + row : row * out.ldc + col);
    PairOfC pair;
    if (row >= s.m || col >= s.n) return pair;
    const bool has_second = col + 1 < s.n;
    if (reads_pairs_of_c && has_second) {
        pair.low = *reinterpret_cast<const u32*>(from);
        return pair;
    }
    pair.low = from->bits;
    if (!reads_pairs_of_c && has_second) pair.high = from[swap_ab ? out.ldc : 1].bits;
    return pair;
}

// Two pairs of C, at (row, col) and at the row eight below. If beta is 0 they are not read, because C may then hold anything.
struct QuadOfC {
    PairOfC upper, lower;
};
__device__ __forceinline__ QuadOfC quad_of_c(const Output& out, const Extents& s, const Tile& tile, int row, int col) {
    if (out.beta == 0.0f) return {};
    return {pair_of_c(out, s, tile, row, col), pair_of_c(out, s, tile, row + 8, col)};
}

// The final pair of C for a pair of sums.
__device__ __forceinline__ Pair with_pair_of_c(const Output& out, const Pair& sums, const PairOfC& before) {
    const Pair c = unpack2<Out>(reads_pairs_of_c ? before.low : before.low | before.high << 16);
    return {out.alpha * sums.low + out.beta * c.low, out.alpha * sums.high + out.beta * c.high};
}

}  // namespace
