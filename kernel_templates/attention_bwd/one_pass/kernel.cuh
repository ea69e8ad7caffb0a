// dQ, dK and dV of attention on Hopper in one pass: a block owns a tile of keys and walks the queries that see them. Scores and
// weights are computed once, transposed, in registers that are the A operands of dV and dK:
//   S^T = K Q^T, P^T = 2^(S^T c - lse log2 e), dP^T = V dO^T, dS^T = P^T (dP^T - delta), dV += P^T dO, dK += dS^T Q.
// dS^T also goes to shared memory, from which all warpgroups compute dQ = dS K of the tile of queries. These f32 fragments are
// added up in the workspace, in any order or in the order of the blocks' tickets, and a last kernel converts the sums to dQ.
// clang-format off
#define AUTOTUNE_KERNEL ${symbol}
#include "common/types.cuh"
using Element = ${element_type};
constexpr int d = ${d};                        // columns of Q and K
constexpr int dv = ${dv};                      // head size of V, O and dO
constexpr int has_low = ${has_low};            // whether the mask has a bound on the left
constexpr int has_high = ${has_high};          // the same for the right side
constexpr int groups = ${groups};              // consumer warpgroups of 64 keys
constexpr int block_q = ${block_q};            // queries of a tile
constexpr int stages = ${stages};              // tiles of queries in shared memory
constexpr int ds_buffers = ${ds_buffers};      // tiles of dS in shared memory
constexpr int dq_path = ${dq_path};            // dQ is added 0: from registers, 1: from shared memory, 2: from there in order
constexpr int dq_buffers = ${dq_buffers};      // tiles of dQ in shared memory
constexpr int swap_dq = ${swap_dq};            // 1: dQ^T = K^T dS^T
constexpr int early_dv = ${early_dv};  // dV's product begins 1: before dP is ready, 2: after half of the queries, and dK's too
// ---- end of parameters ----
// clang-format on
#include "attention/device/mask.cuh"
#include "attention_bwd/one_pass/key_order.cuh"
#include "attention_bwd/device/wgmma_parts.cuh"
#include "common/dependent_launch.cuh"

namespace {

using namespace hopper;

static_assert(sizeof(Element) == 2 && d % 8 == 0 && dv % 8 == 0 && block_q % 16 == 0 && stages >= 2);

constexpr int head_tile = padded(d), value_tile = padded(dv);  // columns of tiles in shared memory
constexpr int k_rows = 64 * groups;
constexpr int math_threads = 128 * groups;
constexpr bool is_staged = dq_path != 0, is_ordered = dq_path == 2;

using RowMask = attention::Mask<has_low != 0, has_high != 0>;
using KeyMask = attention::Mask<has_high != 0, has_low != 0>;
using Meetings = attention_bwd::TileMeetings<has_low != 0, has_high != 0>;

// dS^T in shared memory has rows of keys, with queries along them in swizzle spans.
constexpr int ds_span = block_q % 64 == 0 ? 64 : block_q % 32 == 0 ? 32 : 16;
constexpr u32 ds_slab_bytes = k_rows * ds_span * 2;
constexpr u32 ds_bytes = k_rows * block_q * 2;

// The groups divide dQ or dQ^T into blocks of 64 rows. If there are more groups than such blocks, they divide it by columns, too.
constexpr int dq_m_blocks = swap_dq ? head_tile / 64 : block_q / 64;
static_assert(dq_m_blocks > 0 && groups % dq_m_blocks == 0 && (swap_dq ? head_tile : block_q) % 64 == 0);
constexpr int dq_columns = (swap_dq ? block_q : head_tile) / (groups / dq_m_blocks);
constexpr int dq_span = swap_dq ? ds_span : span_of(head_tile);
static_assert(dq_columns % (swap_dq ? 16 : 32) == 0 && (dq_columns % dq_span == 0 || dq_span % dq_columns == 0));
constexpr int dq_registers = dq_columns / 2;
constexpr u32 dq_group_bytes = dq_registers * 128 * 4, dq_bytes = dq_group_bytes * groups;
// Threads that add in order, each a part of every tile, because an add takes longer than the products of a tile.
constexpr int adders = is_ordered ? 2 : 1;
constexpr u32 part_bytes = dq_bytes / adders;
// A group stores dQ^T in runs of 8 queries one after another, so its sums may end with the last existing rows. Tiles of 64 and
// 128 queries divide most lengths and are stored whole, and so are tiles added from registers.
constexpr bool ends_with_rows = is_staged && swap_dq != 0 && groups == 2 && dq_m_blocks == 2 && block_q % 64 != 0;
constexpr u32 run_bytes = 64 * 8 * 4;  // bytes of a run of 8 queries

struct Shared {
    static constexpr u32 k_bytes = k_rows * head_tile * 2, v_bytes = k_rows * value_tile * 2;
    static constexpr u32 q_bytes = block_q * head_tile * 2, do_bytes = block_q * value_tile * 2, row_bytes = block_q * 4;
    u32 k, v, q, d_o, ds, dq, rows, barriers;
    __device__ __forceinline__ explicit Shared(u32 base)
        : k(base),
          v(k + k_bytes),
          q(v + v_bytes),
          d_o(q + stages * q_bytes),
          ds(d_o + stages * do_bytes),
          dq(ds + ds_buffers * ds_bytes),
          rows(dq + (is_staged ? dq_buffers * dq_bytes : 0)),
          barriers(rows + stages * 2 * row_bytes) {}
    __device__ __forceinline__ u32 lse(int i) const { return rows + i * 2 * row_bytes; }
    __device__ __forceinline__ u32 full(int i) const { return barriers + i * 8; }
    __device__ __forceinline__ u32 empty(int i) const { return barriers + (stages + i) * 8; }
    __device__ __forceinline__ u32 loaded() const { return barriers + 2 * stages * 8; }
    __device__ __forceinline__ u32 dq_full(int i) const { return barriers + (2 * stages + 1 + i) * 8; }
    __device__ __forceinline__ u32 dq_empty(int i) const { return barriers + (2 * stages + 1 + dq_buffers + i) * 8; }
    __device__ __forceinline__ u32 ticket() const { return dq_empty(dq_buffers); }
    // The bytes up to the end of the ticket
    static constexpr u32 bytes = k_bytes + v_bytes + stages * (q_bytes + do_bytes + 2 * row_bytes) + ds_buffers * ds_bytes +
                                 (is_staged ? dq_buffers * dq_bytes : 0) + (2 * stages + 1 + 2 * dq_buffers) * 8 + 8;
};

// Whether no bytes are left to align the tiles, or for a separate variable.
constexpr bool fills_shared = Shared::bytes + 1024 + 16 > 227 << 10;

// Goes through the tiles of queries that meet the block's keys, for each head that shares the keys.
struct Walk {
    int start, stride, tiles, end_plane;
    int tile, left, plane;
    __device__ __forceinline__ Walk(attention_bwd::TileRange range, int first_plane, int planes, bool backwards)
        : start(backwards ? range.end - 1 : range.first),
          stride(backwards ? -1 : 1),
          tiles(range.end - range.first),
          end_plane(tiles > 0 ? first_plane + planes : first_plane),
          tile(start),
          left(tiles),
          plane(first_plane) {}
    __device__ __forceinline__ bool is_over() const { return plane == end_plane; }
    __device__ __forceinline__ void next() {
        tile += stride;
        if (--left == 0) {
            tile = start;
            left = tiles;
            ++plane;
        }
    }
};

// ---- moving dQ to memory ----

__device__ __forceinline__ void add_to_memory(float* to, const float* values) {
    asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(values[0]), "f"(values[1]),
                 "f"(values[2]), "f"(values[3])
                 : "memory");
}
__device__ __forceinline__ void bulk_add(float* to, u32 from, u32 bytes) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes)
                 : "memory");
}
__device__ __forceinline__ void bulk_store(float* to, u32 from, u32 bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes) : "memory");
}
__device__ __forceinline__ void bulk_wait() {
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
__device__ __forceinline__ void store_shared(u32 to, const float* values) {
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to), "f"(values[0]), "f"(values[1]), "f"(values[2]),
                 "f"(values[3])
                 : "memory");
}
__device__ __forceinline__ void load_quad(const float* from, float* values) {
    const float4 quad = *reinterpret_cast<const float4*>(from);
    values[0] = quad.x, values[1] = quad.y, values[2] = quad.z, values[3] = quad.w;
}
// Transposes an 8 x 8 matrix of which each lane holds two elements of a row.
__device__ __forceinline__ u32 transposed_matrix(u32 pair) {
    u32 result;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(pair));
    return result;
}
__device__ __forceinline__ int load_acquire(const int* from) {
    int value;
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
    return value;
}
__device__ __forceinline__ void add_release(int* to) {
    asm volatile("red.release.gpu.global.add.s32 [%0], 1;" ::"l"(to) : "memory");
}

// Waits until `turn` blocks have added. Those blocks began before this one, so they never wait for it.
__device__ __forceinline__ void await_turn(const int* counter, int turn) {
    constexpr int most_polls = 1 << 22;  // some seconds: after a fault the kernel ends instead of hanging
    for (int polls = 0; load_acquire(counter) < turn; ++polls)
        if (polls == most_polls) asm volatile("trap;");
    asm volatile("fence.proxy.async;" ::: "memory");
}

// Number of sums of a head if only existing rows are stored.
__device__ __forceinline__ long long sums_of_rows(int rows) {
    return (rows + 7LL) / 8 * (groups * run_bytes / 4);
}
// Runs of 8 queries of a tile that have existing rows.
__device__ __forceinline__ int runs_of_rows(int tile, int rows) {
    return min(block_q / 8, (rows - tile * block_q + 7) / 8);
}

// The sums of dQ in f32, for all tiles of queries of a head, then of the next head. Each part has a counter of the blocks that
// have added to it.
struct DqSums {
    float* sums;
    int* counters;
    int tiles, rows;  // the tiles and rows in a head
    __device__ __forceinline__ long long index(const Walk& at) const { return static_cast<long long>(at.plane) * tiles + at.tile; }
    __device__ __forceinline__ float* of(const Walk& at) const {
        if constexpr (ends_with_rows) return sums + at.plane * sums_of_rows(rows) + at.tile * (dq_bytes / 4LL);
        return sums + index(at) * (dq_bytes / 4);
    }
    // Bytes of a thread's part of a tile, or of a group's.
    __device__ __forceinline__ u32 bytes(int tile) const {
        if constexpr (ends_with_rows) return runs_of_rows(tile, rows) * run_bytes;
        return part_bytes;
    }
};

// Adds the dQ tiles that the consumer warpgroups leave in shared memory to the sums; each calling thread adds one part of every
// tile.
__device__ __forceinline__ void add_staged(const Shared& shared, Walk walk, const DqSums& dq, const Meetings& meetings, int key_tile,
                                           bool descending, int part) {
    Position<dq_buffers> at;
#pragma unroll 1
    for (; !walk.is_over(); walk.next()) {
        const u32 from = shared.dq + at.at * dq_bytes + part * part_bytes;
        barrier_wait(shared.dq_full(at.at), at.parity);
        const u32 bytes = dq.bytes(walk.tile);
        float* const to = dq.of(walk) + part * (bytes / 4);
        if constexpr (is_ordered) {
            int* const counter = dq.counters + dq.index(walk) * adders + part;
            const int turn = meetings.turn(walk.tile, key_tile, descending);
            if (turn > 0) {
                await_turn(counter, turn);
                bulk_add(to, from, bytes);
            } else {
                bulk_store(to, from, bytes);
            }
            store_commit();
            store_wait_read<0>();
            barrier_arrive(shared.dq_empty(at.at));
            bulk_wait();
            asm volatile("fence.proxy.async;" ::: "memory");
            add_release(counter);
        } else {
            bulk_add(to, from, bytes);
            if constexpr (ends_with_rows) bulk_add(to + bytes / 4, from + dq_group_bytes, bytes);
            store_commit();
            store_wait_read<0>();
            barrier_arrive(shared.dq_empty(at.at));
        }
        at.next();
    }
    bulk_wait();
}

// ---- the consumer warpgroups ----

// The descriptor of the operand at `sixteenths` * 16 bytes in shared memory. Descriptors are sums of few numbers, so none is kept
// in registers. `leading` is the distance from one span to the next if a product runs along rows.
template <int span>
__device__ __forceinline__ u64 descriptor_of(u32 sixteenths, u32 leading) {
    constexpr u32 upper = (8 * span * 2 >> 4) | (span == 64 ? 1u : span == 32 ? 2u : 3u) << 30;
    return static_cast<u64>(upper) << 32 | (sixteenths + (leading >> 4 << 16));
}

struct Step {
    const Shared& shared;
    const KeyMask& mask;
    float factor;  // scale log2(e)
    u32 k, v, q, d_o;      // operand addresses in shared memory, in units of 16 bytes; k and v are those of the group's rows
    u32 dq_a, dq_b;        // the addresses of the group's parts of the operands of dQ
    u32 ds_row;            // where the lane's row of matrices is written
    u32 dq_row;            // where the thread's part of dQ is staged
    const DqSums& sums;    // without staging, dQ is added to `sums` from `dq_thread` on
    int dq_thread;
    int row, keys_left;    // the thread's first row, and the number of keys from there on
    int whole_first, whole_end;  // tiles without a masked score

    __device__ __forceinline__ void issue_scores(const Position<stages>& at, float (&s)[block_q / 2]) const {
        constexpr int span = span_of(head_tile);
        issue_along_columns<Element, head_tile, k_rows, block_q>(s, descriptor_of<span>(k, 0),
                                                                 descriptor_of<span>(q + at.at * (Shared::q_bytes / 16), 0));
        wgmma_commit();
    }
    // Keys beyond the last multiply zeros of K, but their weights may be infinite.
    __device__ __forceinline__ void cut_scores(float (&s)[block_q / 2], int n) const {
        if constexpr (has_low != 0 || has_high != 0) cut(s, mask, row, n * block_q + static_cast<int>(threadIdx.x % 4 * 2));
#pragma unroll
        for (int i = 0; i < block_q / 2; ++i)
            if (keys_left <= i / 2 % 2 * 8) s[i] = attention::minus_infinity();
    }
    // Here and below: for [begin, end) of the tile's runs of 16 queries.
    template <int begin = 0, int end = block_q / 16>
    __device__ __forceinline__ void weigh(float (&s)[block_q / 2], u32 of_rows) const {
#pragma unroll
        for (int j = 2 * begin; j < 2 * end; ++j) {
            const float2 lse = load_pair(of_rows + j * 32);
#pragma unroll
            for (int i = 0; i < 4; ++i)
                s[4 * j + i] = attention::exp2_approx(fmaf(s[4 * j + i], factor, i % 2 == 0 ? -lse.x : -lse.y));
        }
    }
    template <int begin = 0, int end = block_q / 16>
    __device__ __forceinline__ void differentiate(const float (&s)[block_q / 2], const float (&dp)[block_q / 2],
                                                  u32 (&packed)[block_q / 4], u32 of_rows) const {
#pragma unroll
        for (int j = 2 * begin; j < 2 * end; ++j) {
            const float2 delta = load_pair(of_rows + Shared::row_bytes + j * 32);
#pragma unroll
            for (int i = 4 * j; i < 4 * j + 4; i += 2)
                packed[i / 2] = ptx::pack_pair<Element>(s[i] * (dp[i] - delta.x), s[i + 1] * (dp[i + 1] - delta.y));
        }
    }
    template <int begin = 0, int end = block_q / 16>
    __device__ __forceinline__ void store_ds(const u32 (&packed)[block_q / 4], int buffer) const {
        constexpr int chunks = ds_span / 8;  // the chunks of 8 queries in a span
        const int lane = threadIdx.x % 32;
        const int in_row = lane % 8;
        const int swizzle = ds_span == 64 ? in_row : ds_span == 32 ? in_row / 2 : in_row / 4;
        const u32 to = ds_row + (ds_buffers == 1 ? 0 : buffer) * ds_bytes;
        if constexpr (ds_buffers == 1 && begin == 0) named_barrier(2, math_threads);  // all groups have read the previous dS
#pragma unroll
        for (int i = begin; i < end; ++i) {
            const int chunk = 2 * i + lane / 16;
            store_matrices(to + 2 * i / chunks * ds_slab_bytes + ((chunk % chunks) ^ swizzle) * 16, packed[4 * i], packed[4 * i + 1],
                           packed[4 * i + 2], packed[4 * i + 3]);
        }
        if constexpr (end == block_q / 16) fence_async_proxy();
    }
    // Issues dQ of the tile whose dS all groups have stored, or are about to store, in `buffer`.
    __device__ __forceinline__ void issue_dq(float (&dq)[dq_registers], int buffer) const {
        const u32 of_buffer = (ds_buffers == 1 ? 0 : buffer) * (ds_bytes / 16);
        named_barrier(1, math_threads);
        wgmma_fence();
        constexpr int k_span = span_of(head_tile), a_span = swap_dq ? k_span : ds_span;
        const u64 a = swap_dq ? descriptor_of<k_span>(dq_a, 0) : descriptor_of<ds_span>(dq_a + of_buffer, 0);
        const u64 b = swap_dq ? descriptor_of<ds_span>(dq_b + of_buffer, ds_slab_bytes) : descriptor_of<k_span>(dq_b, k_rows * k_span * 2);
#pragma unroll
        for (int i = 0; i < k_rows / 16; ++i)
            Wgmma<dq_columns, Element, f32, 1, 1>::run(dq, descriptor_at(a, i * 16 * a_span * 2),
                                                       descriptor_at(b, i * 16 * dq_span * 2), i > 0 ? 1 : 0);
        wgmma_commit();
    }
    __device__ __forceinline__ void give_dq(const float (&dq)[dq_registers], Position<dq_buffers>& at, const Walk& walk) const {
        if constexpr (is_staged) {
            barrier_wait(shared.dq_empty(at.at), at.parity ^ 1);
#pragma unroll
            for (int i = 0; i < dq_registers / 4; ++i) store_shared(dq_row + at.at * dq_bytes + i * 2048, dq + 4 * i);
            fence_async_proxy();
            __syncwarp();
            release(shared.dq_full(at.at));
            at.next();
        } else {
#pragma unroll
            for (int i = 0; i < dq_registers / 4; ++i) add_to_memory(sums.of(walk) + dq_thread + i * 512, dq + 4 * i);
        }
    }
    __device__ __forceinline__ void issue_dp(const Position<stages>& at, float (&dp)[block_q / 2]) const {
        constexpr int span = span_of(value_tile);
        issue_along_columns<Element, value_tile, k_rows, block_q>(dp, descriptor_of<span>(v, 0),
                                                                  descriptor_of<span>(d_o + at.at * (Shared::do_bytes / 16), 0));
        wgmma_commit();
    }
    // `sums` += A `tile`, `columns` wide, with A in registers.
    template <int columns, int begin = 0, int end = block_q / 16>
    __device__ __forceinline__ void issue_sums(float (&sums)[columns / 2], const u32 (&a)[block_q / 4], u32 tile) const {
        constexpr int span = span_of(columns);
        issue_along_rows<Element, columns, block_q, begin, end>(sums, a, descriptor_of<span>(tile, block_q * span * 2));
        wgmma_commit();
    }
    // Packs P and dS of a tile as operands.
    __device__ __forceinline__ void finish_weights(const float (&s)[block_q / 2], const float (&dp)[block_q / 2], u32 (&p)[block_q / 4],
                                                   u32 (&packed)[block_q / 4], u32 of_rows) const {
#pragma unroll
        for (int j = 0; j < block_q / 8; ++j) {
            const float2 delta = load_pair(of_rows + Shared::row_bytes + j * 32);
#pragma unroll
            for (int i = 4 * j; i < 4 * j + 4; i += 2) {
                p[i / 2] = ptx::pack_pair<Element>(s[i], s[i + 1]);
                packed[i / 2] = ptx::pack_pair<Element>(s[i] * (dp[i] - delta.x), s[i + 1] * (dp[i + 1] - delta.y));
            }
        }
    }
    // Processes all tiles of queries that meet the block's keys.
    __device__ __forceinline__ void run(const Walk& walk, float (&dk)[head_tile / 2], float (&d_v)[value_tile / 2]) const {
        Position<stages> at;
        Position<dq_buffers> dq_at;
        Walk to = walk;
        int buffer = 0;
#pragma unroll 1
        for (; !to.is_over(); to.next()) {
            float s[block_q / 2], dp[block_q / 2];
            u32 p[block_q / 4], packed[block_q / 4];
            barrier_wait(shared.full(at.at), at.parity);
            wgmma_fence();
            issue_scores(at, s);
            issue_dp(at, dp);
            wgmma_wait<1>();
            const u32 of_rows = shared.lse(at.at) + threadIdx.x % 4 * 8;
            if (to.tile < whole_first || to.tile >= whole_end) cut_scores(s, to.tile);
            if constexpr (early_dv != 2) weigh(s, of_rows);
            if constexpr (early_dv == 2) {
                // Products of the first half overlap the computation of the second half's weights.
                constexpr int half = block_q / 32;
                const u32 tile_q = q + at.at * (Shared::q_bytes / 16), tile_do = d_o + at.at * (Shared::do_bytes / 16);
                weigh<0, half>(s, of_rows);
                pack<Element, 0, 2 * half>(s, p);
                wgmma_fence();
                issue_sums<value_tile, 0, half>(d_v, p, tile_do);
                weigh<half>(s, of_rows);
                wgmma_wait<1>();
                differentiate<0, half>(s, dp, packed, of_rows);
                store_ds<0, half>(packed, buffer);
                pack<Element, 2 * half>(s, p);
                wgmma_fence();
                issue_sums<head_tile, 0, half>(dk, packed, tile_q);
                issue_sums<value_tile, half>(d_v, p, tile_do);
                differentiate<half>(s, dp, packed, of_rows);
                store_ds<half>(packed, buffer);
            } else if constexpr (early_dv == 1) {
                pack<Element>(s, p);
                wgmma_fence();
                issue_sums<value_tile>(d_v, p, d_o + at.at * (Shared::do_bytes / 16));
                wgmma_wait<1>();
                differentiate(s, dp, packed, of_rows);
                store_ds(packed, buffer);
            } else {
                wgmma_wait<0>();
                finish_weights(s, dp, p, packed, of_rows);
                store_ds(packed, buffer);
                wgmma_fence();
                issue_sums<value_tile>(d_v, p, d_o + at.at * (Shared::do_bytes / 16));
            }
            float dq[dq_registers];
            issue_dq(dq, buffer);
            issue_sums<head_tile, early_dv == 2 ? block_q / 32 : 0>(dk, packed, q + at.at * (Shared::q_bytes / 16));
            wgmma_wait<1>();
            give_dq(dq, dq_at, to);
            wgmma_wait<0>();
            release(shared.empty(at.at));
            at.next();
            buffer ^= 1;
        }
    }
};

__device__ __forceinline__ void math(const Shared& shared, const KeyMask& mask, const Place& place, const Walk& walk,
                                     attention_bwd::TileRange range, int group, int keys, float scale, const DqSums& dq_sums,
                                     const Destination<Element>& to_k, const Destination<Element>& to_v) {
    const int row0 = place.tile * k_rows + group * 64;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const int row = row0 + warp * 16 + lane / 4;
    float dk[head_tile / 2], d_v[value_tile / 2];
    clear(dk);
    clear(d_v);
    barrier_wait(shared.loaded(), 0);
    if (!walk.is_over()) {
        const int m_block = group % dq_m_blocks, column = group / dq_m_blocks * dq_columns;
        const u32 begin = (shared.k & 0x3FFFF) >> 4;
        const auto at_offset = [&](u32 address) { return begin + (address - shared.k) / 16; };
        constexpr u32 k_slab_bytes = k_rows * span_of(head_tile) * 2;
        constexpr int k_span = span_of(head_tile);
        const auto in_k = [](int at) { return at / k_span * k_slab_bytes + at % k_span * 2; };
        const auto in_ds = [](int at) { return at / ds_span * ds_slab_bytes + at % ds_span * 2; };
        const int whole_first = has_high != 0 ? mask.first_full_tile(row0 + 63, block_q) : 0;
        const int whole_end = has_low != 0 ? mask.end_full_tile(row0, block_q) : range.end;
        const bool has_tail = row0 + 64 > keys;
        const Step step{shared,
                        mask,
                        scale * attention::log2_e,
                        at_offset(shared.k) + group * (64 * k_span * 2 / 16),
                        at_offset(shared.v) + group * (64 * span_of(value_tile) * 2 / 16),
                        at_offset(shared.q),
                        at_offset(shared.d_o),
                        (swap_dq ? at_offset(shared.k) + in_k(64 * m_block) / 16 : at_offset(shared.ds) + in_ds(64 * m_block) / 16),
                        (swap_dq ? at_offset(shared.ds) + in_ds(column) / 16 : at_offset(shared.k) + in_k(column) / 16),
                        shared.ds + (group * 64 + warp * 16 + lane / 8 % 2 * 8 + lane % 8) * (ds_span * 2),
                        shared.dq + group * dq_group_bytes + threadIdx.x % 128 * 16,
                        dq_sums,
                        static_cast<int>(group * (dq_group_bytes / 4) + threadIdx.x % 128 * 4),
                        row,
                        keys - row,
                        has_tail ? range.end : whole_first,
                        has_tail ? 0 : whole_end};
        step.run(walk, dk, d_v);
    }
    store_rows<head_tile, d>(to_k, place.batch, place.head, row, keys, dk, scale);
    store_rows<value_tile, dv>(to_v, place.batch, place.head, row, keys, d_v, 1.0f);
}

// Called by the loading thread.
__device__ __forceinline__ void load(const Shared& shared, const Place& place, Walk walk, int heads, int padded_rows,
                                     const float* lse, const float* delta, const TensorMap* map_q, const TensorMap* map_do,
                                     const TensorMap* map_k, const TensorMap* map_v) {
    barrier_expect(shared.loaded(), Shared::k_bytes + Shared::v_bytes);
    load_tile<head_tile, k_rows>(shared.k, map_k, shared.loaded(), place.tile * k_rows, place.head, place.batch, policy_evict_first);
    load_tile<value_tile, k_rows>(shared.v, map_v, shared.loaded(), place.tile * k_rows, place.head, place.batch,
                                  policy_evict_first);
    Position<stages> at;
#pragma unroll 1
    for (; !walk.is_over(); walk.next()) {
        const int head = walk.plane - place.batch * heads, row = walk.tile * block_q;
        const long long vector_row = static_cast<long long>(walk.plane) * padded_rows + row;
        const u32 full = shared.full(at.at);
        barrier_wait(shared.empty(at.at), at.parity ^ 1);
        barrier_expect(full, Shared::q_bytes + Shared::do_bytes + 2 * Shared::row_bytes);
        load_tile<head_tile, block_q>(shared.q + at.at * Shared::q_bytes, map_q, full, row, head, place.batch, policy_normal);
        load_row_values(shared.lse(at.at), lse + vector_row, Shared::row_bytes, full);
        load_row_values(shared.lse(at.at) + Shared::row_bytes, delta + vector_row, Shared::row_bytes, full);
        load_tile<value_tile, block_q>(shared.d_o + at.at * Shared::do_bytes, map_do, full, row, head, place.batch, policy_normal);
        at.next();
    }
}

}  // namespace

// Prepares the rows for the pass, and zeroes the sums, or the tickets and counters.
extern "C" __global__ void __launch_bounds__(256)
    AUTOTUNE_ENTRY(_prepare)(const Element* d_o, const Element* o, const float* lse, float* lse_out, float* delta_out, int heads,
                             int rows, int padded_rows, long long do_batch, long long do_head, long long do_row,
                             long long o_batch, long long o_head, long long o_row, float4* to_zero, long long zeros) {
    dependent_launch::wait_for_earlier_grids();
    dependent_launch::let_next_grid_start();
    for (long long i = blockIdx.x * 256LL + threadIdx.x; i < zeros; i += gridDim.x * 256LL)
        to_zero[i] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    prepare_rows<Element, dv>(d_o, o, lse, lse_out, delta_out, heads, rows, padded_rows, do_batch, do_head, do_row, o_batch, o_head,
                              o_row);
}

extern "C" __global__ void __launch_bounds__(128 * (groups + 1), 1)
    AUTOTUNE_ENTRY()(const __grid_constant__ TensorMap map_q, const __grid_constant__ TensorMap map_do,
                     const __grid_constant__ TensorMap map_k, const __grid_constant__ TensorMap map_v, const float* lse,
                     const float* delta, float* dq_sums, int* counters, Element* dk, Element* d_v, float scale, int kv_heads,
                     int group, int rows, int keys, int padded_rows, int mask_low, int mask_high, long long dk_batch,
                     long long dk_head, long long dk_row, long long dv_batch, long long dv_head, long long dv_row, int tiles,
                     int all_tiles, int heads_at_once, int descending, int backwards) {
    extern __shared__ unsigned char memory[];
    __shared__ int apart;
    const Shared shared((smem_address(memory) + 1023) & ~1023u);
    int* ticket = &apart;
    if constexpr (fills_shared) {  // then no static variable fits, and tiles may begin at the first byte
        ticket = reinterpret_cast<int*>(memory + (shared.ticket() - shared.k));
        if (shared.k != smem_address(memory)) asm volatile("trap;");
    }
    dependent_launch::wait_for_earlier_grids();
    dependent_launch::let_next_grid_start();
    if (threadIdx.x == 0) {
        if constexpr (is_ordered) *ticket = atomicAdd(counters, 1);
        if constexpr (is_staged) {
#pragma unroll
            for (int i = 0; i < dq_buffers; ++i) {
                barrier_init(shared.dq_full(i), 4 * groups);
                barrier_init(shared.dq_empty(i), adders);
            }
        }
    }
    init_barriers<stages>(shared, 4 * groups);
    const RowMask of_rows{mask_low, mask_high, keys};
    const Meetings meetings{of_rows, rows, block_q, k_rows};
    const Place place = place_of({tiles, kv_heads, heads_at_once, all_tiles, descending},
                                 is_ordered ? warp_uniform(*ticket) : static_cast<int>(blockIdx.x));
    const attention_bwd::TileRange range = meetings.of_keys(place.tile);
    const Walk walk(range, (place.batch * kv_heads + place.head) * group, group, backwards != 0);
    const DqSums sums{dq_sums, counters + 4, (rows + block_q - 1) / block_q, rows};
    const int warpgroup = warp_uniform(threadIdx.x / 128);
    if (warpgroup == 0) {
        if constexpr (Registers<groups>::reallocates) give_registers<Registers<groups>::producer>();
        if (threadIdx.x == 0)
            load(shared, place, walk, kv_heads * group, padded_rows, lse, delta, &map_q, &map_do, &map_k, &map_v);
        if (is_staged && threadIdx.x == 32) add_staged(shared, walk, sums, meetings, place.tile, descending != 0, 0);
        if (is_ordered && threadIdx.x == 64) add_staged(shared, walk, sums, meetings, place.tile, descending != 0, 1);
    } else {
        if constexpr (Registers<groups>::reallocates) take_registers<Registers<groups>::math>();
        math(shared, attention::seen_from_keys(of_rows, rows), place, walk, range, warpgroup - 1, keys, scale, sums,
             {dk, dk_batch, dk_head, dk_row}, {d_v, dv_batch, dv_head, dv_row});
    }
}

// Converts the sums of a tile of queries to dQ; the sums lie as the accumulators of the groups' threads, group by group.
extern "C" __global__ void __launch_bounds__(math_threads)
    AUTOTUNE_ENTRY(_finish)(const float* dq_sums, Element* dq, float scale, int heads, int rows, int keys, int mask_low,
                            int mask_high, long long dq_batch, long long dq_head, long long dq_row, int tiles) {
    dependent_launch::wait_for_earlier_grids();
    dependent_launch::let_next_grid_start();
    const int plane = static_cast<int>(blockIdx.x) / tiles, tile = static_cast<int>(blockIdx.x) - plane * tiles;
    const int group = threadIdx.x / 128, warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    const Meetings meetings{{mask_low, mask_high, keys}, rows, block_q, k_rows};
    const attention_bwd::TileRange met = meetings.of_queries(tile);
    float values[dq_registers];
    if constexpr (ends_with_rows) {
        const int runs = met.first < met.end ? runs_of_rows(tile, rows) : 0;
        const float* const from = dq_sums + plane * sums_of_rows(rows) + tile * (dq_bytes / 4LL) + group * runs * (run_bytes / 4) +
                                  threadIdx.x % 128 * 4;
        clear(values);
#pragma unroll
        for (int i = 0; i < block_q / 8; ++i)
            if (i < runs) load_quad(from + i * (run_bytes / 4), values + 4 * i);
    } else if (met.first < met.end) {
        const float* const from = dq_sums + static_cast<long long>(blockIdx.x) * (dq_bytes / 4) + group * (dq_group_bytes / 4) +
                                  threadIdx.x % 128 * 4;
#pragma unroll
        for (int i = 0; i < dq_registers / 4; ++i) load_quad(from + i * 512, values + 4 * i);
    } else {
        clear(values);
    }
    const int batch = plane / heads, head = plane - batch * heads;
    Element* const to = dq + batch * dq_batch + head * dq_head;
    const int m0 = group % dq_m_blocks * 64 + warp * 16, n0 = group / dq_m_blocks * dq_columns;
    const auto store = [&](int row, int column, const u32(&words)[4]) {
        const int at = tile * block_q + row;
        if (at < rows && column < d)
            *reinterpret_cast<uint4*>(to + at * dq_row + column) = make_uint4(words[0], words[1], words[2], words[3]);
    };
    const auto pair = [&](int column, int row) {  // 8 columns and 8 rows
        const float* const both = values + column * 4 + row * 2;
        return ptx::pack_pair<Element>(both[0] * scale, both[1] * scale);
    };
    if constexpr (swap_dq != 0) {
#pragma unroll
        for (int i = 0; i < dq_columns / 16; ++i) {
            u32 words[4];
#pragma unroll
            for (int each = 0; each < 4; ++each) words[each] = transposed_matrix(pair(2 * i + each / 2, each % 2));
            transpose_quad(words, lane);
            store(n0 + 16 * i + lane % 4 / 2 * 8 + lane / 4, m0 + lane % 2 * 8, words);
        }
    } else {
#pragma unroll
        for (int i = 0; i < dq_columns / 32; ++i) {
#pragma unroll
            for (int row = 0; row < 2; ++row) {
                u32 words[4];
#pragma unroll
                for (int each = 0; each < 4; ++each) words[each] = pair(4 * i + each, row);
                transpose_quad(words, lane);
                store(m0 + row * 8 + lane / 4, n0 + 32 * i + lane % 4 * 8, words);
            }
        }
    }
}
