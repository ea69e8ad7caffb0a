// attention/mma with f32 operands, by mma.sync m16n8k8 of tf32, which truncates them to 10 bits of mantissa. The elements of a
// dot product and the columns of the output are assigned to registers in permuted order, so that a lane reads 16 bytes of a row
// at a time. Of 16 elements of a row of queries or keys, lane t of four has 4t to 4t + 3. Of 32 columns of values, lane g of
// eight has 4g to 4g + 3. REQUIRES, before the include: the constants of the template.
#pragma once

namespace {

constexpr int steps_d = (d + 15) / 16;       // each step is two products
constexpr int groups_v = (dv + 31) / 32;     // a group is four tiles of 8 columns
constexpr int tiles_v = 4 * groups_v;
static_assert(is_same<Element, f32>, "operands are f32");
static_assert(align_q >= 4 && align_k >= 4 && align_v >= 4, "whole elements");

// Rows that begin `ld` elements apart, so that the lanes that read together use different banks. They read 64 bytes of two rows, or
// 32 bytes of the first, third, fifth and seventh of eight rows.
template <int ld_>
struct F32Rows {
    static constexpr int ld = ld_;
    static constexpr int row_bytes = ld * 4;
};
using RowsQ = F32Rows<16 * (steps_d % 2 == 1 ? steps_d : steps_d + 1)>;
using RowsK = RowsQ;
using RowsV = F32Rows<32 * groups_v + 4>;
constexpr int q_bytes = block_q * RowsQ::row_bytes;
constexpr int k_bytes = block_k * RowsK::row_bytes;
constexpr int v_bytes = block_k * RowsV::row_bytes;

// Copies `rows` rows of `columns` elements; rows from `count` on become zeros.
template <int rows, int columns, class Layout, int align>
struct F32Copier {
    static __device__ __forceinline__ void copy(u32 to, const f32* source, i64 row_elements, int count) {
        constexpr int chunks = columns / 4;
        for (int at = threadIdx.x; at < rows * chunks; at += threads) {
            const int row = at / chunks, column = at % chunks * 4;
            const char* const from = reinterpret_cast<const char*>(source + row * row_elements + column);
            const u32 target = to + row * Layout::row_bytes + column * 4;
#pragma unroll
            for (int i = 0; i < 16; i += align) ptx::cp_async<align>(target + i, from + i, row < count ? align : 0);
        }
    }
};
using QCopier = F32Copier<block_q, d, RowsQ, align_q>;
using KCopier = F32Copier<block_k, d, RowsK, align_k>;
using VCopier = F32Copier<block_k, dv, RowsV, align_v>;

// Zeroes the elements that pad a row to whole steps; no copy writes them.
__device__ __forceinline__ void clear_padding(u32 q, u32 k) {
    constexpr int first = d, end = 16 * steps_d;
    if constexpr (first < end) {
        constexpr int words = end - first;
        for (int at = threadIdx.x; at < (block_q + stages * block_k) * words; at += threads) {
            const int row = at / words;
            const u32 of_row = row < block_q ? q + row * RowsQ::row_bytes : k + (row - block_q) * RowsK::row_bytes;
            asm volatile("st.shared.b32 [%0], %1;" ::"r"(of_row + (first + at % words) * 4), "r"(0) : "memory");
        }
    }
}

struct Lane {
    int id, warp;
    int row, part;  // row: 0 to 7 of eight rows; part: 0 to 3 of a row

    __device__ __forceinline__ Lane() : id(threadIdx.x % 32), warp(threadIdx.x / 32), row(id / 4), part(id % 4) {}
};

using Fragment = u32[4];
using Weights = Fragment[bands][tiles_k];
// Operands of two products. They are four elements of each of the rows g and g + 8 of a band.
using QueryFragment = Fragment[2];

struct QueryFragments {
    QueryFragment held[q_in_registers ? steps_d : 1][bands];

    static __device__ __forceinline__ constexpr int slot(int step) { return q_in_registers ? step : 0; }
};

__device__ __forceinline__ void load_four(Fragment& to, u32 from) {
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
}

__device__ __forceinline__ void load_q(QueryFragment (&to)[bands], u32 q, const Lane& lane, int step) {
#pragma unroll
    for (int band = 0; band < bands; ++band)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = (lane.warp * bands + band) * 16 + half * 8 + lane.row;
            load_four(to[band][half], q + row * RowsQ::row_bytes + (step * 16 + lane.part * 4) * 4);
        }
}

// acc += a b of 16 x 8 by 8 x 8 elements.
__device__ __forceinline__ void multiply_add(f32 (&acc)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
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
#pragma unroll
    for (int step = 0; step < steps_d; ++step) {
        const int slot = QueryFragments::slot(step);
        if constexpr (!q_in_registers) load_q(fragments.held[slot], q, lane, step);
#pragma unroll
        for (int n = 0; n < tiles_k; ++n) {
            Fragment keys;
            load_four(keys, k + (n * 8 + lane.row) * RowsK::row_bytes + (step * 16 + lane.part * 4) * 4);
#pragma unroll
            for (int band = 0; band < bands; ++band) {
                const QueryFragment& mine = fragments.held[slot][band];
                multiply_add(scores[band][n], mine[0][0], mine[1][0], mine[0][1], mine[1][1], keys[0], keys[1]);
                multiply_add(scores[band][n], mine[0][2], mine[1][2], mine[0][3], mine[1][3], keys[2], keys[3]);
            }
        }
    }
}

// Accumulators can be used as operands directly, with the keys of a product in another order.
__device__ __forceinline__ void pack_weights(Fragment (&weights)[tiles_k], const f32 (&scores)[tiles_k][4]) {
#pragma unroll
    for (int n = 0; n < tiles_k; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) weights[n][i] = __float_as_uint(scores[n][i % 2 * 2 + i / 2]);
}

// sums += weights v for one tile of keys. In tile 4 q + i of the sums, register j is column 32 q + 8 t + 4 (j % 2) + i.
__device__ __forceinline__ void multiply_values(f32 (&sums)[bands][tiles_v][4], const Weights& weights, u32 v, const Lane& lane) {
#pragma unroll
    for (int keys = 0; keys < tiles_k; ++keys) {
#pragma unroll
        for (int group = 0; group < groups_v; ++group) {
            const u32 from = v + (keys * 8 + lane.part * 2) * RowsV::row_bytes + (group * 32 + lane.row * 4) * 4;
            Fragment even, odd;
            load_four(even, from);
            load_four(odd, from + RowsV::row_bytes);
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int band = 0; band < bands; ++band) {
                    const Fragment& mine = weights[band][keys];
                    multiply_add(sums[band][group * 4 + i], mine[0], mine[1], mine[2], mine[3], even[i], odd[i]);
                }
        }
    }
}

__device__ __forceinline__ void store_rows(const attention::Call<Element>& call, const f32 (&sums)[bands][tiles_v][4],
                                           const f32 (&all_sums)[bands][2], Element* o, int first_row, u32, const Lane& lane) {
    constexpr int step = align_o / 4;
#pragma unroll
    for (int band = 0; band < bands; ++band) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const f32 inverse = attention::inverse_of(all_sums[band][half]);
            const int row = first_row + (lane.warp * bands + band) * 16 + half * 8 + lane.row;
            if (row >= call.q_len) continue;
            Element* const to = o + row * call.o_strides.row;
#pragma unroll
            for (int tile = 0; tile < 2 * groups_v; ++tile) {
                const int group = tile / 2, column = group * 32 + lane.part * 8 + tile % 2 * 4;
                if (column >= dv) continue;
#pragma unroll
                for (int i = 0; i < 4; i += step) {
                    Pack<f32, step> pack;
#pragma unroll
                    for (int j = 0; j < step; ++j) pack.at[j] = sums[band][group * 4 + i + j][half * 2 + tile % 2] * inverse;
                    store_pack(to + column + i, pack);
                }
            }
        }
    }
}

}  // namespace
