// attention/mma with 16-bit operands: mma.sync m16n8k16, rows of 16-byte chunks that cp.async fills and ldmatrix reads. REQUIRES,
// before the include: the constants of the template.
#pragma once

#include "attention/device/rows.cuh"

namespace {

constexpr int steps_d = (d + 15) / 16;
constexpr int steps_k = block_k / 16;
constexpr int steps_v = (dv + 15) / 16;
constexpr int tiles_v = 2 * steps_v;  // tiles of 8 columns
static_assert(sizeof(Element) == 2, "operands are 16-bit");

using RowsQ = attention::Rows<d, smem_swizzle && d % 64 == 0>;
using RowsK = RowsQ;
using RowsV = attention::Rows<dv, smem_swizzle && dv % 64 == 0>;
constexpr int q_bytes =
    block_q * (RowsQ::row_bytes > RowsV::row_bytes ? RowsQ::row_bytes : RowsV::row_bytes);  // o passes through
constexpr int k_bytes = block_k * RowsK::row_bytes;
constexpr int v_bytes = block_k * RowsV::row_bytes;

using QCopier = attention::RowCopier<block_q, d, smem_swizzle && d % 64 == 0, align_q, threads>;
using KCopier = attention::RowCopier<block_k, d, smem_swizzle && d % 64 == 0, align_k, threads>;
using VCopier = attention::RowCopier<block_k, dv, smem_swizzle && dv % 64 == 0, align_v, threads>;

// The parts of a 16 x 16 matrix that a lane addresses for ldmatrix: for A (rows of q) and for B stored by columns (keys).
struct Lane {
    int id, warp;
    int a_row, a_chunk;  // the lane's row and chunk in A
    int b_row, b_chunk;  // chunks, then rows

    __device__ __forceinline__ Lane()
        : id(threadIdx.x % 32),
          warp(threadIdx.x / 32),
          a_row(id % 16),
          a_chunk(id / 16),
          b_row(id / 16 * 8 + id % 8),
          b_chunk(id / 8 % 2) {}
};

using Fragment = u32[4];
using Weights = Fragment[bands][steps_k];

struct QueryFragments {
    Fragment held[q_in_registers ? steps_d : 2][bands];  // the fragments of all steps, or of this step and the next

    static __device__ __forceinline__ constexpr int slot(int step) { return q_in_registers ? step : step % 2; }
};

__device__ __forceinline__ void load_q(Fragment (&to)[bands], u32 q, const Lane& lane, int step) {
#pragma unroll
    for (int band = 0; band < bands; ++band) {
        const int row = (lane.warp * bands + band) * 16 + lane.a_row;
        ptx::ldmatrix_x4(to[band], q + RowsQ::offset(row, 2 * step + lane.a_chunk));
    }
}

// Computes scores = q k^T for one tile of keys.
__device__ __forceinline__ void multiply_keys(f32 (&scores)[bands][tiles_k][4], QueryFragments& fragments, u32 q, u32 k,
                                              const Lane& lane) {
#pragma unroll
    for (int band = 0; band < bands; ++band)
#pragma unroll
        for (int n = 0; n < tiles_k; ++n)
#pragma unroll
            for (int i = 0; i < 4; ++i) scores[band][n][i] = 0;
    constexpr int parts = steps_d * steps_k;
    Fragment b[2];
    const auto load = [&](int part) {
        const int step = part / steps_k, keys = part % steps_k;
        if (!q_in_registers && keys == 0) load_q(fragments.held[QueryFragments::slot(step)], q, lane, step);
        ptx::ldmatrix_x4(b[part % 2], k + RowsK::offset(keys * 16 + lane.b_row, 2 * step + lane.b_chunk));
    };
    load(0);
#pragma unroll
    for (int part = 0; part < parts; ++part) {
        const int step = part / steps_k, keys = part % steps_k;
        if (part + 1 < parts) load(part + 1);
#pragma unroll
        for (int band = 0; band < bands; ++band) {
            const Fragment& mine = fragments.held[QueryFragments::slot(step)][band];
            ptx::mma_m16n8k16<Element>(scores[band][2 * keys], mine, b[part % 2][0], b[part % 2][1]);
            ptx::mma_m16n8k16<Element>(scores[band][2 * keys + 1], mine, b[part % 2][2], b[part % 2][3]);
        }
    }
}

// Computes sums += weights v for one tile of keys.
__device__ __forceinline__ void multiply_values(f32 (&sums)[bands][tiles_v][4], const Weights& weights, u32 v, const Lane& lane) {
    constexpr int parts = steps_k * steps_v;
    Fragment b[2];
    const auto load = [&](int part) {
        const int keys = part / steps_v, columns = part % steps_v;
        ptx::ldmatrix_x4_trans(b[part % 2], v + RowsV::offset(keys * 16 + lane.a_row, 2 * columns + lane.a_chunk));
    };
    load(0);
#pragma unroll
    for (int part = 0; part < parts; ++part) {
        const int keys = part / steps_v, columns = part % steps_v;
        if (part + 1 < parts) load(part + 1);
#pragma unroll
        for (int band = 0; band < bands; ++band) {
            ptx::mma_m16n8k16<Element>(sums[band][2 * columns], weights[band][keys], b[part % 2][0], b[part % 2][1]);
            ptx::mma_m16n8k16<Element>(sums[band][2 * columns + 1], weights[band][keys], b[part % 2][2], b[part % 2][3]);
        }
    }
}

// Does nothing, because copies fill rows up to whole steps.
__device__ __forceinline__ void clear_padding(u32, u32) {}

__device__ __forceinline__ void pack_weights(Fragment (&weights)[steps_k], const f32 (&scores)[tiles_k][4]) {
#pragma unroll
    for (int step = 0; step < steps_k; ++step) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const f32* const from = scores[2 * step + i / 2] + i % 2 * 2;
            weights[step][i] = ptx::pack_pair<Element>(from[0], from[1]);
        }
    }
}

// Stores the rows of a warp, staged in the shared memory that held its queries.
__device__ __forceinline__ void store_rows(const attention::Call<Element>& call, f32 (&sums)[bands][tiles_v][4],
                                           const f32 (&all_sums)[bands][2], Element* o, int first_row, u32 staging,
                                           const Lane& lane) {
    const int first = lane.warp * bands * 16;
#pragma unroll
    for (int band = 0; band < bands; ++band) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const f32 inverse = attention::inverse_of(all_sums[band][half]);
            const int row = first + band * 16 + half * 8 + lane.id / 4;
#pragma unroll
            for (int n = 0; n < tiles_v; ++n) {
                const u32 pair =
                    ptx::pack_pair<Element>(sums[band][n][2 * half] * inverse, sums[band][n][2 * half + 1] * inverse);
                attention::store_shared_word(staging + RowsV::offset(row, n) + lane.id % 4 * 4, pair);
            }
        }
    }
    __syncwarp();
    constexpr int chunks = dv / 8;
    for (int at = lane.id; at < bands * 16 * chunks; at += 32) {
        const int row = first + at / chunks, chunk = at % chunks;
        if (first_row + row >= call.q_len) break;
        const uint4 value = attention::load_shared_chunk(staging + RowsV::offset(row, chunk));
        attention::store_chunk<align_o>(o + (first_row + row) * call.o_strides.row + chunk * 8, value);
    }
}

}  // namespace
