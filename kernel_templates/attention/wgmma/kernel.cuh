// O = softmax(scale Q K^T, masked) V on Hopper. One producer warpgroup loads by TMA: Q once per tile, K and V through two rings.
// Each of `consumer_warpgroups` warpgroups owns 64 rows of queries. Without a producer the only consumer warpgroup loads for
// itself.
// Scores come from wgmma of Q and K in shared memory. The weights stay in the registers of the first product, which are operands
// of the second, and V is read along its stored rows, so nothing is transposed. Keys are processed from the last visible tile to
// the first: tiles that a mask or the end of the keys cuts come first, those cut by a window's left side last, and between them
// no score is compared with a bound.
// overlap: the scores of the next tile are issued before this tile's weights are multiplied with V, and their softmax overlaps
// that product. order_groups: consumer warpgroups alternate, so that one's softmax overlaps another's products.
// clang-format off
#define AUTOTUNE_KERNEL ${symbol}
#define ATTENTION_PACKED ${packed}
#include "common/types.cuh"
using Element = ${element_type};
constexpr int d = ${d};                  // columns of Q and K
constexpr int dv = ${dv};                // head size of V and O
constexpr int has_low = ${has_low};      // whether the mask has a bound on the left
constexpr int has_high = ${has_high};    // the same for the right side
constexpr int align_o = ${align_o};      // bytes
constexpr int consumer_warpgroups = ${consumer_warpgroups};
constexpr int block_k = ${block_k};
constexpr int stages = ${stages};        // stages of K, and as many of V
constexpr int q_buffers = ${q_buffers};
constexpr int blocks_per_sm = ${blocks_per_sm};
constexpr int overlap = ${overlap};
// The consumer warpgroups alternate: 0: not, 1: in issuing products, 2: in the exponentials
constexpr int order_groups = ${order_groups};
constexpr int rescale = ${rescale};            // O is rescaled 0: in each step, 1: only if a maximum grew by more than 8 in log2
constexpr int producer = ${producer};          // 1: a separate warpgroup loads, 0: the consumer warpgroup does
// 0: one tile per block, 1: persistent, tiles distributed in advance, 2: persistent, tiles from a counter
constexpr int schedule = ${schedule};
// ---- end of parameters ----
// clang-format on
#include "attention/device/call.cuh"
#include "attention/device/hopper_tiles.cuh"
#include "common/dependent_launch.cuh"
#include "common/ptx.cuh"

namespace {

using namespace hopper;

static_assert(sizeof(Element) == 2 && d % 8 == 0 && dv % 8 == 0 && d <= 256 && dv <= 256);
static_assert(block_k % 16 == 0 && block_k <= 256);
static_assert(order_groups == 0 || consumer_warpgroups > 1, "one group has nobody to take turns with");
static_assert(q_buffers == 1 || schedule != 0, "a block with one tile has one Q");
static_assert(producer == 1 || (consumer_warpgroups == 1 && schedule == 0),
              "a group that loads for itself has a block and a tile of its own");

constexpr int block_q = 64 * consumer_warpgroups;

constexpr int head_tile = padded(d), value_tile = padded(dv);  // columns of tiles in shared memory
constexpr u32 q_bytes = block_q * head_tile * 2;
constexpr u32 k_bytes = block_k * head_tile * 2;
constexpr u32 v_bytes = block_k * value_tile * 2;

constexpr int scores = block_k / 2;      // registers of a thread for a tile of scores
constexpr int outputs = value_tile / 2;  // the same for O
constexpr int math_warps = 4 * consumer_warpgroups;

using RowMask = attention::Mask<has_low != 0, has_high != 0>;

// Launch arguments that both roles read.
struct Problem {
    RowMask mask;
    int rows;           // rows in a head
    int heads, group;   // heads of Q, and how many of them share a head of K and V
    int q_tiles;        // the tiles of queries in a head
    int items;          // work items of a head: tiles of Q or, if their keys are divided, parts of them
    int all_items;      // items of all heads
    int heads_at_once;  // heads whose tiles are distributed alternately, so that their K and V stay in L2
    int longest_first;  // 1: the last rows of a head are processed first
    int most_steps;     // largest number of key tiles in a part; 0: keys are not divided
#if ATTENTION_PACKED
    attention::Packing packing;
#endif
};

// The mask and the first rows of a batch: packed sequences follow each other in the tensors.
struct Batch {
    RowMask mask;
    int rows, first_q, first_kv;
};
__device__ __forceinline__ Batch batch_of(const Problem& p, int batch) {
#if ATTENTION_PACKED
    const attention::Sequence s = p.packing.sequence(batch, p.rows, p.mask.kv_len);
    return {{s.low(p.mask.low), s.high(p.mask.high), s.kv_len}, s.q_len, s.first_q, s.first_kv};
#else
    return {p.mask, p.rows, 0, 0};
#endif
}

// The tiles of keys that a block of rows sees: [first, end).
struct Keys {
    int first, end;
};
template <class Rows>
__device__ __forceinline__ Keys keys_of(const Rows& p, int row0) {
    const int first = p.mask.first_tile(row0, block_k);
    return {first, max(first, p.mask.end_tile(min(row0 + block_q, p.rows) - 1, block_k))};
}
// The number of parts into which the keys of a tile of Q are divided.
__device__ __forceinline__ int parts_of(const Problem& p, int q_tile) {
    const Keys keys = keys_of(p, q_tile * block_q);
    return max(1, (keys.end - keys.first + p.most_steps - 1) / p.most_steps);
}

// A tile of Q, or one part of it.
struct Work {
    int row0, head, batch;
    Keys keys;
    int item;  // -1: the only part
};

__device__ __forceinline__ Work whole_tile(const Problem& p, int index) {
    const int of_run = p.heads_at_once * p.q_tiles;
    const int run = index / of_run;
    const int in_run = index - run * of_run;
    const int width = min(p.heads_at_once, p.all_items / p.q_tiles - run * p.heads_at_once);
    const int q_tile = in_run / width;
    const int plane = run * p.heads_at_once + in_run - q_tile * width;
    const int batch = plane / p.heads;
    const int row0 = (p.longest_first ? p.q_tiles - 1 - q_tile : q_tile) * block_q;
#if ATTENTION_PACKED
    const Batch of_batch = batch_of(p, batch);
    const Keys keys = row0 < of_batch.rows ? keys_of(of_batch, row0) : Keys{0, 0};
    return {row0, plane - batch * p.heads, batch, keys, -1};
#else
    return {row0, plane - batch * p.heads, batch, keys_of(p, row0), -1};
#endif
}
// The order is: heads one after another, a head's tiles in their order, a tile's parts of nearly equal length.
__device__ __forceinline__ Work part_of_tile(const Problem& p, int index) {
    const int plane = index / p.items;
    const int batch = plane / p.heads;
    int part = index - plane * p.items;
    int q_tile = p.longest_first ? p.q_tiles - 1 : 0;
    int parts = parts_of(p, q_tile);
    while (part >= parts) {
        part -= parts;
        q_tile += p.longest_first ? -1 : 1;
        parts = parts_of(p, q_tile);
    }
    const Keys keys = keys_of(p, q_tile * block_q);
    const int steps = keys.end - keys.first;
    return {q_tile * block_q,
            plane - batch * p.heads,
            batch,
            {keys.first + steps * part / parts, keys.first + steps * (part + 1) / parts},
            parts == 1 ? -1 : index};
}
__device__ __forceinline__ Work work_at(const Problem& p, int index) {
    return p.most_steps == 0 ? whole_tile(p, index) : part_of_tile(p, index);
}

// The layout of shared memory: tiles, then barriers, then the work item of each Q buffer.
struct Shared {
    u32 q, k, v, barriers;
    __device__ __forceinline__ explicit Shared(u32 base)
        : q(base), k(q + q_buffers * q_bytes), v(k + stages * k_bytes), barriers(v + stages * v_bytes) {}
    __device__ __forceinline__ u32 k_full(int i) const { return barriers + i * 8; }
    __device__ __forceinline__ u32 k_empty(int i) const { return barriers + (stages + i) * 8; }
    __device__ __forceinline__ u32 v_full(int i) const { return barriers + (2 * stages + i) * 8; }
    __device__ __forceinline__ u32 v_empty(int i) const { return barriers + (3 * stages + i) * 8; }
    __device__ __forceinline__ u32 q_full(int i) const { return barriers + (4 * stages + i) * 8; }
    __device__ __forceinline__ u32 q_empty(int i) const { return barriers + (4 * stages + q_buffers + i) * 8; }
    __device__ __forceinline__ u32 work(int i) const { return barriers + (4 * stages + 2 * q_buffers) * 8 + i * 32; }
};

// ---- loads ----

// Loads one tile of Q and its keys, called by one thread. Before it refills a stage, it waits until all consumer warpgroups have
// released it.
struct Loads {
    const Shared& shared;
    const TensorMap *map_q, *map_k, *map_v;
    int head, kv_head, plane;  // plane is the index of head and batch in the tensors
    int first_q, first_kv;

    __device__ __forceinline__ Loads(const Shared& in, const Problem& p, const Work& work, const Batch& batch,
                                     const TensorMap* of_q, const TensorMap* of_k, const TensorMap* of_v)
        : shared(in),
          map_q(of_q),
          map_k(of_k),
          map_v(of_v),
          head(work.head),
          kv_head(work.head / p.group),
          plane(ATTENTION_PACKED ? 0 : work.batch),
          first_q(batch.first_q + work.row0),
          first_kv(batch.first_kv) {}

    // `parity`: the parity of the round in which the stage is filled.
    __device__ __forceinline__ void load_k(int at, u32 parity, int n) const {
        barrier_wait(shared.k_empty(at), parity ^ 1);
        barrier_expect(shared.k_full(at), k_bytes);
        load_tile<head_tile, block_k>(shared.k + at * k_bytes, map_k, shared.k_full(at), first_kv + n * block_k, kv_head, plane,
                                      policy_normal);
    }
    __device__ __forceinline__ void load_v(int at, u32 parity, int n) const {
        barrier_wait(shared.v_empty(at), parity ^ 1);
        barrier_expect(shared.v_full(at), v_bytes);
        load_tile<value_tile, block_k>(shared.v + at * v_bytes, map_v, shared.v_full(at), first_kv + n * block_k, kv_head, plane,
                                       policy_normal);
    }
    __device__ __forceinline__ void load_q(int at) const {
        barrier_expect(shared.q_full(at), q_bytes);
        load_tile<head_tile, block_q>(shared.q + at * q_bytes, map_q, shared.q_full(at), first_q, head, plane,
                                      policy_evict_first);
    }
};

// ---- the producer ----

// A work item without rows tells the consumers that no work is left.
__device__ __forceinline__ void publish(u32 to, const Work& work) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(work.row0), "r"(work.head), "r"(work.batch),
                 "r"(work.item)
                 : "memory");
    asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(to + 16), "r"(work.keys.first), "r"(work.keys.end) : "memory");
}
__device__ __forceinline__ Work published(u32 from) {
    Work work;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(work.row0), "=r"(work.head), "=r"(work.batch), "=r"(work.item)
                 : "r"(from)
                 : "memory");
    asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=r"(work.keys.first), "=r"(work.keys.end) : "r"(from + 16) : "memory");
    return {warp_uniform(work.row0),
            warp_uniform(work.head),
            warp_uniform(work.batch),
            {warp_uniform(work.keys.first), warp_uniform(work.keys.end)},
            warp_uniform(work.item)};
}

// The next tile's index, or an index past the last tile. The counter wraps to 0 after every block has drawn its last number, so
// it is ready for the next launch.
__device__ __forceinline__ int next_index(const Problem& p, int before, u32* counter) {
    if constexpr (schedule == 0) return before < 0 ? static_cast<int>(blockIdx.x) : p.all_items;
    if constexpr (schedule == 1) return before < 0 ? static_cast<int>(blockIdx.x) : before + static_cast<int>(gridDim.x);
    return static_cast<int>(atomicInc(counter, static_cast<u32>(p.all_items) + gridDim.x - 1));
}

__device__ __forceinline__ void produce(const Shared& shared, const Problem& p, const TensorMap* map_q, const TensorMap* map_k,
                                        const TensorMap* map_v, u32* counter) {
    Position<stages> ring;
    Position<q_buffers> of_q;
    int index = -1;
    while (true) {
        index = next_index(p, index, counter);
        if (index >= p.all_items) break;
        const Work work = work_at(p, index);
        const Keys keys = work.keys;
        const Batch batch = batch_of(p, work.batch);
        const Loads loads(shared, p, work, batch, map_q, map_k, map_v);
        int n = keys.end - 1;
        if (n >= keys.first) loads.load_k(ring.at, ring.parity, n);
        barrier_wait(shared.q_empty(of_q.at), of_q.parity ^ 1);
        publish(shared.work(of_q.at), work);
        if (ATTENTION_PACKED && n < keys.first)
            barrier_arrive(shared.q_full(of_q.at));
        else
            loads.load_q(of_q.at);
        of_q.next();
        if (n < keys.first) continue;
#pragma unroll 1
        for (; n > keys.first; --n) {
            Position<stages> following = ring;
            following.next();
            loads.load_k(following.at, following.parity, n - 1);
            loads.load_v(ring.at, ring.parity, n);
            ring = following;
        }
        loads.load_v(ring.at, ring.parity, n);
        ring.next();
    }
    if constexpr (schedule != 0) {
        barrier_wait(shared.q_empty(of_q.at), of_q.parity ^ 1);
        publish(shared.work(of_q.at), {-1, 0, 0, {0, 0}, -1});
        barrier_arrive(shared.q_full(of_q.at));
    }
}

// ---- the consumer warpgroups ----

// S = Q K^T.
__device__ __forceinline__ void issue_scores(float (&s)[scores], u64 q, u64 k) {
#pragma unroll
    for (int i = 0; i < head_tile / 16; ++i)
        Wgmma<block_k, Element, f32, 0, 0>::run(s, descriptor_at(q, columns16<head_tile, block_q>(i)),
                                                descriptor_at(k, columns16<head_tile, block_k>(i)), i > 0 ? 1 : 0);
    wgmma_commit();
}
// O += P V.
__device__ __forceinline__ void issue_values(float (&o)[outputs], const u32 (&p)[scores / 2], u64 v) {
#pragma unroll
    for (int i = 0; i < block_k / 16; ++i)
        WgmmaFromRegisters<value_tile, Element>::template run<1>(o, &p[4 * i], descriptor_at(v, rows16<value_tile>(i)), 1);
    wgmma_commit();
}

// State of a thread's two rows, eight apart.
struct Rows {
    float max[2];  // largest score
    float sum[2];  // the sum of this thread's weights
};

// Sets scores of keys that a row does not see to -inf. `key0` is the thread's first column; the others are constant distances
// away.
__device__ __forceinline__ void cut(float (&s)[scores], const RowMask& mask, int row, int key0) {
    int first[2], end[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        first[r] = mask.first_key(row + 8 * r) - key0;
        end[r] = mask.end_key(row + 8 * r) - key0;
    }
#pragma unroll
    for (int i = 0; i < scores; ++i) {
        const int column = i / 4 * 8 + i % 2, r = i / 2 % 2;
        const bool seen = column < end[r] && (has_low == 0 || column >= first[r]);
        s[i] = seen ? s[i] : attention::minus_infinity();
    }
}

// Updates the rows' maxima with this tile, and sets `correction`, the factor for earlier weights. Returns false if no row of the
// warp needs a correction; maxima may then be up to 8 / factor too small, so that weights stay below 2^8.
template <bool is_first>
__device__ __forceinline__ bool new_maximum(const float (&s)[scores], float factor, Rows& rows, float (&base)[2],
                                            float (&correction)[2]) {
    float peak[2][2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        peak[r][0] = s[2 * r], peak[r][1] = s[2 * r + 1];
#pragma unroll
        for (int i = 4; i < scores; i += 4) {
            peak[r][0] = fmaxf(peak[r][0], s[i + 2 * r]);
            peak[r][1] = fmaxf(peak[r][1], s[i + 2 * r + 1]);
        }
    }
    bool grew = is_first;
    float now[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        now[r] = over_quad_max(fmaxf(peak[r][0], peak[r][1]));
        if constexpr (!is_first) {
            now[r] = fmaxf(now[r], rows.max[r]);
            grew |= !((now[r] - rows.max[r]) * factor <= 8.0f);
        }
    }
    if constexpr (!is_first && rescale == 1) grew = __any_sync(0xffffffffu, grew);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        if constexpr (!is_first && rescale == 1) now[r] = grew ? now[r] : rows.max[r];
        // If all scores were -inf so far, weights must become 0, not NaN.
        const float finite = now[r] == attention::minus_infinity() ? 0.0f : now[r];
        base[r] = finite * factor;
        if constexpr (!is_first) correction[r] = attention::exp2_approx(rows.max[r] * factor - base[r]);
        rows.max[r] = now[r];
    }
    return grew;
}
template <bool is_first>
__device__ __forceinline__ void to_weights(float (&s)[scores], float factor, const float (&base)[2], const float (&correction)[2],
                                           Rows& rows) {
    float sum[2][2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        sum[r][0] = is_first ? 0.0f : rows.sum[r] * correction[r];
        sum[r][1] = 0.0f;
    }
#pragma unroll
    for (int i = 0; i < scores; ++i) {
        const int r = i / 2 % 2;
        s[i] = attention::exp2_approx(fmaf(s[i], factor, -base[r]));
        sum[r][i % 2] += s[i];
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) rows.sum[r] = sum[r][0] + sum[r][1];
}
__device__ __forceinline__ void pack(const float (&s)[scores], u32 (&p)[scores / 2]) {
#pragma unroll
    for (int i = 0; i < scores / 2; ++i) p[i] = ptx::pack_pair<Element>(s[2 * i], s[2 * i + 1]);
}
__device__ __forceinline__ void correct(float (&o)[outputs], const float (&correction)[2]) {
#pragma unroll
    for (int i = 0; i < outputs; ++i) o[i] *= correction[i / 2 % 2];
}

// Waits on the group's own barrier until it is the group's turn. Afterwards the group arrives on the next group's barrier.
__device__ __forceinline__ void take_turn(int group) {
    named_barrier(1 + group, 256);
}
__device__ __forceinline__ void pass_turn(int group) {
    named_barrier_arrive(group + 1 == consumer_warpgroups ? 1 : 2 + group, 256);
}

struct Output {
    Element* o;
    long long batch, head, row;  // strides in elements
    float* lse;                  // may be null
    float* parts;                // the weighted sums of each item: block_q x value_tile
    float2* part_rows;           // the maxima and sums of each item's rows
};

// Stores a part of a tile for the second kernel.
__device__ __forceinline__ void store_part(const Output& out, int item, int row_in_block, const float (&o)[outputs],
                                           const Rows& rows) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const long long at = static_cast<long long>(item) * block_q + row_in_block + 8 * r;
        const float sum = over_quad_sum(rows.sum[r]);
        if (lane % 4 == 0) out.part_rows[at] = make_float2(rows.max[r], sum);
        float* to = out.parts + at * value_tile + lane % 4 * 2;
#pragma unroll
        for (int j = 0; j < value_tile / 8; ++j)
            *reinterpret_cast<float2*>(to + j * 8) = make_float2(o[4 * j + 2 * r], o[4 * j + 2 * r + 1]);
    }
}

// Number of a head's first row among the rows of all heads.
__device__ __forceinline__ long long line_of(const Problem& p, const Batch& batch, const Work& work) {
#if ATTENTION_PACKED
    return static_cast<long long>(work.head) * p.packing.total_q + batch.first_q;
#else
    return (static_cast<long long>(work.batch) * p.heads + work.head) * p.rows;
#endif
}

__device__ __forceinline__ void store_outputs(const Problem& p, const Batch& batch, const Output& out, const Work& work, int row,
                                              const float (&o)[outputs], const Rows& rows, float scale) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const int at = row + 8 * r;
        const bool exists = at < batch.rows;
        const float sum = over_quad_sum(rows.sum[r]);
        const float inverse = attention::inverse_of(sum);
        if (out.lse != nullptr && exists && lane % 4 == 0)
            out.lse[line_of(p, batch, work) + at] = attention::log_sum_exp(rows.max[r], sum, scale);
        Element* to = out.o + work.batch * out.batch + work.head * out.head + (batch.first_q + at) * out.row;
#pragma unroll
        for (int j = 0; j < value_tile / 32; ++j) {
            u32 words[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const float low = o[(4 * j + i) * 4 + 2 * r] * inverse, high = o[(4 * j + i) * 4 + 2 * r + 1] * inverse;
                words[i] = ptx::pack_pair<Element>(low, high);
            }
            transpose_quad(words, lane);
            const int column = j * 32 + lane % 4 * 8;
            if (!exists || column >= dv) continue;
            if constexpr (align_o >= 16) {
                *reinterpret_cast<uint4*>(to + column) = make_uint4(words[0], words[1], words[2], words[3]);
            } else {
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    to[column + 2 * i] = Element{static_cast<u16>(words[i])};
                    to[column + 2 * i + 1] = Element{static_cast<u16>(words[i] >> 16)};
                }
            }
        }
    }
}

struct Math {
    const Shared& shared;
    const Problem& problem;
    float factor;  // scale log2(e)
    int group;
    u64 q, k, v;  // the descriptors of this group's rows of Q, and of the rings' first tiles
    Position<stages> ring;
    const Loads* loads;  // null: a producer loads
    int first_key_tile;
#if ATTENTION_PACKED
    RowMask mask;
#endif

    __device__ __forceinline__ const RowMask& mask_now() const {
#if ATTENTION_PACKED
        return mask;
#else
        return problem.mask;
#endif
    }
    __device__ __forceinline__ void release(u32 barrier) const {
        if (threadIdx.x % 32 == 0) barrier_arrive(barrier);
    }
    __device__ __forceinline__ u64 k_at(int at) const {
        return descriptor_at(k, at * k_bytes);
    }
    __device__ __forceinline__ u64 v_at(int at) const {
        return descriptor_at(v, at * v_bytes);
    }

    // Refills the stage of tile n, once it is released, with the tile that comes `stages` later, if there is one.
    __device__ __forceinline__ void refill_k(const Position<stages>& from, int n) const {
        if constexpr (producer == 1) return;
        if (threadIdx.x == 0 && n - stages >= first_key_tile) loads->load_k(from.at, from.parity ^ 1, n - stages);
    }
    __device__ __forceinline__ void refill_v(const Position<stages>& from, int n) const {
        if constexpr (producer == 1) return;
        if (threadIdx.x == 0 && n - stages >= first_key_tile) loads->load_v(from.at, from.parity ^ 1, n - stages);
    }

    template <bool is_masked, bool is_first>
    __device__ __forceinline__ bool weigh(float (&s)[scores], int row, int n, Rows& rows, float (&correction)[2]) const {
        if constexpr (is_masked) cut(s, mask_now(), row, n * block_k + static_cast<int>(threadIdx.x % 4 * 2));
        float base[2];
        const bool grew = new_maximum<is_first>(s, factor, rows, base, correction);
        if constexpr (order_groups == 2) take_turn(group);
        to_weights<is_first>(s, factor, base, correction, rows);
        if constexpr (order_groups == 2) pass_turn(group);
        return grew;
    }

    // Processes the first tile of keys.
    __device__ __forceinline__ void begin(u64 q_now, int row, int n, Rows& rows, u32 (&p)[scores / 2]) const {
        float s[scores];
        barrier_wait(shared.k_full(ring.at), ring.parity);
        if constexpr (order_groups == 1) take_turn(group);
        wgmma_fence();
        issue_scores(s, q_now, k_at(ring.at));
        wgmma_wait<0>();
        if constexpr (order_groups == 1) pass_turn(group);
        release(shared.k_empty(ring.at));
        float correction[2];
        weigh<true, true>(s, row, n, rows, correction);
        pack(s, p);
        refill_k(ring, n);
    }

    // Processes tile n of keys, while the weights of tile n + 1 are still to be multiplied with V.
    template <bool is_masked>
    __device__ __forceinline__ void step(u64 q_now, int row, int n, Rows& rows, float (&o)[outputs], u32 (&p)[scores / 2]) {
        float s[scores];
        float correction[2];
        const Position<stages> before = ring;
        ring.next();
        barrier_wait(shared.k_full(ring.at), ring.parity);
        if constexpr (overlap == 1) {
            if constexpr (order_groups == 1) take_turn(group);
            wgmma_fence();
            issue_scores(s, q_now, k_at(ring.at));
            barrier_wait(shared.v_full(before.at), before.parity);
            wgmma_fence();
            issue_values(o, p, v_at(before.at));
            if constexpr (order_groups == 1) pass_turn(group);
            wgmma_wait<1>();
            release(shared.k_empty(ring.at));
            const bool grew = weigh<is_masked, false>(s, row, n, rows, correction);
            wgmma_wait<0>();
            release(shared.v_empty(before.at));
            pack(s, p);
            if (rescale == 0 || grew) correct(o, correction);
        } else {
            barrier_wait(shared.v_full(before.at), before.parity);
            if constexpr (order_groups == 1) take_turn(group);
            wgmma_fence();
            issue_values(o, p, v_at(before.at));
            issue_scores(s, q_now, k_at(ring.at));
            if constexpr (order_groups == 1) pass_turn(group);
            wgmma_wait<0>();
            release(shared.v_empty(before.at));
            release(shared.k_empty(ring.at));
            const bool grew = weigh<is_masked, false>(s, row, n, rows, correction);
            pack(s, p);
            if (rescale == 0 || grew) correct(o, correction);
        }
        refill_k(ring, n);
        refill_v(before, n + 1);
    }

    __device__ __forceinline__ void end(float (&o)[outputs], const u32 (&p)[scores / 2]) {
        barrier_wait(shared.v_full(ring.at), ring.parity);
        wgmma_fence();
        issue_values(o, p, v_at(ring.at));
        wgmma_wait<0>();
        release(shared.v_empty(ring.at));
        ring.next();
    }
};

// Processes one tile of queries with all its keys, or a part of them.
__device__ __forceinline__ void attend(Math& math, const Problem& p, const Output& out, const Work& work, const Batch& batch,
                                       float scale, int q_buffer, int row_in_block) {
    const int group = math.group;
    const Keys keys = work.keys;
    const int row = work.row0 + row_in_block;
    const int group_row0 = work.row0 + group * 64;
    // All rows of this group see all keys of the tiles [whole_first, whole_end).
    const int whole_first = batch.mask.first_full_tile(group_row0 + 63, block_k);
    const int whole_end = batch.mask.end_full_tile(group_row0, block_k);
    const u64 q_now = descriptor_at(math.q, q_buffer * q_bytes);
    float o[outputs];
#pragma unroll
    for (int i = 0; i < outputs; ++i) o[i] = 0.0f;
    Rows rows;
    rows.max[0] = rows.max[1] = attention::minus_infinity();
    rows.sum[0] = rows.sum[1] = 0.0f;
    if (keys.end > keys.first) {
        u32 weights[scores / 2];
        int n = keys.end - 1;
        math.begin(q_now, row, n, rows, weights);
        --n;
#pragma unroll 1
        for (; n >= max(keys.first, whole_end); --n) math.template step<true>(q_now, row, n, rows, o, weights);
#pragma unroll 1
        for (; n >= max(keys.first, whole_first); --n) math.template step<false>(q_now, row, n, rows, o, weights);
        if constexpr (has_low != 0) {
#pragma unroll 1
            for (; n >= keys.first; --n) {
                math.template step<true>(q_now, row, n, rows, o, weights);
            }
        }
        math.release(math.shared.q_empty(q_buffer));
        math.end(o, weights);
    } else {
        math.release(math.shared.q_empty(q_buffer));
    }
    if (work.item >= 0)
        store_part(out, work.item, row_in_block, o, rows);
    else
        store_outputs(p, batch, out, work, row, o, rows, scale);
}

__device__ __forceinline__ Math math_of(const Shared& shared, const Problem& p, float scale, int group) {
    return {shared,
            p,
            scale * attention::log2_e,
            group,
            descriptor_along_columns<head_tile>(shared.q + group * (64 * span_of(head_tile) * 2)),
            descriptor_along_columns<head_tile>(shared.k),
            descriptor_along_rows<value_tile, block_k>(shared.v),
            {}};
}

__device__ __forceinline__ void consume(const Shared& shared, const Problem& p, const Output& out, float scale, int group) {
    const int row_in_block = group * 64 + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
    Math math = math_of(shared, p, scale, group);
    if constexpr (order_groups != 0)
        if (group == consumer_warpgroups - 1) pass_turn(group);
    Position<q_buffers> of_q;
    while (true) {
        barrier_wait(shared.q_full(of_q.at), of_q.parity);
        const Work work = published(shared.work(of_q.at));
        if (work.row0 < 0) break;
        const Batch batch = batch_of(p, work.batch);
#if ATTENTION_PACKED
        math.mask = batch.mask;
#endif
        attend(math, p, out, work, batch, scale, of_q.at, row_in_block);
        of_q.next();
        if constexpr (schedule == 0) break;
    }
    if constexpr (order_groups != 0)
        if (group == 0) take_turn(group);  // waits for the last turn, which was passed on to this group
}

// Both roles in one warpgroup. One of its threads loads Q and as many tiles of keys and values as there are stages. It loads each
// next tile when the tile before it in that stage has been used.
__device__ __forceinline__ void load_and_consume(const Shared& shared, const Problem& p, const Output& out, float scale,
                                                 const TensorMap* map_q, const TensorMap* map_k, const TensorMap* map_v) {
    const Work work = work_at(p, static_cast<int>(blockIdx.x));
    const Batch batch = batch_of(p, work.batch);
    const Loads loads(shared, p, work, batch, map_q, map_k, map_v);
    Math math = math_of(shared, p, scale, 0);
    math.loads = &loads;
    math.first_key_tile = work.keys.first;
#if ATTENTION_PACKED
    math.mask = batch.mask;
#endif
    if (work.keys.end > work.keys.first) {
        if (threadIdx.x == 0) {
            loads.load_q(0);
#pragma unroll
            for (int i = 0; i < stages; ++i) {
                const int n = work.keys.end - 1 - i;
                if (n < work.keys.first) break;
                loads.load_k(i, 0, n);
                loads.load_v(i, 0, n);
            }
        }
        barrier_wait(shared.q_full(0), 0);
    }
    attend(math, p, out, work, batch, scale, 0, threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4);
}

constexpr int threads = 128 * (consumer_warpgroups + producer);
// The numbers for setmaxnreg, of the 65,536 registers of an SM: what a thread starts with, what producer threads keep, and what
// consumer threads get.
constexpr int registers_at_start = 65536 / (threads * blocks_per_sm) / 8 * 8;
constexpr bool reallocates = producer == 1 && registers_at_start < 256;
constexpr int producer_registers = consumer_warpgroups == 3 ? 32 : schedule == 2 || has_low != 0 || ATTENTION_PACKED ? 40 : 24;
constexpr int most_registers = (registers_at_start * (consumer_warpgroups + 1) - producer_registers) / consumer_warpgroups / 8 * 8;
constexpr int math_registers = most_registers < 240 ? most_registers : 240;

}  // namespace

extern "C" __global__ void __launch_bounds__(threads, blocks_per_sm)
    AUTOTUNE_ENTRY()(const __grid_constant__ TensorMap map_q, const __grid_constant__ TensorMap map_k,
                     const __grid_constant__ TensorMap map_v, Element* o, float* lse, float scale, int heads, int group, int rows,
                     int keys, int mask_low, int mask_high, long long o_batch, long long o_head, long long o_row, int q_tiles,
                     int items, int all_items, int heads_at_once, int longest_first, int most_steps, u32* counter, float* parts,
                     float2* part_rows ATTENTION_PACKING_PARAMETERS) {
    extern __shared__ unsigned char memory[];
    const Shared shared((smem_address(memory) + 1023) & ~1023u);
    const Problem problem{
        {mask_low, mask_high, keys}, rows, heads, group, q_tiles, items, all_items, heads_at_once, longest_first,
        most_steps ATTENTION_PACKING};
    if (threadIdx.x == 0) {
        prefetch_map(&map_q);
        prefetch_map(&map_k);
        prefetch_map(&map_v);
#pragma unroll
        for (int i = 0; i < stages; ++i) {
            barrier_init(shared.k_full(i), 1);
            barrier_init(shared.v_full(i), 1);
            barrier_init(shared.k_empty(i), math_warps);
            barrier_init(shared.v_empty(i), math_warps);
        }
#pragma unroll
        for (int i = 0; i < q_buffers; ++i) {
            barrier_init(shared.q_full(i), 1);
            barrier_init(shared.q_empty(i), math_warps);
        }
        fence_barrier_init();
    }
    __syncthreads();
    dependent_launch::wait_for_earlier_grids();
    dependent_launch::let_next_grid_start();
    const Output out{o, o_batch, o_head, o_row, lse, parts, part_rows};
    const int warpgroup = warp_uniform(threadIdx.x / 128);
    if constexpr (producer == 0) {
        load_and_consume(shared, problem, out, scale, &map_q, &map_k, &map_v);
    } else if (warpgroup == 0) {
        if constexpr (reallocates) give_registers<producer_registers>();
        if (threadIdx.x == 0) produce(shared, problem, &map_q, &map_k, &map_v, counter);
    } else {
        if constexpr (reallocates) take_registers<math_registers>();
        consume(shared, problem, out, scale, warpgroup - 1);
    }
}

// Adds the parts of tiles whose keys were divided, in order: a block per eight rows of a tile, a warp per row at a time.
extern "C" __global__ void __launch_bounds__(128)
    AUTOTUNE_ENTRY(_combine)(Element* o, float* lse, float scale, int heads, int group, int rows, int keys, int mask_low,
                             int mask_high, long long o_batch, long long o_head, long long o_row, int q_tiles, int items,
                             int longest_first, int most_steps, const float* parts, const float2* part_rows) {
    constexpr int rows_of_block = 8, pairs = value_tile / 2, pairs_of_lane = (pairs + 31) / 32;
    const Problem p{{mask_low, mask_high, keys}, rows, heads, group, q_tiles, items, 0, 0, longest_first, most_steps};
    const int blocks_of_tile = block_q / rows_of_block;
    const int tile = static_cast<int>(blockIdx.x) / blocks_of_tile;
    const int plane = tile / q_tiles, q_tile = tile - plane * q_tiles;
    const int count = parts_of(p, q_tile);
    if (count == 1) return;
    // The first item of the tile. The items of all tiles before it in the order come first.
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int before = 0;
    for (int i = lane; i < q_tiles; i += 32)
        if (longest_first ? i > q_tile : i < q_tile) before += parts_of(p, i);
    const int first = plane * items + static_cast<int>(__reduce_add_sync(0xffffffffu, static_cast<u32>(before)));
    dependent_launch::wait_for_earlier_grids();
    const int batch = plane / heads, head = plane - batch * heads;
    for (int i = warp; i < rows_of_block; i += 4) {
        const int in_tile = (static_cast<int>(blockIdx.x) - tile * blocks_of_tile) * rows_of_block + i;
        const int row = q_tile * block_q + in_tile;
        if (row >= rows) return;
        float peak = attention::minus_infinity();
        for (int part = 0; part < count; ++part)
            peak = fmaxf(peak, part_rows[static_cast<long long>(first + part) * block_q + in_tile].x);
        const float base = peak == attention::minus_infinity() ? 0.0f : peak;
        float total = 0.0f;
        float2 sums[pairs_of_lane] = {};
#pragma unroll 4
        for (int part = 0; part < count; ++part) {
            const long long at = static_cast<long long>(first + part) * block_q + in_tile;
            const float2 of_part = part_rows[at];
            const float weight = attention::exp2_approx((of_part.x - base) * (scale * attention::log2_e));
            total += weight * of_part.y;
#pragma unroll
            for (int j = 0; j < pairs_of_lane; ++j) {
                const int pair = j * 32 + lane;
                if (pair >= pairs) continue;
                const float2 value = *reinterpret_cast<const float2*>(parts + at * value_tile + pair * 2);
                sums[j].x += weight * value.x;
                sums[j].y += weight * value.y;
            }
        }
        const float inverse = attention::inverse_of(total);
        Element* to = o + batch * o_batch + head * o_head + row * o_row;
#pragma unroll
        for (int j = 0; j < pairs_of_lane; ++j) {
            const int column = (j * 32 + lane) * 2;
            if (column >= dv) continue;
            const u32 pair = ptx::pack_pair<Element>(sums[j].x * inverse, sums[j].y * inverse);
            to[column] = Element{static_cast<u16>(pair)};
            to[column + 1] = Element{static_cast<u16>(pair >> 16)};
        }
        if (lse != nullptr && lane == 0)
            lse[(static_cast<long long>(batch) * heads + head) * rows + row] = attention::log_sum_exp(peak, total, scale);
    }
}
