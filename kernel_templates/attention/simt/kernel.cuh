// Attention in f32 on the ordinary cores: strict products and sums. A block keeps block_q queries in shared memory and goes
// through the keys in tiles; threads_x threads share a row. Weights pass through shared memory from the threads that have their
// keys to those that have the columns of the output.
// clang-format off
#define AUTOTUNE_KERNEL ${symbol}
#define ATTENTION_PACKED ${packed}
#include "attention/call.cuh"
#include "common/ptx.cuh"
using Element = ${element_type};
constexpr bool tf32 = ${tf32};  // f32 is more exact
constexpr int d = ${d};
constexpr int dv = ${dv};
constexpr bool has_low = ${has_low};
constexpr bool has_high = ${has_high};
constexpr int align_q = ${align_q};
constexpr int align_k = ${align_k};
constexpr int align_v = ${align_v};
constexpr int align_o = ${align_o};
constexpr int threads = ${threads};
constexpr int threads_x = ${threads_x};
constexpr int thread_q = ${thread_q};    // queries of a thread
constexpr int thread_k = ${thread_k};    // keys of a thread in a tile
constexpr int masking = ${masking};      // 0: every tile is visited; 1: tiles that nobody sees are skipped; 2: and only partial ones masked
constexpr int unroll = ${unroll};        // steps of four elements of d
constexpr int resident_blocks = ${resident_blocks};
// clang-format on
// ---- end of parameters ----
#include "attention/block_order.cuh"
#include "attention/simt_parts.cuh"

namespace {

constexpr int block_q = threads_y * thread_q;
constexpr int block_k = threads_x * thread_k;
constexpr int runs = (dv + threads_x * vec - 1) / (threads_x * vec);  // of four columns, of a thread
static_assert(block_k % vec == 0, "weights are read four keys at a time");

// Rows are four elements longer than they need be, so that neighbouring ones begin in other banks.
constexpr int ld_q = d + vec;
constexpr int ld_v = runs * threads_x * vec;
constexpr int ld_p = block_k + vec;

struct Shared {
    f32 *q, *k, *v, *p;

    __device__ __forceinline__ explicit Shared(f32* memory)
        : q(memory), k(q + block_q * ld_q), v(k + block_k * ld_q), p(v + block_k * ld_v) {}
};

__device__ __forceinline__ f32 largest_of_row(f32 mine) {
#pragma unroll
    for (int step = 1; step < threads_x; step *= 2) mine = fmaxf(mine, __shfl_xor_sync(0xffffffffU, mine, step * lane_step));
    return mine;
}
__device__ __forceinline__ f32 sum_of_row(f32 mine) {
#pragma unroll
    for (int step = 1; step < threads_x; step *= 2) mine += __shfl_xor_sync(0xffffffffU, mine, step * lane_step);
    return mine;
}

struct RowState {
    f32 peak[thread_q];  // of scores times slope
    f32 sum[thread_q];   // of this thread's keys
};

// Scores become weights, in shared memory; sums of earlier tiles are brought to the new peaks.
__device__ __forceinline__ void weigh(f32 (&scores)[thread_q][thread_k], f32 (&sums)[thread_q][runs][vec], RowState& state,
                                      const Shared& shared, const Place& place, f32 slope) {
#pragma unroll
    for (int i = 0; i < thread_q; ++i) {
        f32 here = scores[i][0];
#pragma unroll
        for (int j = 1; j < thread_k; ++j) here = fmaxf(here, scores[i][j]);
        here = __fmul_rn(largest_of_row(here), slope);
        const f32 before = state.peak[i];
        const f32 peak = fmaxf(before, here);
        state.peak[i] = peak;
        const f32 origin = peak == attention::minus_infinity() ? 0.0F : peak;
        const f32 factor = attention::exp2_approx(before - origin);
        f32 sum = 0;
#pragma unroll
        for (int j = 0; j < thread_k; ++j) {
            const f32 weight = attention::exp2_approx(__fmaf_rn(scores[i][j], slope, -origin));
            sum += weight;
            shared.p[place.own(i) * ld_p + place.other(j)] = weight;
        }
        state.sum[i] = __fmaf_rn(state.sum[i], factor, sum);
#pragma unroll
        for (int run = 0; run < runs; ++run)
#pragma unroll
            for (int c = 0; c < vec; ++c) sums[i][run][c] *= factor;
    }
}

template <class Masks>
__device__ __forceinline__ void apply_mask(f32 (&scores)[thread_q][thread_k], const Masks& mask, int first_row, int first_key,
                                           const Place& place) {
#pragma unroll
    for (int i = 0; i < thread_q; ++i) {
        const int row = first_row + place.own(i);
        const int begin = mask.first_key(row) - first_key - place.x, end = mask.end_key(row) - first_key - place.x;
#pragma unroll
        for (int j = 0; j < thread_k; ++j) {
            const bool is_seen = (!has_low || j * threads_x >= begin) && j * threads_x < end;
            if (!is_seen) scores[i][j] = attention::minus_infinity();
        }
    }
}

__device__ __forceinline__ void store_row(Element* to, const f32 (&sums)[runs][vec], f32 inverse, const Place& place) {
    constexpr int fitting = align_o / static_cast<int>(sizeof(Element));
    constexpr int step = fitting < vec ? fitting : vec;
#pragma unroll
    for (int run = 0; run < runs; ++run) {
        const int column = (run * threads_x + place.x) * vec;
        if (column >= dv) break;
#pragma unroll
        for (int i = 0; i < vec; i += step) {
            Pack<Element, step> pack;
#pragma unroll
            for (int j = 0; j < step; ++j) pack.at[j] = from_f32<Element>(sums[run][i + j] * inverse);
            store_pack(to + column + i, pack);
        }
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(threads, resident_blocks)
    AUTOTUNE_ENTRY()(ATTENTION_PARAMETERS, int order, int order_heads) {
    extern __shared__ __align__(16) unsigned char memory[];
    const attention::Call<Element> all = ATTENTION_CALL;
    const Shared shared(reinterpret_cast<f32*>(memory));
    const Place place;
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
    const Element* const keys = call.k + call.k_strides.of_head(at.b, at.head / group);
    const Element* const values = call.v + call.v_strides.of_head(at.b, at.head / group);
    const auto fetch_keys = [&](int tile) {
        copy_rows<block_k, d, ld_q, align_k>(shared.k, keys + static_cast<i64>(tile) * block_k * k_row, k_row,
                                             call.kv_len - tile * block_k);
        ptx::cp_async_commit();
    };
    copy_rows<block_q, d, ld_q, align_q>(
        shared.q, call.q + call.q_strides.of_head(at.b, at.head) + static_cast<i64>(first_row) * q_row, q_row, call.q_len - first_row);
    f32 sums[thread_q][runs][vec];
    RowState state;
#pragma unroll
    for (int i = 0; i < thread_q; ++i) {
        state.peak[i] = attention::minus_infinity();
        state.sum[i] = 0;
#pragma unroll
        for (int run = 0; run < runs; ++run)
#pragma unroll
            for (int c = 0; c < vec; ++c) sums[i][run][c] = 0;
    }
    if (begin < end) fetch_keys(begin);
    for (int tile = begin; tile < end; ++tile) {
        ptx::cp_async_wait<0>();
        __syncthreads();  // keys are there, and values and weights of the tile before are read
        copy_rows<block_k, dv, ld_v, align_v>(shared.v, values + static_cast<i64>(tile) * block_k * v_row, v_row,
                                              call.kv_len - tile * block_k);
        ptx::cp_async_commit();
        f32 scores[thread_q][thread_k];
        multiply_rows<d, ld_q, ld_q>(scores, shared.q, shared.k, place);
        if (masking != 2 || tile < begin_full || tile >= end_full) apply_mask(scores, mask, first_row, tile * block_k, place);
        weigh(scores, sums, state, shared, place, slope);
        ptx::cp_async_wait<0>();
        __syncthreads();  // values are there, keys are read
        if (tile + 1 < end) fetch_keys(tile + 1);
        add_product<block_k, ld_p, ld_v>(sums, shared.p, shared.v, place);
    }
    ptx::cp_async_wait<0>();
    Element* const to = call.o + call.o_strides.of_head(at.b, at.head);
    const i64 line = call.line_of_head(at.b, at.head);
#pragma unroll
    for (int i = 0; i < thread_q; ++i) {
        const f32 sum = sum_of_row(state.sum[i]);
        const int row = first_row + place.own(i);
        if (row >= call.q_len) continue;
        store_row(to + row * o_row, sums[i], attention::inverse_of(sum), place);
        if (lse != nullptr && place.x == 0) lse[line + row] = attention::log_sum_exp(state.peak[i], sum, attention::ln_2);
    }
}
