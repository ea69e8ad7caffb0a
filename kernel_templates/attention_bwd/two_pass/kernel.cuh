// Gradients of attention in two passes over the scores on mma.sync m16n8k16, without atomics: a block with its queries goes
// through the keys for dQ, and a block with its keys through the queries for dK and dV. Scores are computed twice; only the
// gradients are written, so the same input gives the same bits. A first kernel sums do * o of each row.
#include "attention_bwd/device/bwd_call.cuh"
#include "common/ptx.cuh"
// clang-format off
#define AUTOTUNE_KERNEL ${symbol}
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
constexpr int align_do = ${align_do};
constexpr int align_dq = ${align_dq};
constexpr int align_dk = ${align_dk};
constexpr int align_dv = ${align_dv};
constexpr int q_warps = ${q_warps};  // warps of the pass for dQ, with 16 queries each
constexpr int q_tile = ${q_tile};    // keys of its tiles
constexpr int k_warps = ${k_warps};  // warps of the pass for dK and dV, with 16 keys each
constexpr int k_tile = ${k_tile};    // queries of its tiles
constexpr int stages = ${stages};
constexpr bool smem_swizzle = ${smem_swizzle};
constexpr int resident_blocks = ${resident_blocks};
// clang-format on
// ---- end of parameters ----
#include "attention/device/attention_order.cuh"
#include "attention/device/rows.cuh"

namespace {

constexpr int steps_d = (d + 15) / 16;
constexpr int steps_v = (dv + 15) / 16;
static_assert(sizeof(Element) == 2 && !tf32, "operands are 16-bit");
static_assert(q_tile % 16 == 0 && k_tile % 16 == 0 && stages >= 2, "whole mma steps, tiles ahead");

constexpr bool swizzle_d = smem_swizzle && d % 64 == 0, swizzle_v = smem_swizzle && dv % 64 == 0;
using RowsD = attention::Rows<d, swizzle_d>;
using RowsV = attention::Rows<dv, swizzle_v>;

struct Lane {
    int id, warp;
    int a_row, a_chunk;  // the lane's address for ldmatrix, for A and for B stored by rows of the sum: rows, then chunks
    int b_row, b_chunk;  // the same for B stored by rows of the result: chunks, then rows

    __device__ __forceinline__ Lane()
        : id(threadIdx.x % 32),
          warp(threadIdx.x / 32),
          a_row(id % 16),
          a_chunk(id / 16),
          b_row(id / 16 * 8 + id % 8),
          b_chunk(id / 8 % 2) {}
};

using Fragment = u32[4];

// result[16 rows of a warp][16 * row_steps rows of b] = a b^T, both stored by rows.
template <class Layout, int contract_steps, int row_steps>
__device__ __forceinline__ void multiply_rows(f32 (&result)[2 * row_steps][4], u32 a, u32 b, const Lane& lane) {
#pragma unroll
    for (int n = 0; n < 2 * row_steps; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) result[n][i] = 0;
    Fragment left[2], right[2];
    constexpr int parts = contract_steps * row_steps;
    const auto load = [&](int part) {
        const int step = part / row_steps, rows = part % row_steps;
        if (rows == 0) ptx::ldmatrix_x4(left[step % 2], a + Layout::offset(lane.warp * 16 + lane.a_row, 2 * step + lane.a_chunk));
        ptx::ldmatrix_x4(right[part % 2], b + Layout::offset(rows * 16 + lane.b_row, 2 * step + lane.b_chunk));
    };
    load(0);
#pragma unroll
    for (int part = 0; part < parts; ++part) {
        const int step = part / row_steps, rows = part % row_steps;
        if (part + 1 < parts) load(part + 1);
        ptx::mma_m16n8k16<Element>(result[2 * rows], left[step % 2], right[part % 2][0], right[part % 2][1]);
        ptx::mma_m16n8k16<Element>(result[2 * rows + 1], left[step % 2], right[part % 2][2], right[part % 2][3]);
    }
}

// sums[16 rows of a warp][16 * column_steps] += weights b, b stored by rows of the sum.
template <class Layout, int column_steps, int contract_steps>
__device__ __forceinline__ void add_product(f32 (&sums)[2 * column_steps][4], const Fragment (&weights)[contract_steps], u32 b,
                                            const Lane& lane) {
    Fragment right[2];
    constexpr int parts = contract_steps * column_steps;
    const auto load = [&](int part) {
        const int step = part / column_steps, columns = part % column_steps;
        ptx::ldmatrix_x4_trans(right[part % 2], b + Layout::offset(step * 16 + lane.a_row, 2 * columns + lane.a_chunk));
    };
    load(0);
#pragma unroll
    for (int part = 0; part < parts; ++part) {
        const int step = part / column_steps, columns = part % column_steps;
        if (part + 1 < parts) load(part + 1);
        ptx::mma_m16n8k16<Element>(sums[2 * columns], weights[step], right[part % 2][0], right[part % 2][1]);
        ptx::mma_m16n8k16<Element>(sums[2 * columns + 1], weights[step], right[part % 2][2], right[part % 2][3]);
    }
}

// Packs the accumulators of a product as the left operand of the next.
template <int steps>
__device__ __forceinline__ void pack(Fragment (&to)[steps], const f32 (&from)[2 * steps][4]) {
#pragma unroll
    for (int step = 0; step < steps; ++step) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const f32* const pair = from[2 * step + i / 2] + i % 2 * 2;
            to[step][i] = ptx::pack_pair<Element>(pair[0], pair[1]);
        }
    }
}

template <int count>
__device__ __forceinline__ void clear(f32 (&sums)[count][4]) {
#pragma unroll
    for (int n = 0; n < count; ++n)
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[n][i] = 0;
}

// The rows by which a thread's accumulators are masked: rows lane / 4 and lane / 4 + 8 of the warp.
template <class Masks, int count>
__device__ __forceinline__ void apply_mask(f32 (&scores)[count][4], const Masks& mask, int first_row, int first_column,
                                           const Lane& lane) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int row = first_row + lane.warp * 16 + half * 8 + lane.id / 4;
        const int base = first_column + lane.id % 4 * 2;
        const int begin = mask.first_key(row) - base, end = mask.end_key(row) - base;
#pragma unroll
        for (int n = 0; n < count; ++n) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                if (n * 8 + i < begin || n * 8 + i >= end) scores[n][2 * half + i] = attention::minus_infinity();
            }
        }
    }
}

// Stores the rows of a warp times `factor`, staged in the shared memory of its own operand.
template <class Layout, int columns, int align, int count>
__device__ __forceinline__ void store_rows(Element* to, i64 row_elements, int rows, const f32 (&sums)[count][4], f32 factor,
                                           u32 staging, const Lane& lane) {
    __syncwarp();
    const int first = lane.warp * 16;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int n = 0; n < count; ++n) {
            const u32 pair = ptx::pack_pair<Element>(sums[n][2 * half] * factor, sums[n][2 * half + 1] * factor);
            attention::store_shared_word(staging + Layout::offset(first + half * 8 + lane.id / 4, n) + lane.id % 4 * 4, pair);
        }
    }
    __syncwarp();
    constexpr int chunks = columns / 8;
    for (int at = lane.id; at < 16 * chunks; at += 32) {
        const int row = first + at / chunks, chunk = at % chunks;
        if (row >= rows) break;
        attention::store_chunk<align>(to + row * row_elements + chunk * 8,
                                      attention::load_shared_chunk(staging + Layout::offset(row, chunk)));
    }
}

// The facts of a row: the logarithm of its sum in units of log 2, and delta. Rows without weight and rows that do not exist have
// +inf and 0, so that all their weights are 0.
struct RowFacts {
    f32 lse, delta;
};

constexpr int delta_warps = 8;

}  // namespace

extern "C" __global__ void __launch_bounds__(32 * delta_warps)
    AUTOTUNE_ENTRY(_delta)(ATTENTION_BWD_PARAMETERS, RowFacts* facts, int) {
    const i64 rows = static_cast<i64>(batches) * q_heads * q_len;
    const i64 line = static_cast<i64>(blockIdx.x) * delta_warps + threadIdx.x / 32;
    if (line >= rows) return;
    const i64 row = line % q_len, head = line / q_len % q_heads, b = line / q_len / q_heads;
    const Element* const left = o + b * o_batch + head * o_head + row * o_row;
    const Element* const right = d_o + b * do_batch + head * do_head + row * do_row;
    f32 sum = 0;
    constexpr int least = (align_o < align_do ? align_o : align_do) / 2;
    constexpr int vec = least < 4 ? least : 4;
    for (int i = static_cast<int>(threadIdx.x % 32) * vec; i < dv; i += 32 * vec) {
        const Pack<Element, vec> x = load_pack<Element, vec>(left + i), y = load_pack<Element, vec>(right + i);
#pragma unroll
        for (int j = 0; j < vec; ++j) sum = __fmaf_rn(to_f32(x.at[j]), to_f32(y.at[j]), sum);
    }
#pragma unroll
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffU, sum, step);
    if (threadIdx.x % 32 != 0) return;
    const f32 value = lse[line];
    const bool has_weight = value != attention::minus_infinity();
    facts[line] = {has_weight ? value * attention::log2_e : -attention::minus_infinity(), has_weight ? sum : 0.0F};
}

extern "C" __global__ void __launch_bounds__(32 * q_warps, resident_blocks)
    AUTOTUNE_ENTRY(_queries)(ATTENTION_BWD_PARAMETERS, const RowFacts* facts, int order) {
    constexpr int threads = 32 * q_warps, block_q = 16 * q_warps, row_steps = q_tile / 16;
    constexpr int q_bytes = block_q * RowsD::row_bytes, do_bytes = block_q * RowsV::row_bytes;
    constexpr int k_bytes = q_tile * RowsD::row_bytes, v_bytes = q_tile * RowsV::row_bytes;
    extern __shared__ __align__(16) unsigned char memory[];
    const attention::BwdCall<Element> call = ATTENTION_BWD_CALL;
    const Lane lane;
    const int tiles_q = (q_len + block_q - 1) / block_q;
    const attention::BlockTile at = attention::block_tile(blockIdx.x, tiles_q, batches * q_heads, q_heads, order, 1);
    const int first_row = at.tile * block_q, last_row = min(first_row + block_q, q_len) - 1;
    const auto mask = call.forward.mask<has_low, has_high>();
    const int begin = mask.first_tile(first_row, q_tile), end = mask.end_tile(last_row, q_tile);
    const int begin_full = mask.first_full_tile(last_row, q_tile), end_full = mask.end_full_tile(first_row, q_tile);
    const f32 slope = scale * attention::log2_e;
    const i64 line = (static_cast<i64>(at.b) * q_heads + at.head) * q_len;

    const u32 shared_q = ptx::shared_address(memory), shared_do = shared_q + q_bytes;
    const u32 shared_k = shared_do + do_bytes, shared_v = shared_k + stages * k_bytes;
    const Element* const keys = k + call.forward.k_strides.of_head(at.b, at.head / group);
    const Element* const values = v + call.forward.v_strides.of_head(at.b, at.head / group);
    const auto fetch = [&](int tile) {
        if (tile < end) {
            const int slot = (tile - begin) % stages, left = kv_len - tile * q_tile;
            attention::RowCopier<q_tile, d, swizzle_d, align_k, threads>::copy(
                shared_k + slot * k_bytes, keys + static_cast<i64>(tile) * q_tile * k_row, k_row, left);
            attention::RowCopier<q_tile, dv, swizzle_v, align_v, threads>::copy(
                shared_v + slot * v_bytes, values + static_cast<i64>(tile) * q_tile * v_row, v_row, left);
        }
        ptx::cp_async_commit();
    };
    attention::RowCopier<block_q, d, swizzle_d, align_q, threads>::copy(
        shared_q, q + call.forward.q_strides.of_head(at.b, at.head) + static_cast<i64>(first_row) * q_row, q_row,
        q_len - first_row);
    attention::RowCopier<block_q, dv, swizzle_v, align_do, threads>::copy(
        shared_do, d_o + call.do_strides.of_head(at.b, at.head) + static_cast<i64>(first_row) * do_row, do_row,
        q_len - first_row);
#pragma unroll
    for (int i = 0; i < stages - 1; ++i) fetch(begin + i);

    RowFacts mine[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int row = first_row + lane.warp * 16 + half * 8 + lane.id / 4;
        mine[half] = {-attention::minus_infinity(), 0};
        if (row < q_len) mine[half] = facts[line + row];
    }
    f32 sums[2 * steps_d][4];
    clear(sums);
    for (int tile = begin; tile < end; ++tile) {
        ptx::cp_async_wait<stages - 2>();
        __syncthreads();
        fetch(tile + stages - 1);
        const int slot = (tile - begin) % stages;
        f32 scores[2 * row_steps][4], products[2 * row_steps][4];
        multiply_rows<RowsD, steps_d, row_steps>(scores, shared_q, shared_k + slot * k_bytes, lane);
        multiply_rows<RowsV, steps_v, row_steps>(products, shared_do, shared_v + slot * v_bytes, lane);
        if (tile < begin_full || tile >= end_full) apply_mask(scores, mask, first_row, tile * q_tile, lane);
#pragma unroll
        for (int n = 0; n < 2 * row_steps; ++n) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const f32 weight = attention::exp2_approx(__fmaf_rn(scores[n][i], slope, -mine[i / 2].lse));
                scores[n][i] = weight * (products[n][i] - mine[i / 2].delta);
            }
        }
        Fragment weights[row_steps];
        pack(weights, scores);
        add_product<RowsD, steps_d>(sums, weights, shared_k + slot * k_bytes, lane);
    }
    ptx::cp_async_wait<0>();
    if (begin >= end) __syncthreads();  // every thread's copies must have landed before results are staged there
    store_rows<RowsD, d, align_dq>(d_q + call.dq_strides.of_head(at.b, at.head) + static_cast<i64>(first_row) * dq_row, dq_row,
                                   q_len - first_row, sums, scale, shared_q, lane);
}

extern "C" __global__ void __launch_bounds__(32 * k_warps, resident_blocks)
    AUTOTUNE_ENTRY()(ATTENTION_BWD_PARAMETERS, const RowFacts* facts, int order) {
    constexpr int threads = 32 * k_warps, block_k = 16 * k_warps, row_steps = k_tile / 16;
    constexpr int k_bytes = block_k * RowsD::row_bytes, v_bytes = block_k * RowsV::row_bytes;
    constexpr int q_bytes = k_tile * RowsD::row_bytes, do_bytes = k_tile * RowsV::row_bytes;
    extern __shared__ __align__(16) unsigned char memory[];
    const attention::BwdCall<Element> call = ATTENTION_BWD_CALL;
    const Lane lane;
    const int kv_heads = q_heads / group;
    const int tiles_k = (kv_len + block_k - 1) / block_k;
    const attention::BlockTile at = attention::block_tile(blockIdx.x, tiles_k, batches * kv_heads, kv_heads, order, 1);
    // Most queries see the first keys, so if long tiles come first, the tiles of the first keys do.
    const int own_tile = order == attention::heads_outside ? at.tile : tiles_k - 1 - at.tile;
    const int first_row = own_tile * block_k, last_row = min(first_row + block_k, kv_len) - 1;
    const auto seen = attention::seen_from_keys(call.forward.mask<has_low, has_high>(), q_len);
    const int begin = seen.first_tile(first_row, k_tile), end = seen.end_tile(last_row, k_tile);
    const int begin_full = seen.first_full_tile(last_row, k_tile), end_full = seen.end_full_tile(first_row, k_tile);
    const f32 slope = scale * attention::log2_e;

    const u32 shared_k = ptx::shared_address(memory), shared_v = shared_k + k_bytes;
    const u32 shared_q = shared_v + v_bytes, shared_do = shared_q + stages * q_bytes;
    RowFacts* const shared_facts = reinterpret_cast<RowFacts*>(memory + k_bytes + v_bytes + stages * (q_bytes + do_bytes));
    // The tiles are all tiles of queries, one head after the other.
    const int tiles = max(end - begin, 0), turns = tiles * group;
    const auto fetch = [&](int turn) {
        if (turn < turns) {
            const int slot = turn % stages, head = at.head * group + turn / tiles, first = (begin + turn % tiles) * k_tile;
            const int left = q_len - first;
            attention::RowCopier<k_tile, d, swizzle_d, align_q, threads>::copy(
                shared_q + slot * q_bytes, q + call.forward.q_strides.of_head(at.b, head) + static_cast<i64>(first) * q_row,
                q_row, left);
            attention::RowCopier<k_tile, dv, swizzle_v, align_do, threads>::copy(
                shared_do + slot * do_bytes, d_o + call.do_strides.of_head(at.b, head) + static_cast<i64>(first) * do_row, do_row,
                left);
            const i64 line = (static_cast<i64>(at.b) * q_heads + head) * q_len + first;
            for (int i = threadIdx.x; i < k_tile; i += threads) {
                RowFacts row = {-attention::minus_infinity(), 0};
                if (i < left) row = facts[line + i];
                shared_facts[slot * k_tile + i] = row;
            }
        }
        ptx::cp_async_commit();
    };
    attention::RowCopier<block_k, d, swizzle_d, align_k, threads>::copy(
        shared_k, k + call.forward.k_strides.of_head(at.b, at.head) + static_cast<i64>(first_row) * k_row, k_row,
        kv_len - first_row);
    attention::RowCopier<block_k, dv, swizzle_v, align_v, threads>::copy(
        shared_v, v + call.forward.v_strides.of_head(at.b, at.head) + static_cast<i64>(first_row) * v_row, v_row,
        kv_len - first_row);
#pragma unroll
    for (int i = 0; i < stages - 1; ++i) fetch(i);

    f32 of_keys[2 * steps_d][4], of_values[2 * steps_v][4];
    clear(of_keys);
    clear(of_values);
    for (int turn = 0; turn < turns; ++turn) {
        ptx::cp_async_wait<stages - 2>();
        __syncthreads();
        fetch(turn + stages - 1);
        const int slot = turn % stages, tile = begin + turn % tiles;
        f32 scores[2 * row_steps][4], products[2 * row_steps][4];
        multiply_rows<RowsD, steps_d, row_steps>(scores, shared_k, shared_q + slot * q_bytes, lane);
        if (tile < begin_full || tile >= end_full) apply_mask(scores, seen, first_row, tile * k_tile, lane);
        const RowFacts* const rows = shared_facts + slot * k_tile + lane.id % 4 * 2;
#pragma unroll
        for (int n = 0; n < 2 * row_steps; ++n) {
#pragma unroll
            for (int i = 0; i < 4; ++i)
                scores[n][i] = attention::exp2_approx(__fmaf_rn(scores[n][i], slope, -rows[n * 8 + i % 2].lse));
        }
        Fragment weights[row_steps];
        pack(weights, scores);
        add_product<RowsV, steps_v>(of_values, weights, shared_do + slot * do_bytes, lane);
        multiply_rows<RowsV, steps_v, row_steps>(products, shared_v, shared_do + slot * do_bytes, lane);
#pragma unroll
        for (int n = 0; n < 2 * row_steps; ++n) {
#pragma unroll
            for (int i = 0; i < 4; ++i) scores[n][i] *= products[n][i] - rows[n * 8 + i % 2].delta;
        }
        pack(weights, scores);
        add_product<RowsD, steps_d>(of_keys, weights, shared_q + slot * q_bytes, lane);
    }
    ptx::cp_async_wait<0>();
    if (turns == 0) __syncthreads();
    store_rows<RowsD, d, align_dk>(d_k + call.dk_strides.of_head(at.b, at.head) + static_cast<i64>(first_row) * dk_row, dk_row,
                                   kv_len - first_row, of_keys, scale, shared_k, lane);
    store_rows<RowsV, dv, align_dv>(d_v + call.dv_strides.of_head(at.b, at.head) + static_cast<i64>(first_row) * dv_row, dv_row,
                                    kv_len - first_row, of_values, 1.0F, shared_v, lane);
}
