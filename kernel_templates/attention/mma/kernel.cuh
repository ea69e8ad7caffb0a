// Attention on mma.sync m16n8k16, for sm_80 and later (FlashAttention-2, Dao 2023): a block keeps block_q queries and goes
// through the keys in tiles of block_k; a warp has whole rows, so that softmax needs no memory; weights go from the accumulators
// of the first product into the second as they lie.
// clang-format off
#define AUTOTUNE_KERNEL ${symbol}
#define ATTENTION_PACKED ${packed}
#include "attention/call.cuh"
#include "common/ptx.cuh"
using Element = ${element_type};
constexpr bool tf32 = ${tf32};
constexpr int d = ${d};
constexpr int dv = ${dv};
constexpr bool has_low = ${has_low};
constexpr bool has_high = ${has_high};
constexpr int align_q = ${align_q};
constexpr int align_k = ${align_k};
constexpr int align_v = ${align_v};
constexpr int align_o = ${align_o};
constexpr int block_q = ${block_q};
constexpr int block_k = ${block_k};
constexpr int warps = ${warps};
constexpr int stages = ${stages};
constexpr bool q_in_registers = ${q_in_registers};
constexpr bool smem_swizzle = ${smem_swizzle};  // XOR of 16-byte chunks; otherwise rows are padded by one chunk
constexpr int masking = ${masking};             // 0: every tile is visited; 1: tiles that nobody sees are skipped; 2: and only partial ones masked
constexpr bool lazy_rescale = ${lazy_rescale};  // sums keep an old peak until it is 2^8 too small
constexpr int resident_blocks = ${resident_blocks};
// clang-format on
// ---- end of parameters ----
#include "attention/block_order.cuh"
#include "attention/rows.cuh"

namespace {

constexpr int threads = 32 * warps;
constexpr int bands = block_q / (16 * warps);  // of 16 rows, of a warp
constexpr int steps_d = (d + 15) / 16;
constexpr int steps_k = block_k / 16;
constexpr int steps_v = (dv + 15) / 16;  // pairs of 8 columns
constexpr f32 lazy_log2 = 8;
static_assert(sizeof(Element) == 2 && !tf32, "operands are 16-bit");
static_assert(block_q % (16 * warps) == 0 && block_k % 16 == 0, "whole mma tiles");

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

// What a lane reads of a 16 x 16 part by ldmatrix: for A (rows of q) and B stored by columns (keys).
struct Lane {
    int id, warp;
    int a_row, a_chunk;  // matrices in the order rows, then chunks
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

struct QueryFragments {
    Fragment held[q_in_registers ? steps_d : 2][bands];  // all, or those of this step and the next

    static __device__ __forceinline__ constexpr int slot(int step) { return q_in_registers ? step : step % 2; }
};

__device__ __forceinline__ void load_q(Fragment (&to)[bands], u32 q, const Lane& lane, int step) {
#pragma unroll
    for (int band = 0; band < bands; ++band) {
        const int row = (lane.warp * bands + band) * 16 + lane.a_row;
        ptx::ldmatrix_x4(to[band], q + RowsQ::offset(row, 2 * step + lane.a_chunk));
    }
}

// scores = q k^T for one tile of keys.
__device__ __forceinline__ void multiply_keys(f32 (&scores)[bands][2 * steps_k][4], QueryFragments& fragments, u32 q, u32 k,
                                              const Lane& lane) {
#pragma unroll
    for (int band = 0; band < bands; ++band)
#pragma unroll
        for (int n = 0; n < 2 * steps_k; ++n)
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

// sums += weights v for one tile of keys.
__device__ __forceinline__ void multiply_values(f32 (&sums)[bands][2 * steps_v][4], const Fragment (&weights)[bands][steps_k],
                                                u32 v, const Lane& lane) {
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

// What a thread knows of its rows: two of each band, 8 apart, each shared by four neighbouring lanes.
struct RowState {
    f32 peak[bands][2];  // of scores times slope
    f32 sum[bands][2];   // of this thread's columns
};

template <class Masks>
__device__ __forceinline__ void apply_mask(f32 (&scores)[bands][2 * steps_k][4], const Masks& mask, int first_row, int first_key,
                                           const Lane& lane) {
#pragma unroll
    for (int band = 0; band < bands; ++band) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = first_row + (lane.warp * bands + band) * 16 + half * 8 + lane.id / 4;
            const int base = first_key + lane.id % 4 * 2;
            const int begin = mask.first_key(row) - base, end = mask.end_key(row) - base;
#pragma unroll
            for (int n = 0; n < 2 * steps_k; ++n) {
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    const bool is_seen = (!has_low || n * 8 + i >= begin) && n * 8 + i < end;
                    if (!is_seen) scores[band][n][2 * half + i] = attention::minus_infinity();
                }
            }
        }
    }
}

__device__ __forceinline__ f32 largest_of_row(f32 mine) {
    mine = fmaxf(mine, __shfl_xor_sync(0xffffffffU, mine, 1));
    return fmaxf(mine, __shfl_xor_sync(0xffffffffU, mine, 2));
}

// Scores become weights, sums of earlier tiles are brought to the new peaks.
__device__ __forceinline__ void weigh(f32 (&scores)[bands][2 * steps_k][4], f32 (&sums)[bands][2 * steps_v][4], RowState& state,
                                      Fragment (&weights)[bands][steps_k], f32 slope) {
#pragma unroll
    for (int band = 0; band < bands; ++band) {
        f32 factor[2], origin[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            f32 peak = state.peak[band][half];
            const f32 before = peak;
            f32 here = scores[band][0][2 * half];
#pragma unroll
            for (int n = 0; n < 2 * steps_k; ++n)
                here = fmaxf(here, fmaxf(scores[band][n][2 * half], scores[band][n][2 * half + 1]));
            here = __fmul_rn(largest_of_row(here), slope);  // not fused with a subtraction: an unchanged peak gives a factor of 1
            if constexpr (lazy_rescale) {
                if (here > before + lazy_log2 || before == attention::minus_infinity()) peak = fmaxf(before, here);
            } else {
                peak = fmaxf(before, here);
            }
            state.peak[band][half] = peak;
            origin[half] = peak == attention::minus_infinity() ? 0.0F : peak;
            factor[half] = attention::exp2_approx(before - origin[half]);
        }
        // The branch costs less than the products, and keeps ptxas from mixing them with the exponentials, for which it has no
        // registers.
        if (__any_sync(0xffffffffU, factor[0] != 1.0F || factor[1] != 1.0F) != 0) {
#pragma unroll
            for (int n = 0; n < 2 * steps_v; ++n) {
#pragma unroll
                for (int i = 0; i < 4; ++i) sums[band][n][i] *= factor[i / 2];
            }
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            f32 sum = 0;
#pragma unroll
            for (int n = 0; n < 2 * steps_k; ++n) {
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    f32& score = scores[band][n][2 * half + i];
                    score = attention::exp2_approx(__fmaf_rn(score, slope, -origin[half]));
                    sum += score;
                }
            }
            state.sum[band][half] = __fmaf_rn(state.sum[band][half], factor[half], sum);
        }
#pragma unroll
        for (int step = 0; step < steps_k; ++step) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const f32* const from = scores[band][2 * step + i / 2] + i % 2 * 2;
                weights[band][step][i] = ptx::pack_pair<Element>(from[0], from[1]);
            }
        }
    }
}

// The rows of a warp, through its part of the memory in which its queries lay.
__device__ __forceinline__ void store_rows(const attention::Call<Element>& call, f32 (&sums)[bands][2 * steps_v][4],
                                           RowState& state, Element* o, f32* lse, int first_row, u32 staging, const Lane& lane) {
    const int first = lane.warp * bands * 16;
#pragma unroll
    for (int band = 0; band < bands; ++band) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            f32 sum = state.sum[band][half];
            sum += __shfl_xor_sync(0xffffffffU, sum, 1);
            sum += __shfl_xor_sync(0xffffffffU, sum, 2);
            const f32 inverse = attention::inverse_of(sum);
            const int row = first + band * 16 + half * 8 + lane.id / 4;
#pragma unroll
            for (int n = 0; n < 2 * steps_v; ++n) {
                const u32 pair =
                    ptx::pack_pair<Element>(sums[band][n][2 * half] * inverse, sums[band][n][2 * half + 1] * inverse);
                attention::store_shared_word(staging + RowsV::offset(row, n) + lane.id % 4 * 4, pair);
            }
            if (lse != nullptr && lane.id % 4 == 0 && first_row + row < call.q_len)
                lse[first_row + row] = attention::log_sum_exp(state.peak[band][half], sum, attention::ln_2);
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

// The ring of tiles of keys and values. With one stage, values are fetched while scores are computed, and the next keys while
// values are weighed; with more, whole tiles ahead, and the block meets once a tile.
struct Ring {
    u32 k, v;  // shared memory
    const Element *keys, *values;
    i64 k_row, v_row;
    int kv_len;

    __device__ __forceinline__ void fetch_keys(int tile, int slot) const {
        KCopier::copy(k + slot * k_bytes, keys + static_cast<i64>(tile) * block_k * k_row, k_row, kv_len - tile * block_k);
    }
    __device__ __forceinline__ void fetch_values(int tile, int slot) const {
        VCopier::copy(v + slot * v_bytes, values + static_cast<i64>(tile) * block_k * v_row, v_row, kv_len - tile * block_k);
    }
};

}  // namespace

extern "C" __global__ void __launch_bounds__(threads, resident_blocks)
    AUTOTUNE_ENTRY()(ATTENTION_PARAMETERS, int order, int order_heads) {
    extern __shared__ __align__(16) unsigned char memory[];
    const attention::Call<Element> all = ATTENTION_CALL;
    const Lane lane;
    const int tiles_q = (q_len + block_q - 1) / block_q;
    const attention::BlockTile at = attention::block_tile(blockIdx.x, tiles_q, batches * q_heads, q_heads, order, order_heads);
    const attention::Call<Element> call = all.of_batch(at.b);
    const int first_row = at.tile * block_q;
    if (ATTENTION_PACKED && first_row >= call.q_len) return;
    const int last_row = min(first_row + block_q, call.q_len) - 1;
    const auto mask = call.mask<has_low, has_high>();
    const int begin = masking == 0 ? 0 : mask.first_tile(first_row, block_k);
    const int end = masking == 0 ? (call.kv_len + block_k - 1) / block_k : mask.end_tile(last_row, block_k);
    const int begin_full = mask.first_full_tile(last_row, block_k), end_full = mask.end_full_tile(first_row, block_k);
    const f32 slope = scale * attention::log2_e;

    const u32 shared_q = ptx::shared_address(memory);
    const Ring ring = {shared_q + q_bytes,
                       shared_q + q_bytes + stages * k_bytes,
                       call.k + call.k_strides.of_head(at.b, at.head / group),
                       call.v + call.v_strides.of_head(at.b, at.head / group),
                       k_row,
                       v_row,
                       call.kv_len};

    // Tiles are visited from the last one down: number `turn` is tile end - 1 - turn.
    const int turns = max(end - begin, 0);
    const auto fetch_tile = [&](int turn) {
        if (turn < turns) ring.fetch_keys(end - 1 - turn, turn % stages);
        if (turn < turns) ring.fetch_values(end - 1 - turn, turn % stages);
        ptx::cp_async_commit();
    };
    QCopier::copy(shared_q, call.q + call.q_strides.of_head(at.b, at.head) + static_cast<i64>(first_row) * q_row, q_row,
                  call.q_len - first_row);
    if constexpr (stages == 1) {
        if (turns > 0) ring.fetch_keys(end - 1, 0);
        ptx::cp_async_commit();
    } else {
#pragma unroll
        for (int turn = 0; turn < stages - 1; ++turn) fetch_tile(turn);
    }

    f32 sums[bands][2 * steps_v][4];
    RowState state;
#pragma unroll
    for (int band = 0; band < bands; ++band) {
#pragma unroll
        for (int n = 0; n < 2 * steps_v; ++n)
#pragma unroll
            for (int i = 0; i < 4; ++i) sums[band][n][i] = 0;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            state.peak[band][half] = attention::minus_infinity();
            state.sum[band][half] = 0;
        }
    }
    QueryFragments fragments;
    for (int turn = 0; turn < turns; ++turn) {
        const int tile = end - 1 - turn;
        const int slot = turn % stages;
        ptx::cp_async_wait<stages == 1 ? 0 : stages - 2>();
        __syncthreads();
        if constexpr (stages == 1) {
            ring.fetch_values(tile, 0);
            ptx::cp_async_commit();
        } else {
            fetch_tile(turn + stages - 1);
        }
        if constexpr (q_in_registers) {
            if (turn == 0) {
#pragma unroll
                for (int step = 0; step < steps_d; ++step) load_q(fragments.held[step], shared_q, lane, step);
            }
        }
        f32 scores[bands][2 * steps_k][4];
        multiply_keys(scores, fragments, shared_q, ring.k + slot * k_bytes, lane);
        if (masking != 2 || tile < begin_full || tile >= end_full) apply_mask(scores, mask, first_row, tile * block_k, lane);
        Fragment weights[bands][steps_k];
        weigh(scores, sums, state, weights, slope);
        if constexpr (stages == 1) {
            ptx::cp_async_wait<0>();
            __syncthreads();
            if (turn + 1 < turns) ring.fetch_keys(tile - 1, 0);
            ptx::cp_async_commit();
        }
        multiply_values(sums, weights, ring.v + slot * v_bytes, lane);
    }
    ptx::cp_async_wait<0>();
    // o is staged where the warp's own queries lay, unless its rows are longer or shorter.
    if (turns == 0 || RowsQ::row_bytes != RowsV::row_bytes) __syncthreads();
    store_rows(call, sums, state, call.o + call.o_strides.of_head(at.b, at.head),
               lse == nullptr ? nullptr : lse + call.line_of_head(at.b, at.head), first_row, shared_q, lane);
}
