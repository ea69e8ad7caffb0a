// Code that the kernels of attention's gradients on Hopper share: the order of their blocks, masks on accumulators, products of
// tiles in shared memory, stores of sums, and the preparation of rows.
#pragma once

#include "attention/device/call.cuh"
#include "attention/device/hopper_tiles.cuh"
#include "common/ptx.cuh"

namespace hopper {

// The order in which blocks own tiles: tiles of `rows` rows of `heads` heads each.
struct Order {
    int tiles, heads, heads_at_once, all_tiles, descending;
};
struct Place {
    int tile, head, batch;
};
__device__ __forceinline__ Place place_of(const Order& order, int index) {
    const int of_run = order.heads_at_once * order.tiles;
    const int run = index / of_run;
    const int in_run = index - run * of_run;
    const int width = min(order.heads_at_once, order.all_tiles / order.tiles - run * order.heads_at_once);
    const int tile = in_run / width;
    const int plane = run * order.heads_at_once + in_run - tile * width;
    const int batch = plane / order.heads;
    return {order.descending ? order.tiles - 1 - tile : tile, plane - batch * order.heads, batch};
}

struct Tiles {
    int first, end;
};

// Sets scores outside of [first, end) of their row to -inf; columns are counted from the thread's first column in the tile.
template <int count, class Mask>
__device__ __forceinline__ void cut(float (&s)[count], const Mask& mask, int row, int column0) {
    int first[2], end[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        first[r] = mask.first_key(row + 8 * r) - column0;
        end[r] = mask.end_key(row + 8 * r) - column0;
    }
#pragma unroll
    for (int i = 0; i < count; ++i) {
        const int column = i / 4 * 8 + i % 2, r = i / 2 % 2;
        s[i] = column >= first[r] && column < end[r] ? s[i] : attention::minus_infinity();
    }
}

// C = A B^T for tiles stored along their columns in shared memory: 64 rows of A, `n` rows of B.
template <class Element, int columns, int rows_a, int n, int registers>
__device__ __forceinline__ void issue_along_columns(float (&c)[registers], u64 a, u64 b) {
    static_assert(registers >= n / 2);
#pragma unroll
    for (int i = 0; i < columns / 16; ++i)
        Wgmma<n, Element, f32, 0, 0>::run(c, descriptor_at(a, columns16<columns, rows_a>(i)),
                                          descriptor_at(b, columns16<columns, n>(i)), i > 0 ? 1 : 0);
}
// C += A B with A in registers and B a tile of `k` rows, of which the runs of 16 rows from `begin` to `end` are used.
template <class Element, int columns, int k, int begin = 0, int end = k / 16>
__device__ __forceinline__ void issue_along_rows(float (&c)[columns / 2], const u32 (&a)[k / 4], u64 b) {
#pragma unroll
    for (int i = begin; i < end; ++i)
        WgmmaFromRegisters<columns, Element>::template run<1>(c, &a[4 * i], descriptor_at(b, rows16<columns>(i)), 1);
}

// Packs sums in pairs as elements, for the runs of 8 columns from `begin` to `end`.
template <class Element, int begin = 0, int end = -1, int count>
__device__ __forceinline__ void pack(const float (&s)[count], u32 (&p)[count / 2]) {
#pragma unroll
    for (int i = 2 * begin; i < (end < 0 ? count / 2 : 2 * end); ++i) p[i] = ptx::pack_pair<Element>(s[2 * i], s[2 * i + 1]);
}
template <int count>
__device__ __forceinline__ void clear(float (&sums)[count]) {
#pragma unroll
    for (int i = 0; i < count; ++i) sums[i] = 0.0f;
}

template <class Element>
struct Destination {
    Element* to;
    long long batch, head, row;  // strides in elements
};
// Stores a warp's 16 rows of sums, times `factor`; `row` is the thread's first.
template <int columns, int valid_columns, class Element>
__device__ __forceinline__ void store_rows(const Destination<Element>& out, int batch, int head, int row, int rows,
                                           const float (&sums)[columns / 2], float factor) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const int at = row + 8 * r;
        Element* to = out.to + batch * out.batch + head * out.head + at * out.row;
#pragma unroll
        for (int j = 0; j < columns / 32; ++j) {
            u32 words[4];
#pragma unroll
            for (int i = 0; i < 4; ++i)
                words[i] =
                    ptx::pack_pair<Element>(sums[(4 * j + i) * 4 + 2 * r] * factor, sums[(4 * j + i) * 4 + 2 * r + 1] * factor);
            transpose_quad(words, lane);
            const int column = j * 32 + lane % 4 * 8;
            if (at < rows && column < valid_columns)
                *reinterpret_cast<uint4*>(to + column) = make_uint4(words[0], words[1], words[2], words[3]);
        }
    }
}

__device__ __forceinline__ void release(u32 barrier) {
    if (threadIdx.x % 32 == 0) barrier_arrive(barrier);
}

__device__ __forceinline__ float2 load_pair(u32 address) {
    float2 pair;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(pair.x), "=f"(pair.y) : "r"(address) : "memory");
    return pair;
}

// The numbers of registers for setmaxnreg: what producer threads keep and what consumer threads get.
template <int groups>
struct Registers {
    static constexpr int at_start = 65536 / (128 * (groups + 1)) / 8 * 8;
    static constexpr bool reallocates = at_start < 256;
    static constexpr int producer = groups == 3 ? 32 : 24;
    static constexpr int most = (at_start * (groups + 1) - producer) / groups / 8 * 8;
    static constexpr int math = most < 240 ? most : 240;
};

template <int stages, class Shared>
__device__ __forceinline__ void init_barriers(const Shared& shared, int math_warps) {
    if (threadIdx.x == 0) {
#pragma unroll
        for (int i = 0; i < stages; ++i) {
            barrier_init(shared.full(i), 1);
            barrier_init(shared.empty(i), math_warps);
        }
        barrier_init(shared.loaded(), 1);
        fence_barrier_init();
    }
    __syncthreads();
}

__device__ __forceinline__ void load_row_values(u32 to, const float* from, u32 bytes, u32 barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from),
                 "r"(bytes), "r"(barrier)
                 : "memory");
}

// Computes lse log2(e) and delta = sum(O dO) of each row. Rows without a key and rows beyond the last get an infinite logarithm,
// so that their weights are 0. 256 threads and 64 rows per block.
template <class Element, int dv>
__device__ __forceinline__ void prepare_rows(const Element* d_o, const Element* o, const float* lse, float* lse_out, float* delta_out,
                                             int heads, int rows, int padded_rows, long long do_batch, long long do_head,
                                             long long do_row, long long o_batch, long long o_head, long long o_row) {
    constexpr int block_rows = 64, lanes = dv > 64 ? 16 : 8, rows_at_once = 256 / lanes, steps = block_rows / rows_at_once;
    const int blocks_of_plane = padded_rows / block_rows;
    const int plane = static_cast<int>(blockIdx.x) / blocks_of_plane, batch = plane / heads, head = plane - batch * heads;
    const int first = (static_cast<int>(blockIdx.x) - plane * blocks_of_plane) * block_rows + threadIdx.x / lanes;
    const int lane = threadIdx.x % lanes;
    const Element* const of_o = o + batch * o_batch + head * o_head;
    const Element* const of_do = d_o + batch * do_batch + head * do_head;
    float sums[steps];
    clear(sums);
#pragma unroll
    for (int column = 0; column < dv; column += lanes * 8) {
        const int at = column + lane * 8;
        Pack<Element, 8> left[steps], right[steps];  // all loads come before the first sum
#pragma unroll
        for (int step = 0; step < steps; ++step) {
            const int row = first + step * rows_at_once;
            if (row >= rows || at >= dv) continue;
            left[step] = load_pack<Element, 8>(of_o + row * o_row + at);
            right[step] = load_pack<Element, 8>(of_do + row * do_row + at);
        }
#pragma unroll
        for (int step = 0; step < steps; ++step) {
            if (first + step * rows_at_once >= rows || at >= dv) continue;
#pragma unroll
            for (int i = 0; i < 8; ++i) sums[step] = fmaf(to_f32(left[step].at[i]), to_f32(right[step].at[i]), sums[step]);
        }
    }
#pragma unroll
    for (int step = 0; step < steps; ++step) {
#pragma unroll
        for (int other = lanes / 2; other > 0; other /= 2) sums[step] += __shfl_xor_sync(0xffffffffu, sums[step], other);
        if (lane != 0) continue;
        const int row = first + step * rows_at_once;
        const long long to = static_cast<long long>(plane) * padded_rows + row;
        const float log =
            row < rows ? lse[static_cast<long long>(plane) * rows + row] * attention::log2_e : attention::minus_infinity();
        lse_out[to] = log == attention::minus_infinity() ? -log : log;
        delta_out[to] = row < rows ? sums[step] : 0.0f;
    }
}

}  // namespace hopper
