// Tiles of rows of queries, keys or values in shared memory, as TMA loads them and wgmma reads them, and rings of such tiles. A
// tile has slabs of rows, one swizzle span of 64 or 32 elements wide. TMA fills the rows beyond the end of a tensor or sequence
// with zeros.
#pragma once

#include "attention/device/attention_wgmma.cuh"

namespace hopper {

__device__ constexpr int padded(int columns) {
    return (columns + 31) / 32 * 32;
}
__device__ constexpr int span_of(int columns) {
    return padded(columns) % 64 == 0 ? 64 : 32;
}

// A position in a ring, and the parity of its barriers' phase there.
template <int length>
struct Position {
    int at = 0;
    u32 parity = 0;
    __device__ __forceinline__ void next() {
        if constexpr (length == 1) {
            parity ^= 1;
        } else {
            const bool wraps = at == length - 1;
            at = wraps ? 0 : at + 1;
            parity ^= wraps ? 1 : 0;
        }
    }
};

template <int columns, int rows>
__device__ __forceinline__ void load_tile(u32 to, const TensorMap* map, u32 barrier, int row, int head, int batch, u64 policy) {
    constexpr int span = span_of(columns);
#pragma unroll
    for (int slab = 0; slab < columns / span; ++slab)
        load_box(to + slab * (rows * span * 2), map, barrier, slab * span, row, head, batch, policy);
}

// Returns the value, which is equal in all threads of a warp. The shuffle tells the compiler so, and derived values stay in
// uniform registers.
__device__ __forceinline__ int warp_uniform(int value) {
    return __shfl_sync(0xffffffffu, value, 0);
}

__device__ __forceinline__ u64 descriptor_at(u64 base, u32 bytes) {
    return base + (bytes >> 4);
}
// Descriptors of a tile that is multiplied along its columns, and of one of `rows` rows that is multiplied along its rows.
template <int columns>
__device__ __forceinline__ u64 descriptor_along_columns(u32 address) {
    return matrix_descriptor(address, 16, 8 * span_of(columns) * 2, span_of(columns) * 2);
}
template <int columns, int rows>
__device__ __forceinline__ u64 descriptor_along_rows(u32 address) {
    return matrix_descriptor(address, rows * span_of(columns) * 2, 8 * span_of(columns) * 2, span_of(columns) * 2);
}
// The byte offsets of columns 16 i to 16 i + 15 of a tile of `rows` rows, and of rows 16 i to 16 i + 15.
template <int columns, int rows>
__device__ __forceinline__ constexpr u32 columns16(int i) {
    return i * 16 / span_of(columns) * (rows * span_of(columns) * 2) + i * 16 % span_of(columns) * 2;
}
template <int columns>
__device__ __forceinline__ constexpr u32 rows16(int i) {
    return i * 16 * span_of(columns) * 2;
}

__device__ __forceinline__ float over_quad_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
__device__ __forceinline__ float over_quad_sum(float x) {
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

// Transposes a 4 x 4 matrix within a quad: lane q sends register i to lane i and receives that lane's register q.
__device__ __forceinline__ void transpose_quad(u32 (&r)[4], int lane) {
#pragma unroll
    for (int step = 1; step <= 2; step *= 2) {
        const bool upper = (lane & step) != 0;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (i & step) continue;
            const u32 got = __shfl_xor_sync(0xffffffffu, upper ? r[i] : r[i | step], step);
            if (upper)
                r[i] = got;
            else
                r[i | step] = got;
        }
    }
}

}  // namespace hopper
