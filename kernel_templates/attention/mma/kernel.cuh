// Attention on mma.sync, m16n8k16 or for tf32 m16n8k8, for sm_80 and later (FlashAttention-2, Dao 2023). A block keeps block_q
// queries and goes through the keys in tiles of block_k. A warp has whole rows, so that the softmax needs no shared memory. The
// accumulators of the first product, turned into weights, are the operands of the second.
// clang-format off
#define AUTOTUNE_KERNEL ${symbol}
#define ATTENTION_PACKED ${packed}
#include "attention/device/call.cuh"
#include "common/ptx.cuh"
using Element = ${element_type};
#define ATTENTION_TF32 ${tf32}  // operands are f32, multiplied as tf32
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
// 0: every tile is visited; 1: tiles that no query sees are skipped; 2: and only partial ones are masked
constexpr int masking = ${masking};
constexpr bool lazy_rescale = ${lazy_rescale};  // rescales only when the old peak is too small by 2^8
constexpr int resident_blocks = ${resident_blocks};
// clang-format on
// ---- end of parameters ----
#include "attention/device/attention_order.cuh"

namespace {

constexpr int threads = 32 * warps;
constexpr int bands = block_q / (16 * warps);  // bands of 16 rows for each warp
constexpr int tiles_k = block_k / 8;           // tiles of scores in a band
constexpr f32 lazy_log2 = 8;
static_assert(block_q % (16 * warps) == 0 && block_k % 16 == 0, "whole mma tiles");

}  // namespace

#if ATTENTION_TF32
#include "attention/device/mma_tf32.cuh"
#else
#include "attention/device/mma_half.cuh"
#endif

namespace {

// A thread's state of its rows. It has two rows of each band, 8 apart, and shares each with three neighbouring lanes.
struct RowState {
    f32 peak[bands][2];  // largest score times slope
    f32 sum[bands][2];   // the sum over this thread's columns
};

template <class Masks>
__device__ __forceinline__ void apply_mask(f32 (&scores)[bands][tiles_k][4], const Masks& mask, int first_row, int first_key,
                                           const Lane& lane) {
#pragma unroll
    for (int band = 0; band < bands; ++band) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = first_row + (lane.warp * bands + band) * 16 + half * 8 + lane.id / 4;
            const int base = first_key + lane.id % 4 * 2;
            const int begin = mask.first_key(row) - base, end = mask.end_key(row) - base;
#pragma unroll
            for (int n = 0; n < tiles_k; ++n) {
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

__device__ __forceinline__ f32 sum_of_row(f32 mine) {
    mine += __shfl_xor_sync(0xffffffffU, mine, 1);
    return mine + __shfl_xor_sync(0xffffffffU, mine, 2);
}

// Turns scores into weights, and rescales the sums of earlier tiles to the new peaks.
__device__ __forceinline__ void weigh(f32 (&scores)[bands][tiles_k][4], f32 (&sums)[bands][tiles_v][4], RowState& state,
                                      Weights& weights, f32 slope) {
#pragma unroll
    for (int band = 0; band < bands; ++band) {
        f32 factor[2], origin[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            f32 peak = state.peak[band][half];
            const f32 before = peak;
            f32 here = scores[band][0][2 * half];
#pragma unroll
            for (int n = 0; n < tiles_k; ++n)
                here = fmaxf(here, fmaxf(scores[band][n][2 * half], scores[band][n][2 * half + 1]));
            // Must not be fused with a subtraction, because an unchanged peak must give a factor of exactly 1
            here = __fmul_rn(largest_of_row(here), slope);
            if constexpr (lazy_rescale) {
                if (here > before + lazy_log2 || before == attention::minus_infinity()) peak = fmaxf(before, here);
            } else {
                peak = fmaxf(before, here);
            }
            state.peak[band][half] = peak;
            origin[half] = peak == attention::minus_infinity() ? 0.0F : peak;
            factor[half] = attention::exp2_approx(before - origin[half]);
        }
        // The branch costs less than the products. It also keeps ptxas from mixing them with the exponentials, for which there
        // are not enough registers.
        if (__any_sync(0xffffffffU, factor[0] != 1.0F || factor[1] != 1.0F) != 0) {
#pragma unroll
            for (int n = 0; n < tiles_v; ++n) {
#pragma unroll
                for (int i = 0; i < 4; ++i) sums[band][n][i] *= factor[i / 2];
            }
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            f32 sum = 0;
#pragma unroll
            for (int n = 0; n < tiles_k; ++n) {
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    f32& score = scores[band][n][2 * half + i];
                    score = attention::exp2_approx(__fmaf_rn(score, slope, -origin[half]));
                    sum += score;
                }
            }
            state.sum[band][half] = __fmaf_rn(state.sum[band][half], factor[half], sum);
        }
        pack_weights(weights[band], scores[band]);
    }
}

// `lse` points to the head's first row.
__device__ __forceinline__ void store_lse(f32* lse, const RowState& state, const f32 (&all_sums)[bands][2], int first_row, int q_len,
                                          const Lane& lane) {
#pragma unroll
    for (int band = 0; band < bands; ++band)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = first_row + (lane.warp * bands + band) * 16 + half * 8 + lane.id / 4;
            if (lane.id % 4 == 0 && row < q_len)
                lse[row] = attention::log_sum_exp(state.peak[band][half], all_sums[band][half], attention::ln_2);
        }
}

// The ring of tiles of keys and values. With one stage, values are fetched while scores are computed, and the next keys while
// weights are multiplied with values. With more stages, whole tiles are fetched ahead, with one block barrier per tile.
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

    // Tiles are processed from the last one down, so step `turn` takes tile end - 1 - turn.
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

    f32 sums[bands][tiles_v][4];
    RowState state;
#pragma unroll
    for (int band = 0; band < bands; ++band) {
#pragma unroll
        for (int n = 0; n < tiles_v; ++n)
#pragma unroll
            for (int i = 0; i < 4; ++i) sums[band][n][i] = 0;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            state.peak[band][half] = attention::minus_infinity();
            state.sum[band][half] = 0;
        }
    }
    QueryFragments fragments;
    clear_padding(shared_q, ring.k);
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
        f32 scores[bands][tiles_k][4];
        multiply_keys(scores, fragments, shared_q, ring.k + slot * k_bytes, lane);
        if (masking != 2 || tile < begin_full || tile >= end_full) apply_mask(scores, mask, first_row, tile * block_k, lane);
        Weights weights;
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
    // o is staged in the memory of the warp's own queries; a barrier is needed only if its rows have another length, or no tile
    // was visited.
    if (turns == 0 || RowsQ::row_bytes != RowsV::row_bytes) __syncthreads();
    f32 all_sums[bands][2];
#pragma unroll
    for (int band = 0; band < bands; ++band)
#pragma unroll
        for (int half = 0; half < 2; ++half) all_sums[band][half] = sum_of_row(state.sum[band][half]);
    store_rows(call, sums, all_sums, call.o + call.o_strides.of_head(at.b, at.head), first_row, shared_q, lane);
    if (lse != nullptr) store_lse(lse + call.line_of_head(at.b, at.head), state, all_sums, first_row, call.q_len, lane);
}
