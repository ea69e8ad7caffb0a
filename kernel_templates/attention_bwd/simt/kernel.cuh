// Gradients of attention in f32 on the CUDA cores, strict products and sums. Two passes without atomics: a block with its queries
// goes through the keys for dQ, and a block with its keys through the queries for dK and dV. Both passes share the code: a block
// has own rows (q and dO, or k and v) and goes through tiles of the others. With one pass, blocks with their keys also add to dQ,
// in any order.
#include "attention_bwd/device/bwd_call.cuh"
#include "common/ptx.cuh"
// clang-format off
#define AUTOTUNE_KERNEL ${symbol}
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
constexpr int align_do = ${align_do};
constexpr int align_dq = ${align_dq};
constexpr int align_dk = ${align_dk};
constexpr int align_dv = ${align_dv};
constexpr int threads = ${threads};
constexpr int threads_x = ${threads_x};
constexpr int thread_own = ${thread_own};      // rows of the block per thread
constexpr int thread_other = ${thread_other};  // rows of a tile per thread
constexpr int unroll = ${unroll};
constexpr int resident_blocks = ${resident_blocks};
constexpr int passes = ${passes};
// clang-format on
// ---- end of parameters ----
#include "attention/device/attention_order.cuh"
#include "attention/device/simt_parts.cuh"

namespace {

constexpr int block = threads_y * thread_own;
constexpr int tile_rows = threads_x * thread_other;
constexpr int runs_d = (d + threads_x * vec - 1) / (threads_x * vec);  // runs of four columns per thread
constexpr int runs_v = (dv + threads_x * vec - 1) / (threads_x * vec);
static_assert(tile_rows % vec == 0, "weights are read four at a time");

// Rows have whole runs. Rows of a tile are padded by four elements, so that neighbouring rows begin in different banks. Rows of
// the block and of weights have XORed columns instead, which leaves enough shared memory for a tile of 128 x 64 with 128 columns.
constexpr int own_ld_d = runs_d * threads_x * vec, ld_d = own_ld_d + vec;
constexpr int own_ld_v = runs_v * threads_x * vec, ld_v = own_ld_v + vec;
constexpr int ld_w = (tile_rows + 31) / 32 * 32;

struct RowFacts {
    f32 lse, delta;  // in units of log 2; +inf and 0 if a row has no weight or does not exist
};

struct Shared {
    f32 *own_left, *own_right, *left, *right, *weights;
    RowFacts* facts;

    __device__ __forceinline__ explicit Shared(f32* memory)
        : own_left(memory),
          own_right(own_left + block * own_ld_d),
          left(own_right + block * own_ld_v),
          right(left + tile_rows * ld_d),
          weights(right + tile_rows * ld_v),
          facts(reinterpret_cast<RowFacts*>(weights + block * ld_w)) {}
};

using Scores = f32[thread_own][thread_other];

template <int runs>
__device__ __forceinline__ void clear(f32 (&sums)[thread_own][runs][vec]) {
#pragma unroll
    for (int i = 0; i < thread_own; ++i)
#pragma unroll
        for (int run = 0; run < runs; ++run)
#pragma unroll
            for (int c = 0; c < vec; ++c) sums[i][run][c] = 0;
}

template <class Masks>
__device__ __forceinline__ void apply_mask(Scores& scores, const Masks& mask, int first_own, int first_other,
                                           const Place& place) {
#pragma unroll
    for (int i = 0; i < thread_own; ++i) {
        const int row = first_own + place.own(i);
        const int begin = mask.first_key(row) - first_other - place.x, end = mask.end_key(row) - first_other - place.x;
#pragma unroll
        for (int j = 0; j < thread_other; ++j) {
            if (j * threads_x < begin || j * threads_x >= end) scores[i][j] = attention::minus_infinity();
        }
    }
}

// The threads of a row belong to one warp, so they need no block barrier.
__device__ __forceinline__ void share_weights(f32* to, const Scores& weights, const Place& place) {
    __syncwarp();
#pragma unroll
    for (int i = 0; i < thread_own; ++i)
#pragma unroll
        for (int j = 0; j < thread_other; ++j) to[place.own(i) * ld_w + (place.other(j) ^ place.turn())] = weights[i][j];
    __syncwarp();
}

template <int columns, int align, int runs>
__device__ __forceinline__ void store_rows(Element* to, i64 row_elements, int count, const f32 (&sums)[thread_own][runs][vec],
                                           f32 factor, const Place& place) {
    constexpr int fitting = align / static_cast<int>(sizeof(Element));
    constexpr int step = fitting < vec ? fitting : vec;
#pragma unroll
    for (int i = 0; i < thread_own; ++i) {
        const int row = place.own(i);
        if (row >= count) continue;
#pragma unroll
        for (int run = 0; run < runs; ++run) {
            const int column = (run * threads_x + place.x) * vec;
            if (column >= columns) break;
#pragma unroll
            for (int c = 0; c < vec; c += step) {
                Pack<Element, step> pack;
#pragma unroll
                for (int j = 0; j < step; ++j) pack.at[j] = from_f32<Element>(sums[i][run][c + j] * factor);
                store_pack(to + row * row_elements + column + c, pack);
            }
        }
    }
}

// ---- dQ of a tile of queries, in one pass ----

// A thread has quads of queries and of columns. As in Place, neighbouring lanes have different queries and the same columns.
constexpr int dq_threads_x = 16;
constexpr int dq_threads_y = threads / dq_threads_x;
constexpr int dq_quads = passes == 1 ? tile_rows / (dq_threads_y * vec) : 1;
constexpr int dq_runs = (d + dq_threads_x * vec - 1) / (dq_threads_x * vec);
static_assert(passes == 2 || (is_same<Element, f32> && dq_quads * dq_threads_y * vec == tile_rows));

template <int align>
__device__ __forceinline__ void add_to_memory(f32* to, const f32 (&values)[vec]) {
#if __CUDA_ARCH__ >= 900
    if constexpr (align >= 16) {
        asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(values[0]), "f"(values[1]),
                     "f"(values[2]), "f"(values[3])
                     : "memory");
        return;
    }
#endif
#pragma unroll
    for (int i = 0; i < vec; ++i) atomicAdd(to + i, values[i]);
}

// Adds dS^T K, for the block's keys, to the tile's `count` rows at `to`.
__device__ __forceinline__ void add_dq(f32* to, i64 row_elements, int count, f32 factor, const f32* weights, const f32* keys) {
    const int x = threadIdx.x / 2 % dq_threads_x * vec;
    const int y = (threadIdx.x / (2 * dq_threads_x) * 2 + threadIdx.x % 2) * vec;
    f32 sums[dq_quads][vec][dq_runs][vec] = {};
#pragma unroll unroll
    for (int key = 0; key < block; ++key) {
        float4 values[dq_runs];
#pragma unroll
        for (int run = 0; run < dq_runs; ++run)
            values[run] = load4(keys + key * own_ld_d + (run * dq_threads_x * vec + x ^ turn_of_row(key)));
#pragma unroll
        for (int quad = 0; quad < dq_quads; ++quad) {
            const float4 weight = load4(weights + key * ld_w + (quad * dq_threads_y * vec + y ^ turn_of_row(key)));
#pragma unroll
            for (int run = 0; run < dq_runs; ++run) {
                add_scaled(sums[quad][0][run], weight.x, values[run]);
                add_scaled(sums[quad][1][run], weight.y, values[run]);
                add_scaled(sums[quad][2][run], weight.z, values[run]);
                add_scaled(sums[quad][3][run], weight.w, values[run]);
            }
        }
    }
#pragma unroll
    for (int quad = 0; quad < dq_quads; ++quad)
#pragma unroll
        for (int i = 0; i < vec; ++i) {
            const int row = quad * dq_threads_y * vec + y + i;
            if (row >= count) continue;
#pragma unroll
            for (int run = 0; run < dq_runs; ++run) {
                const int column = run * dq_threads_x * vec + x;
                if (column >= d) break;
                f32(&of_row)[vec] = sums[quad][i][run];
#pragma unroll
                for (int c = 0; c < vec; ++c) of_row[c] *= factor;
                add_to_memory<align_dq>(to + row * row_elements + column, of_row);
            }
        }
}

constexpr int delta_warps = 8;

// Whether weights are read again, because there are too few registers to keep them.
constexpr bool reads_weights = thread_own * thread_other >= 32;

}  // namespace

extern "C" __global__ void __launch_bounds__(32 * delta_warps)
    AUTOTUNE_ENTRY(_delta)(ATTENTION_BWD_PARAMETERS, RowFacts* facts, int) {
    const i64 rows = static_cast<i64>(batches) * q_heads * q_len;
    const i64 line = static_cast<i64>(blockIdx.x) * delta_warps + threadIdx.x / 32;
    if (line >= rows) return;
    const i64 row = line % q_len, head = line / q_len % q_heads, b = line / q_len / q_heads;
    const Element* const left = o + b * o_batch + head * o_head + row * o_row;
    const Element* const right = d_o + b * do_batch + head * do_head + row * do_row;
    if constexpr (passes == 1) {
        Element* const to = d_q + b * dq_batch + head * dq_head + row * dq_row;
        for (int i = static_cast<int>(threadIdx.x % 32); i < d; i += 32) to[i] = from_f32<Element>(0);
    }
    f32 sum = 0;
    for (int i = static_cast<int>(threadIdx.x % 32); i < dv; i += 32) sum = __fmaf_rn(to_f32(left[i]), to_f32(right[i]), sum);
#pragma unroll
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, step);
    if (threadIdx.x % 32 != 0) return;
    const f32 value = lse[line];
    const bool has_weight = value != attention::minus_infinity();
    facts[line] = {has_weight ? value * attention::log2_e : -attention::minus_infinity(), has_weight ? sum : 0.0F};
}

extern "C" __global__ void __launch_bounds__(threads, resident_blocks)
    AUTOTUNE_ENTRY(_queries)(ATTENTION_BWD_PARAMETERS, const RowFacts* facts, int order) {
    extern __shared__ __align__(16) unsigned char memory[];
    const attention::BwdCall<Element> call = ATTENTION_BWD_CALL;
    const Shared shared(reinterpret_cast<f32*>(memory));
    const Place place;
    const int tiles_q = (q_len + block - 1) / block;
    const attention::BlockTile at = attention::block_tile(blockIdx.x, tiles_q, batches * q_heads, q_heads, order, 1);
    const int first = at.tile * block, last = min(first + block, q_len) - 1;
    const auto mask = call.forward.mask<has_low, has_high>();
    const int begin = mask.first_tile(first, tile_rows), end = mask.end_tile(last, tile_rows);
    const int begin_full = mask.first_full_tile(last, tile_rows), end_full = mask.end_full_tile(first, tile_rows);
    const f32 slope = scale * attention::log2_e;
    const Element* const keys = k + call.forward.k_strides.of_head(at.b, at.head / group);
    const Element* const values = v + call.forward.v_strides.of_head(at.b, at.head / group);
    copy_rows<block, d, own_ld_d, align_q, true>(shared.own_left,
                                       q + call.forward.q_strides.of_head(at.b, at.head) + static_cast<i64>(first) * q_row, q_row,
                                       q_len - first);
    copy_rows<block, dv, own_ld_v, align_do, true>(
        shared.own_right, d_o + call.do_strides.of_head(at.b, at.head) + static_cast<i64>(first) * do_row, do_row, q_len - first);
    RowFacts mine[thread_own];
#pragma unroll
    for (int i = 0; i < thread_own; ++i) {
        const int row = first + place.own(i);
        mine[i] = {-attention::minus_infinity(), 0};
        if (row < q_len) mine[i] = facts[(static_cast<i64>(at.b) * q_heads + at.head) * q_len + row];
    }
    f32 sums[thread_own][runs_d][vec];
    clear(sums);
    for (int tile = begin; tile < end; ++tile) {
        const int left = kv_len - tile * tile_rows;
        __syncthreads();  // the previous tile has been read
        copy_rows<tile_rows, d, ld_d, align_k>(shared.left, keys + static_cast<i64>(tile) * tile_rows * k_row, k_row, left);
        copy_rows<tile_rows, dv, ld_v, align_v>(shared.right, values + static_cast<i64>(tile) * tile_rows * v_row, v_row, left);
        ptx::cp_async_commit();
        ptx::cp_async_wait<0>();
        __syncthreads();
        Scores scores, products;
        multiply_rows<d, own_ld_d, ld_d>(scores, shared.own_left, shared.left, place, place.turn());
        if (tile < begin_full || tile >= end_full) apply_mask(scores, mask, first, tile * tile_rows, place);
        multiply_rows<dv, own_ld_v, ld_v>(products, shared.own_right, shared.right, place, place.turn());
#pragma unroll
        for (int i = 0; i < thread_own; ++i) {
#pragma unroll
            for (int j = 0; j < thread_other; ++j) {
                const f32 weight = attention::exp2_approx(__fmaf_rn(scores[i][j], slope, -mine[i].lse));
                scores[i][j] = weight * (products[i][j] - mine[i].delta);
            }
        }
        share_weights(shared.weights, scores, place);
        add_product<tile_rows, ld_w, ld_d>(sums, shared.weights, shared.left, place, place.turn());
    }
    ptx::cp_async_wait<0>();
    store_rows<d, align_dq>(d_q + call.dq_strides.of_head(at.b, at.head) + static_cast<i64>(first) * dq_row, dq_row,
                            q_len - first, sums, scale, place);
}

extern "C" __global__ void __launch_bounds__(threads, resident_blocks)
    AUTOTUNE_ENTRY()(ATTENTION_BWD_PARAMETERS, const RowFacts* facts, int order) {
    extern __shared__ __align__(16) unsigned char memory[];
    const attention::BwdCall<Element> call = ATTENTION_BWD_CALL;
    const Shared shared(reinterpret_cast<f32*>(memory));
    const Place place;
    const int kv_heads = q_heads / group;
    const int tiles_k = (kv_len + block - 1) / block;
    const attention::BlockTile at = attention::block_tile(blockIdx.x, tiles_k, batches * kv_heads, kv_heads, order, 1);
    // Most queries see the first keys, so if long tiles come first, the tiles of the first keys do.
    const int own_tile = order == attention::heads_outside ? at.tile : tiles_k - 1 - at.tile;
    const int first = own_tile * block, last = min(first + block, kv_len) - 1;
    const auto seen = attention::seen_from_keys(call.forward.mask<has_low, has_high>(), q_len);
    const int begin = seen.first_tile(first, tile_rows), end = seen.end_tile(last, tile_rows);
    const int begin_full = seen.first_full_tile(last, tile_rows), end_full = seen.end_full_tile(first, tile_rows);
    const f32 slope = scale * attention::log2_e;
    copy_rows<block, d, own_ld_d, align_k, true>(shared.own_left,
                                       k + call.forward.k_strides.of_head(at.b, at.head) + static_cast<i64>(first) * k_row, k_row,
                                       kv_len - first);
    copy_rows<block, dv, own_ld_v, align_v, true>(shared.own_right,
                                        v + call.forward.v_strides.of_head(at.b, at.head) + static_cast<i64>(first) * v_row,
                                        v_row, kv_len - first);
    f32 of_keys[thread_own][runs_d][vec], of_values[thread_own][runs_v][vec];
    clear(of_keys);
    clear(of_values);
    const int tiles = max(end - begin, 0);
    const auto head_of = [&](int step) { return at.head * group + step / tiles; };
    const auto first_of = [&](int step) { return (begin + step % tiles) * tile_rows; };
    const auto fetch_queries = [&](int step) {
        const int head = head_of(step), first_other = first_of(step), left = q_len - first_other;
        copy_rows<tile_rows, d, ld_d, align_q>(
            shared.left, q + call.forward.q_strides.of_head(at.b, head) + static_cast<i64>(first_other) * q_row, q_row, left);
        // For rows that do not exist, q, dO and their facts are 0, so these rows add nothing to any sum.
        const RowFacts* const from = facts + (static_cast<i64>(at.b) * q_heads + head) * q_len + first_other;
        for (int i = threadIdx.x; i < tile_rows; i += threads)
            ptx::cp_async<sizeof(RowFacts)>(ptx::shared_address(shared.facts + i), from + i, i < left ? sizeof(RowFacts) : 0);
        ptx::cp_async_commit();
    };
    const auto fetch_gradients = [&](int step) {
        const int first_other = first_of(step);
        copy_rows<tile_rows, dv, ld_v, align_do>(
            shared.right, d_o + call.do_strides.of_head(at.b, head_of(step)) + static_cast<i64>(first_other) * do_row, do_row,
            q_len - first_other);
        ptx::cp_async_commit();
    };
    const int steps = tiles * group;
    if (steps > 0) {
        fetch_queries(0);
        fetch_gradients(0);
    }
    for (int step = 0; step < steps; ++step) {
        const int first_other = first_of(step), tile = begin + step % tiles;
        const bool is_last = step + 1 == steps;
        ptx::cp_async_wait<0>();
        __syncthreads();  // the tile has arrived, and the weights of the previous one have been read
        Scores scores, products;
        multiply_rows<d, own_ld_d, ld_d>(scores, shared.own_left, shared.left, place, place.turn());
        if (tile < begin_full || tile >= end_full) apply_mask(scores, seen, first, first_other, place);
#pragma unroll
        for (int i = 0; i < thread_own; ++i)
#pragma unroll
            for (int j = 0; j < thread_other; ++j)
                scores[i][j] = attention::exp2_approx(__fmaf_rn(scores[i][j], slope, -shared.facts[place.other(j)].lse));
        share_weights(shared.weights, scores, place);
        add_product<tile_rows, ld_w, ld_v>(of_values, shared.weights, shared.right, place, place.turn());
        multiply_rows<dv, own_ld_v, ld_v>(products, shared.own_right, shared.right, place, place.turn());
        __syncthreads();  // gradients are read
        if (!is_last) fetch_gradients(step + 1);
#pragma unroll
        for (int i = 0; i < thread_own; ++i)
#pragma unroll
            for (int j = 0; j < thread_other; ++j) {
                if constexpr (reads_weights) scores[i][j] = shared.weights[place.own(i) * ld_w + (place.other(j) ^ place.turn())];
                scores[i][j] *= products[i][j] - shared.facts[place.other(j)].delta;
                // Keys beyond the last may have infinite weights.
                if (passes == 1 && place.own(i) >= kv_len - first) scores[i][j] = 0;
            }
        share_weights(shared.weights, scores, place);
        add_product<tile_rows, ld_w, ld_d>(of_keys, shared.weights, shared.left, place, place.turn());
        __syncthreads();  // queries have been read, and all threads have shared their weights
        if (!is_last) fetch_queries(step + 1);
        if constexpr (passes == 1) {
            Element* const to = d_q + call.dq_strides.of_head(at.b, head_of(step)) + static_cast<i64>(first_other) * dq_row;
            add_dq(reinterpret_cast<f32*>(to), dq_row, q_len - first_other, scale, shared.weights, shared.own_left);
        }
    }
    ptx::cp_async_wait<0>();
    store_rows<d, align_dk>(d_k + call.dk_strides.of_head(at.b, at.head) + static_cast<i64>(first) * dk_row, dk_row,
                            kv_len - first, of_keys, scale, place);
    store_rows<dv, align_dv>(d_v + call.dv_strides.of_head(at.b, at.head) + static_cast<i64>(first) * dv_row, dv_row,
                             kv_len - first, of_values, 1.0F, place);
}
