// dQ, dK and dV of attention on Hopper, in two passes without atomics: one owns tiles of queries and walks keys, the other owns
// tiles of keys and walks queries. Both compute the scores and their weights again, in the layout in which the registers of one
// product are the A operand of the next:
//   with queries along M: S = Q K^T, P = 2^(S c - lse log2 e), dP = dO V^T, dS = P (dP - delta), dQ += dS K
//   with keys along M: the same transposed, dV += P^T dO, dK += dS^T Q.
// If dK and dV together exceed the registers of a warpgroup, each block owns its keys for only one of them, and the scores are
// computed three times. A first kernel leaves lse log2 e and delta = sum(O dO) of each row in the workspace; rows beyond the last
// have lse = inf, so that their weights are 0.
// clang-format off
#define AUTOTUNE_KERNEL ${symbol}
#include "common/types.cuh"
using Element = ${element_type};
constexpr int d = ${d};                  // columns of Q and K
constexpr int dv = ${dv};                // head size of V, O and dO
constexpr int has_low = ${has_low};      // whether the mask has a bound on the left
constexpr int has_high = ${has_high};    // the same for the right side
constexpr int q_warpgroups = ${q_warpgroups};    // pass of dQ: consumer warpgroups of 64 queries
constexpr int q_block_k = ${q_block_k};  // keys of a tile
constexpr int q_stages = ${q_stages};
constexpr int k_warpgroups = ${k_warpgroups};    // pass of dK and dV: consumer warpgroups of 64 keys
constexpr int k_block_q = ${k_block_q};  // queries of a tile
constexpr int k_stages = ${k_stages};
// ---- end of parameters ----
// clang-format on
#include "attention_bwd/device/wgmma_parts.cuh"
#include "common/dependent_launch.cuh"

namespace {

using namespace hopper;

static_assert(sizeof(Element) == 2 && d % 8 == 0 && dv % 8 == 0 && d <= 256 && dv <= 256);
static_assert(q_block_k % 16 == 0 && k_block_q % 16 == 0 && q_stages >= 2 && k_stages >= 2);

constexpr int head_tile = padded(d), value_tile = padded(dv);  // columns of tiles in shared memory

using RowMask = attention::Mask<has_low != 0, has_high != 0>;
using KeyMask = attention::Mask<has_high != 0, has_low != 0>;

// ---- dQ ----

constexpr int q_rows = 64 * q_warpgroups;
constexpr int q_threads = 128 * (q_warpgroups + 1);

struct QueryShared {
    static constexpr u32 q_bytes = q_rows * head_tile * 2, do_bytes = q_rows * value_tile * 2;
    static constexpr u32 k_bytes = q_block_k * head_tile * 2, v_bytes = q_block_k * value_tile * 2;
    u32 q, d_o, k, v, barriers;
    __device__ __forceinline__ explicit QueryShared(u32 base)
        : q(base), d_o(q + q_bytes), k(d_o + do_bytes), v(k + q_stages * k_bytes), barriers(v + q_stages * v_bytes) {}
    __device__ __forceinline__ u32 full(int i) const { return barriers + i * 8; }
    __device__ __forceinline__ u32 empty(int i) const { return barriers + (q_stages + i) * 8; }
    __device__ __forceinline__ u32 loaded() const { return barriers + 2 * q_stages * 8; }
};

struct QueryStep {
    const QueryShared& shared;
    const RowMask& mask;
    float factor;                 // scale log2(e)
    float lse[2], delta[2];       // the values of the thread's rows; lse is in log2
    u64 q, d_o, k, v, k_by_rows;  // descriptors
    int row;

    template <bool is_masked>
    __device__ __forceinline__ void weigh(float (&s)[q_block_k / 2], const float (&dp)[q_block_k / 2], int n) const {
        if constexpr (is_masked) cut(s, mask, row, n * q_block_k + static_cast<int>(threadIdx.x % 4 * 2));
#pragma unroll
        for (int i = 0; i < q_block_k / 2; ++i) {
            const int r = i / 2 % 2;
            s[i] = attention::exp2_approx(fmaf(s[i], factor, -lse[r])) * (dp[i] - delta[r]);
        }
    }
    __device__ __forceinline__ void issue_scores(const Position<q_stages>& at, float (&s)[q_block_k / 2],
                                                 float (&dp)[q_block_k / 2]) const {
        issue_along_columns<Element, head_tile, q_rows, q_block_k>(s, q, descriptor_at(k, at.at * QueryShared::k_bytes));
        issue_along_columns<Element, value_tile, q_rows, q_block_k>(dp, d_o, descriptor_at(v, at.at * QueryShared::v_bytes));
        wgmma_commit();
    }
    template <bool is_masked>
    __device__ __forceinline__ void first(const Position<q_stages>& at, int n, u32 (&ds)[q_block_k / 4]) const {
        float s[q_block_k / 2], dp[q_block_k / 2];
        barrier_wait(shared.full(at.at), at.parity);
        wgmma_fence();
        issue_scores(at, s, dp);
        wgmma_wait<0>();
        weigh<is_masked>(s, dp, n);
        pack<Element>(s, ds);
    }
    // Processes tile n, while the product of tile n + 1's dS and K is still to come.
    template <bool is_masked>
    __device__ __forceinline__ void next(Position<q_stages>& at, int n, u32 (&ds)[q_block_k / 4],
                                         float (&dq)[head_tile / 2]) const {
        float s[q_block_k / 2], dp[q_block_k / 2];
        const Position<q_stages> before = at;
        at.next();
        barrier_wait(shared.full(at.at), at.parity);
        wgmma_fence();
        issue_scores(at, s, dp);
        issue_along_rows<Element, head_tile, q_block_k>(dq, ds, descriptor_at(k_by_rows, before.at * QueryShared::k_bytes));
        wgmma_commit();
        wgmma_wait<1>();
        weigh<is_masked>(s, dp, n);
        wgmma_wait<0>();
        release(shared.empty(before.at));
        pack<Element>(s, ds);
    }
};

__device__ __forceinline__ void query_math(const QueryShared& shared, const RowMask& mask, const Place& place, const Tiles& tiles,
                                           int group, int rows, float scale, const float* lse, const float* delta,
                                           const Destination<Element>& out) {
    const int row0 = place.tile * q_rows + group * 64;
    const int row = row0 + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
    float dq[head_tile / 2];
    clear(dq);
    barrier_wait(shared.loaded(), 0);
    if (tiles.end > tiles.first) {
        const QueryStep step{shared,
                             mask,
                             scale * attention::log2_e,
                             {lse[row], lse[row + 8]},
                             {delta[row], delta[row + 8]},
                             descriptor_along_columns<head_tile>(shared.q + group * (64 * span_of(head_tile) * 2)),
                             descriptor_along_columns<value_tile>(shared.d_o + group * (64 * span_of(value_tile) * 2)),
                             descriptor_along_columns<head_tile>(shared.k),
                             descriptor_along_columns<value_tile>(shared.v),
                             descriptor_along_rows<head_tile, q_block_k>(shared.k),
                             row};
        const int whole_first = mask.first_full_tile(row0 + 63, q_block_k);
        const int whole_end = mask.end_full_tile(row0, q_block_k);
        u32 ds[q_block_k / 4];
        Position<q_stages> at;
        int n = tiles.end - 1;
        step.first<true>(at, n, ds);
        --n;
#pragma unroll 1
        for (; n >= max(tiles.first, whole_end); --n) step.next<true>(at, n, ds, dq);
#pragma unroll 1
        for (; n >= max(tiles.first, whole_first); --n) step.next<false>(at, n, ds, dq);
        if constexpr (has_low != 0) {
#pragma unroll 1
            for (; n >= tiles.first; --n) step.next<true>(at, n, ds, dq);
        }
        wgmma_fence();
        issue_along_rows<Element, head_tile, q_block_k>(dq, ds, descriptor_at(step.k_by_rows, at.at * QueryShared::k_bytes));
        wgmma_commit();
        wgmma_wait<0>();
    }
    store_rows<head_tile, d>(out, place.batch, place.head, row, rows, dq, scale);
}

// ---- dK and dV ----

constexpr int k_rows = 64 * k_warpgroups;
constexpr bool splits_sums = head_tile + value_tile > 344;
constexpr int k_threads = 128 * (k_warpgroups + 1);

struct KeyShared {
    static constexpr u32 k_bytes = k_rows * head_tile * 2, v_bytes = k_rows * value_tile * 2;
    static constexpr u32 q_bytes = k_block_q * head_tile * 2, do_bytes = k_block_q * value_tile * 2, row_bytes = k_block_q * 4;
    u32 k, v, q, d_o, rows, barriers;
    __device__ __forceinline__ explicit KeyShared(u32 base)
        : k(base),
          v(k + k_bytes),
          q(v + v_bytes),
          d_o(q + k_stages * q_bytes),
          rows(d_o + k_stages * do_bytes),
          barriers(rows + k_stages * 2 * row_bytes) {}
    __device__ __forceinline__ u32 lse(int i) const { return rows + i * 2 * row_bytes; }
    __device__ __forceinline__ u32 full(int i) const { return barriers + i * 8; }
    __device__ __forceinline__ u32 empty(int i) const { return barriers + (k_stages + i) * 8; }
    __device__ __forceinline__ u32 loaded() const { return barriers + 2 * k_stages * 8; }
};

struct KeyStep {
    const KeyShared& shared;
    const KeyMask& mask;
    float factor;
    u64 k, v, q, d_o, q_by_rows, do_by_rows;
    int row;

    // Processes tile n of queries; products of the previous tile may still be in flight: `before` is its stage, or -1.
    template <bool of_k, bool of_v, bool is_masked>
    __device__ __forceinline__ void run(Position<k_stages>& at, int& before, int n, float (&dk)[head_tile / 2],
                                        float (&d_v)[value_tile / 2]) const {
        constexpr int scores = k_block_q / 2;
        const u32 of_rows = shared.lse(at.at) + threadIdx.x % 4 * 8;
        float s[scores], dp[scores];
        u32 p[scores / 2], ds[scores / 2];
        barrier_wait(shared.full(at.at), at.parity);
        wgmma_fence();
        issue_along_columns<Element, head_tile, k_rows, k_block_q>(s, k, descriptor_at(q, at.at * KeyShared::q_bytes));
        wgmma_commit();
        if constexpr (of_k) {
            issue_along_columns<Element, value_tile, k_rows, k_block_q>(dp, v, descriptor_at(d_o, at.at * KeyShared::do_bytes));
            wgmma_commit();
        }
        wgmma_wait<of_k ? 1 : 0>();
        if (before >= 0) release(shared.empty(before));
        if constexpr (is_masked) cut(s, mask, row, n * k_block_q + static_cast<int>(threadIdx.x % 4 * 2));
#pragma unroll
        for (int j = 0; j < k_block_q / 8; ++j) {
            const float2 lse = load_pair(of_rows + j * 32);
#pragma unroll
            for (int i = 0; i < 4; ++i)
                s[4 * j + i] = attention::exp2_approx(fmaf(s[4 * j + i], factor, i % 2 == 0 ? -lse.x : -lse.y));
        }
        if constexpr (of_v) {
            pack<Element>(s, p);
            wgmma_fence();
            issue_along_rows<Element, value_tile, k_block_q>(d_v, p, descriptor_at(do_by_rows, at.at * KeyShared::do_bytes));
            wgmma_commit();
        }
        if constexpr (of_k) {
            wgmma_wait<of_v ? 1 : 0>();
#pragma unroll
            for (int j = 0; j < k_block_q / 8; ++j) {
                const float2 delta = load_pair(of_rows + KeyShared::row_bytes + j * 32);
#pragma unroll
                for (int i = 0; i < 4; ++i) s[4 * j + i] *= dp[4 * j + i] - (i % 2 == 0 ? delta.x : delta.y);
            }
            pack<Element>(s, ds);
            wgmma_fence();
            issue_along_rows<Element, head_tile, k_block_q>(dk, ds, descriptor_at(q_by_rows, at.at * KeyShared::q_bytes));
            wgmma_commit();
            if constexpr (of_v) wgmma_wait<1>();  // P's registers are free for the next tile
        }
        before = at.at;
        at.next();
    }
};

template <bool of_k, bool of_v>
__device__ __forceinline__ void key_math(const KeyShared& shared, const KeyMask& mask, const Place& place, const Tiles& tiles,
                                         int heads, int group, int keys, float scale, const Destination<Element>& to_k,
                                         const Destination<Element>& to_v) {
    const int row0 = place.tile * k_rows + group * 64;
    const int row = row0 + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
    float dk[head_tile / 2], d_v[value_tile / 2];
    if constexpr (of_k) clear(dk);
    if constexpr (of_v) clear(d_v);
    barrier_wait(shared.loaded(), 0);
    if (tiles.end > tiles.first) {
        const KeyStep step{shared,
                           mask,
                           scale * attention::log2_e,
                           descriptor_along_columns<head_tile>(shared.k + group * (64 * span_of(head_tile) * 2)),
                           descriptor_along_columns<value_tile>(shared.v + group * (64 * span_of(value_tile) * 2)),
                           descriptor_along_columns<head_tile>(shared.q),
                           descriptor_along_columns<value_tile>(shared.d_o),
                           descriptor_along_rows<head_tile, k_block_q>(shared.q),
                           descriptor_along_rows<value_tile, k_block_q>(shared.d_o),
                           row};
        // Beyond the last query weights are 0 without a mask.
        const int whole_first = min(max(mask.first_full_tile(row0 + 63, k_block_q), tiles.first), tiles.end);
        const int whole_end = has_low != 0 ? max(min(mask.end_full_tile(row0, k_block_q), tiles.end), whole_first) : tiles.end;
        Position<k_stages> at;
        int before = -1;
#pragma unroll 1
        for (int head = 0; head < heads; ++head) {
            int n = tiles.first;
            if constexpr (has_high != 0) {
#pragma unroll 1
                for (; n < whole_first; ++n) step.run<of_k, of_v, true>(at, before, n, dk, d_v);
            }
#pragma unroll 1
            for (; n < whole_end; ++n) step.run<of_k, of_v, false>(at, before, n, dk, d_v);
            if constexpr (has_low != 0) {
#pragma unroll 1
                for (; n < tiles.end; ++n) step.run<of_k, of_v, true>(at, before, n, dk, d_v);
            }
        }
        wgmma_wait<0>();
    }
    if constexpr (of_k) store_rows<head_tile, d>(to_k, place.batch, place.head, row, keys, dk, scale);
    if constexpr (of_v) store_rows<value_tile, dv>(to_v, place.batch, place.head, row, keys, d_v, 1.0f);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(256)
    AUTOTUNE_ENTRY(_prepare)(const Element* d_o, const Element* o, const float* lse, float* lse_out, float* delta_out, int heads,
                             int rows, int padded_rows, long long do_batch, long long do_head, long long do_row,
                             long long o_batch, long long o_head, long long o_row) {
    dependent_launch::wait_for_earlier_grids();
    dependent_launch::let_next_grid_start();
    prepare_rows<Element, dv>(d_o, o, lse, lse_out, delta_out, heads, rows, padded_rows, do_batch, do_head, do_row, o_batch, o_head,
                              o_row);
}

extern "C" __global__ void __launch_bounds__(q_threads, 1)
    AUTOTUNE_ENTRY()(const __grid_constant__ TensorMap map_q, const __grid_constant__ TensorMap map_do,
                     const __grid_constant__ TensorMap map_k, const __grid_constant__ TensorMap map_v, const float* lse,
                     const float* delta, Element* dq, float scale, int heads, int group, int rows, int keys, int padded_rows,
                     int mask_low, int mask_high, long long dq_batch, long long dq_head, long long dq_row, int tiles,
                     int all_tiles, int heads_at_once, int descending) {
    extern __shared__ unsigned char memory[];
    const QueryShared shared((smem_address(memory) + 1023) & ~1023u);
    init_barriers<q_stages>(shared, 4 * q_warpgroups);
    const RowMask mask{mask_low, mask_high, keys};
    const Place place = place_of({tiles, heads, heads_at_once, all_tiles, descending}, static_cast<int>(blockIdx.x));
    const int first_row = place.tile * q_rows;
    const Tiles range{mask.first_tile(first_row, q_block_k), mask.end_tile(min(first_row + q_rows, rows) - 1, q_block_k)};
    dependent_launch::wait_for_earlier_grids();
    dependent_launch::let_next_grid_start();
    const int warpgroup = warp_uniform(threadIdx.x / 128);
    if (warpgroup == 0) {
        if constexpr (Registers<q_warpgroups>::reallocates) give_registers<Registers<q_warpgroups>::producer>();
        if (threadIdx.x == 0) {
            barrier_expect(shared.loaded(), QueryShared::q_bytes + QueryShared::do_bytes);
            load_tile<head_tile, q_rows>(shared.q, &map_q, shared.loaded(), first_row, place.head, place.batch,
                                         policy_evict_first);
            load_tile<value_tile, q_rows>(shared.d_o, &map_do, shared.loaded(), first_row, place.head, place.batch,
                                          policy_evict_first);
            Position<q_stages> at;
#pragma unroll 1
            for (int n = range.end - 1; n >= range.first; --n) {
                barrier_wait(shared.empty(at.at), at.parity ^ 1);
                barrier_expect(shared.full(at.at), QueryShared::k_bytes + QueryShared::v_bytes);
                load_tile<head_tile, q_block_k>(shared.k + at.at * QueryShared::k_bytes, &map_k, shared.full(at.at),
                                                n * q_block_k, place.head / group, place.batch, policy_normal);
                load_tile<value_tile, q_block_k>(shared.v + at.at * QueryShared::v_bytes, &map_v, shared.full(at.at),
                                                 n * q_block_k, place.head / group, place.batch, policy_normal);
                at.next();
            }
        }
    } else {
        if constexpr (Registers<q_warpgroups>::reallocates) take_registers<Registers<q_warpgroups>::math>();
        const long long plane = static_cast<long long>(place.batch) * heads + place.head;
        query_math(shared, mask, place, range, warpgroup - 1, rows, scale, lse + plane * padded_rows, delta + plane * padded_rows,
                   {dq, dq_batch, dq_head, dq_row});
    }
}

extern "C" __global__ void __launch_bounds__(k_threads, 1)
    AUTOTUNE_ENTRY(_keys)(const __grid_constant__ TensorMap map_q, const __grid_constant__ TensorMap map_do,
                          const __grid_constant__ TensorMap map_k, const __grid_constant__ TensorMap map_v, const float* lse,
                          const float* delta, Element* dk, Element* d_v, float scale, int kv_heads, int group, int rows, int keys,
                          int padded_rows, int mask_low, int mask_high, long long dk_batch, long long dk_head, long long dk_row,
                          long long dv_batch, long long dv_head, long long dv_row, int tiles, int all_tiles, int heads_at_once,
                          int descending) {
    extern __shared__ unsigned char memory[];
    const KeyShared shared((smem_address(memory) + 1023) & ~1023u);
    init_barriers<k_stages>(shared, 4 * k_warpgroups);
    const KeyMask mask = attention::seen_from_keys(RowMask{mask_low, mask_high, keys}, rows);
    const bool is_second = splits_sums && static_cast<int>(blockIdx.x) >= all_tiles;  // the block for dV
    const Place place = place_of({tiles, kv_heads, heads_at_once, all_tiles, descending},
                                 static_cast<int>(blockIdx.x) - (is_second ? all_tiles : 0));
    const int first_key = place.tile * k_rows;
    const Tiles range{mask.first_tile(first_key, k_block_q), mask.end_tile(min(first_key + k_rows, keys) - 1, k_block_q)};
    dependent_launch::wait_for_earlier_grids();
    dependent_launch::let_next_grid_start();
    const int warpgroup = warp_uniform(threadIdx.x / 128);
    if (warpgroup == 0) {
        if constexpr (Registers<k_warpgroups>::reallocates) give_registers<Registers<k_warpgroups>::producer>();
        if (threadIdx.x == 0) {
            barrier_expect(shared.loaded(), KeyShared::k_bytes + KeyShared::v_bytes);
            load_tile<head_tile, k_rows>(shared.k, &map_k, shared.loaded(), first_key, place.head, place.batch,
                                         policy_evict_first);
            load_tile<value_tile, k_rows>(shared.v, &map_v, shared.loaded(), first_key, place.head, place.batch,
                                          policy_evict_first);
            Position<k_stages> at;
#pragma unroll 1
            for (int head = place.head * group; head < (place.head + 1) * group; ++head) {
                const long long plane = static_cast<long long>(place.batch) * kv_heads * group + head;
#pragma unroll 1
                for (int n = range.first; n < range.end; ++n) {
                    barrier_wait(shared.empty(at.at), at.parity ^ 1);
                    barrier_expect(shared.full(at.at), KeyShared::q_bytes + KeyShared::do_bytes + 2 * KeyShared::row_bytes);
                    load_tile<head_tile, k_block_q>(shared.q + at.at * KeyShared::q_bytes, &map_q, shared.full(at.at),
                                                    n * k_block_q, head, place.batch, policy_normal);
                    load_row_values(shared.lse(at.at), lse + plane * padded_rows + n * k_block_q, KeyShared::row_bytes,
                                    shared.full(at.at));
                    load_row_values(shared.lse(at.at) + KeyShared::row_bytes, delta + plane * padded_rows + n * k_block_q,
                                    KeyShared::row_bytes, shared.full(at.at));
                    load_tile<value_tile, k_block_q>(shared.d_o + at.at * KeyShared::do_bytes, &map_do, shared.full(at.at),
                                                     n * k_block_q, head, place.batch, policy_normal);
                    at.next();
                }
            }
        }
    } else {
        if constexpr (Registers<k_warpgroups>::reallocates) take_registers<Registers<k_warpgroups>::math>();
        const Destination<Element> to_k{dk, dk_batch, dk_head, dk_row}, to_v{d_v, dv_batch, dv_head, dv_row};
        if constexpr (!splits_sums) {
            key_math<true, true>(shared, mask, place, range, group, warpgroup - 1, keys, scale, to_k, to_v);
        } else if (is_second) {
            key_math<false, true>(shared, mask, place, range, group, warpgroup - 1, keys, scale, to_k, to_v);
        } else {
            key_math<true, false>(shared, mask, place, range, group, warpgroup - 1, keys, scale, to_k, to_v);
        }
    }
}
