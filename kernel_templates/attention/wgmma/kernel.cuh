// O = softmax(scale Q K^T, masked) V on Hopper. One producer warpgroup loads by TMA: Q once a tile, K and V through two rings;
// each of `math_groups` math warpgroups owns 64 rows of queries. Scores come from wgmma of Q and K in shared memory, the weights
// go into the second product from the registers in which the first one leaves them, and V is read along its stored rows: nothing
// is transposed. Keys are walked from the last visible tile to the first, so that tiles that a mask or the end of the keys cuts
// come first, or, cut by a window's left side, last; between them no score is compared with a bound. overlap: the scores of the
// next tile are issued before the weights of this one are multiplied with V, and their softmax runs under that product.
// order_groups: math groups take turns, so that one's softmax runs under another's products.
// clang-format off
#define AUTOTUNE_KERNEL ${symbol}
#include "common/types.cuh"
using Element = ${element_type};
constexpr int d = ${d};                  // columns of Q and K
constexpr int dv = ${dv};                // of V and O
constexpr int has_low = ${has_low};      // whether the mask has a bound on the left
constexpr int has_high = ${has_high};    // and on the right
constexpr int align_o = ${align_o};      // bytes
constexpr int math_groups = ${math_groups};
constexpr int block_k = ${block_k};
constexpr int stages = ${stages};        // of K, and of V
constexpr int q_buffers = ${q_buffers};
constexpr int blocks_per_sm = ${blocks_per_sm};
constexpr int overlap = ${overlap};
constexpr int order_groups = ${order_groups};  // turns of the math groups: 0: none, 1: to issue products, 2: for the exponentials
constexpr int rescale = ${rescale};            // O is corrected 0: in each step, 1: where a maximum grew by more than 8 in log2
constexpr int schedule = ${schedule};          // 0: a tile a block, 1: persistent, tiles dealt out, 2: persistent, tiles from a counter
// ---- end of parameters ----
// clang-format on
#include "attention/call.cuh"
#include "attention/hopper_parts.cuh"
#include "common/dependent_launch.cuh"
#include "common/ptx.cuh"

namespace {

using namespace hopper;

static_assert(sizeof(Element) == 2 && d % 8 == 0 && dv % 8 == 0 && d <= 256 && dv <= 256);
static_assert(block_k % 16 == 0 && block_k <= 256);
static_assert(order_groups == 0 || math_groups > 1, "one group has nobody to take turns with");
static_assert(q_buffers == 1 || schedule != 0, "a block with one tile has one Q");

constexpr int block_q = 64 * math_groups;

// Tiles lie in slabs of rows, one swizzle span of 64 or 32 elements wide. TMA fills what lies beyond a row with zeros.
__device__ constexpr int padded(int columns) {
    return (columns + 31) / 32 * 32;
}
__device__ constexpr int span_of(int columns) {
    return padded(columns) % 64 == 0 ? 64 : 32;
}
constexpr int head_span = span_of(d), value_span = span_of(dv);
constexpr int head_tile = padded(d), value_tile = padded(dv);
constexpr u32 q_bytes = block_q * head_tile * 2;
constexpr u32 k_bytes = block_k * head_tile * 2;
constexpr u32 v_bytes = block_k * value_tile * 2;

constexpr int scores = block_k / 2;      // registers of a thread's part of a tile of scores
constexpr int outputs = value_tile / 2;  // and of O
constexpr int math_warps = 4 * math_groups;

using RowMask = attention::Mask<has_low != 0, has_high != 0>;

// Launch arguments that both roles read.
struct Problem {
    RowMask mask;
    int rows;            // of a head
    int heads, group;    // of Q; that share a head of K and V
    int q_tiles, tiles;  // of a head; of all
    int heads_at_once;   // whose tiles are dealt out in turn, so that their K and V stay in L2
    int longest_first;   // 1: the last rows of a head first
};

struct Tile {
    int row0, head, batch;
};

__device__ __forceinline__ Tile tile_at(const Problem& p, int index) {
    const int of_run = p.heads_at_once * p.q_tiles;
    const int run = index / of_run;
    const int in_run = index - run * of_run;
    const int width = min(p.heads_at_once, p.tiles / p.q_tiles - run * p.heads_at_once);
    const int q_tile = in_run / width;
    const int plane = run * p.heads_at_once + in_run - q_tile * width;
    const int batch = plane / p.heads;
    return {(p.longest_first ? p.q_tiles - 1 - q_tile : q_tile) * block_q, plane - batch * p.heads, batch};
}

// Tiles of keys of a block of rows: [first, end) is walked.
struct Keys {
    int first, end;
};
__device__ __forceinline__ Keys keys_of(const Problem& p, int row0) {
    const int first = p.mask.first_tile(row0, block_k);
    return {first, max(first, p.mask.end_tile(min(row0 + block_q, p.rows) - 1, block_k))};
}

// A place in a ring, and the parity of its barriers' phase there.
template <int length>
struct Position {
    int at = 0;
    u32 parity = 0;
    __device__ __forceinline__ void next() {
        if constexpr (length == 1) {
            parity ^= 1;
        } else {
            const bool wraps = at == length - 1;
            at = wraps ? 0 : at + 1;
            parity ^= wraps ? 1 : 0;
        }
    }
};

// Shared memory: tiles, then barriers, then the tile that each Q belongs to.
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
    __device__ __forceinline__ u32 tile(int i) const { return barriers + (4 * stages + 2 * q_buffers) * 8 + i * 16; }
};

// ---- the producer ----

template <int tile, int span, int rows>
__device__ __forceinline__ void load_tile(u32 to, const TensorMap* map, u32 barrier, int row, int head, int batch, u64 policy) {
#pragma unroll
    for (int slab = 0; slab < tile / span; ++slab)
        load_box(to + slab * (rows * span * 2), map, barrier, slab * span, row, head, batch, policy);
}

__device__ __forceinline__ void publish(u32 to, int row0, int head, int batch) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %3};" ::"r"(to), "r"(row0), "r"(head), "r"(batch) : "memory");
}

// The next tile's index, or one that is no tile's. A counter is set back by the block that takes the last number of all.
__device__ __forceinline__ int next_index(const Problem& p, int before, u32* counter) {
    if constexpr (schedule == 0) return before < 0 ? static_cast<int>(blockIdx.x) : p.tiles;
    if constexpr (schedule == 1) return before < 0 ? static_cast<int>(blockIdx.x) : before + static_cast<int>(gridDim.x);
    const int index = static_cast<int>(atomicAdd(counter, 1u));
    if (index == p.tiles + static_cast<int>(gridDim.x) - 1) atomicExch(counter, 0u);
    return index;
}

__device__ __forceinline__ void produce(const Shared& shared, const Problem& p, const TensorMap* map_q, const TensorMap* map_k,
                                        const TensorMap* map_v, u32* counter) {
    Position<stages> ring;
    Position<q_buffers> of_q;
    int index = -1;
    while (true) {
        index = next_index(p, index, counter);
        if (index >= p.tiles) break;
        const Tile tile = tile_at(p, index);
        const Keys keys = keys_of(p, tile.row0);
        const int kv_head = tile.head / p.group;
        const auto load_k = [&](const Position<stages>& at, int n) {
            barrier_wait(shared.k_empty(at.at), at.parity ^ 1);
            barrier_expect(shared.k_full(at.at), k_bytes);
            load_tile<head_tile, head_span, block_k>(shared.k + at.at * k_bytes, map_k, shared.k_full(at.at), n * block_k,
                                                     kv_head, tile.batch, policy_normal);
        };
        const auto load_v = [&](const Position<stages>& at, int n) {
            barrier_wait(shared.v_empty(at.at), at.parity ^ 1);
            barrier_expect(shared.v_full(at.at), v_bytes);
            load_tile<value_tile, value_span, block_k>(shared.v + at.at * v_bytes, map_v, shared.v_full(at.at), n * block_k,
                                                       kv_head, tile.batch, policy_normal);
        };
        int n = keys.end - 1;
        if (n >= keys.first) load_k(ring, n);
        barrier_wait(shared.q_empty(of_q.at), of_q.parity ^ 1);
        publish(shared.tile(of_q.at), tile.row0, tile.head, tile.batch);
        barrier_expect(shared.q_full(of_q.at), q_bytes);
        load_tile<head_tile, head_span, block_q>(shared.q + of_q.at * q_bytes, map_q, shared.q_full(of_q.at), tile.row0,
                                                 tile.head, tile.batch, policy_evict_first);
        of_q.next();
        if (n < keys.first) continue;
#pragma unroll 1
        for (; n > keys.first; --n) {
            Position<stages> following = ring;
            following.next();
            load_k(following, n - 1);
            load_v(ring, n);
            ring = following;
        }
        load_v(ring, n);
        ring.next();
    }
    if constexpr (schedule != 0) {
        barrier_wait(shared.q_empty(of_q.at), of_q.parity ^ 1);
        publish(shared.tile(of_q.at), -1, 0, 0);
        barrier_arrive(shared.q_full(of_q.at));
    }
}

// ---- the math groups ----

// Equal in all threads of a warp; from a shuffle, so that the compiler knows it and keeps what follows from it in uniform
// registers.
__device__ __forceinline__ int warp_uniform(int value) {
    return __shfl_sync(0xffffffffu, value, 0);
}

__device__ __forceinline__ u64 descriptor_at(u64 base, u32 bytes) {
    return base + (bytes >> 4);
}

// S = Q K^T.
__device__ __forceinline__ void issue_scores(float (&s)[scores], u64 q, u64 k) {
#pragma unroll
    for (int i = 0; i < head_tile / 16; ++i) {
        const int slab = i * 16 / head_span, in_slab = i * 16 % head_span * 2;
        Wgmma<block_k, Element, f32, 0, 0>::run(s, descriptor_at(q, slab * (block_q * head_span * 2) + in_slab),
                                                descriptor_at(k, slab * (block_k * head_span * 2) + in_slab), i > 0 ? 1 : 0);
    }
    wgmma_commit();
}
// O += P V.
__device__ __forceinline__ void issue_values(float (&o)[outputs], const u32 (&p)[scores / 2], u64 v) {
#pragma unroll
    for (int i = 0; i < block_k / 16; ++i)
        WgmmaFromRegisters<value_tile, Element>::template run<1>(o, &p[4 * i], descriptor_at(v, i * 16 * value_span * 2), 1);
    wgmma_commit();
}

__device__ __forceinline__ float over_quad_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
__device__ __forceinline__ float over_quad_sum(float x) {
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

// Of a thread's two rows, eight apart.
struct Rows {
    float max[2];  // of the scores
    float sum[2];  // of this thread's weights
};

// Scores of keys that a row does not see become -inf. `key0` is the thread's first column, from which the others are constants
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

// The rows' maxima with this tile, and `correction`, by which earlier weights are to be multiplied. False: by nothing, in all
// rows of the warp, whose maxima may then be up to 8 / factor too small: weights stay below 2^8.
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
        // Where all scores were -inf so far, weights are to become 0, not NaN.
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

// Turns: a group waits on its own barrier, and after its turn arrives on the next group's.
__device__ __forceinline__ void take_turn(int group) {
    named_barrier(1 + group, 256);
}
__device__ __forceinline__ void pass_turn(int group) {
    named_barrier_arrive(group + 1 == math_groups ? 1 : 2 + group, 256);
}

struct Output {
    Element* o;
    long long batch, head, row;  // strides in elements
    float* lse;                  // may be null
};

// Lane q of a quad gives register i to lane i and gets that lane's register q.
__device__ __forceinline__ void transpose_quad(u32 (&r)[4], int lane) {
#pragma unroll
    for (int step = 1; step <= 2; step *= 2) {
        const bool upper = (lane & step) != 0;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if (i & step) continue;
            const u32 got = __shfl_xor_sync(0xffffffffu, upper ? r[i] : r[i | step], step);
            if (upper)
                r[i] = got;
            else
                r[i | step] = got;
        }
    }
}

__device__ __forceinline__ void store_outputs(const Problem& p, const Output& out, const Tile& tile, int row,
                                              const float (&o)[outputs], const Rows& rows, float scale) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const int at = row + 8 * r;
        const bool exists = at < p.rows;
        const float sum = over_quad_sum(rows.sum[r]);
        const float inverse = attention::inverse_of(sum);
        if (out.lse != nullptr && exists && lane % 4 == 0)
            out.lse[(static_cast<long long>(tile.batch) * p.heads + tile.head) * p.rows + at] =
                attention::log_sum_exp(rows.max[r], sum, scale);
        Element* to = out.o + tile.batch * out.batch + tile.head * out.head + at * out.row;
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
    u64 q, k, v;  // descriptors of this group's rows of Q, and of the rings' first tiles
    Position<stages> ring;

    __device__ __forceinline__ void release(u32 barrier) const {
        if (threadIdx.x % 32 == 0) barrier_arrive(barrier);
    }
    __device__ __forceinline__ u64 k_at(int at) const { return descriptor_at(k, at * k_bytes); }
    __device__ __forceinline__ u64 v_at(int at) const { return descriptor_at(v, at * v_bytes); }

    template <bool is_masked, bool is_first>
    __device__ __forceinline__ bool weigh(float (&s)[scores], int row, int n, Rows& rows, float (&correction)[2]) const {
        if constexpr (is_masked) cut(s, problem.mask, row, n * block_k + static_cast<int>(threadIdx.x % 4 * 2));
        float base[2];
        const bool grew = new_maximum<is_first>(s, factor, rows, base, correction);
        if constexpr (order_groups == 2) take_turn(group);
        to_weights<is_first>(s, factor, base, correction, rows);
        if constexpr (order_groups == 2) pass_turn(group);
        return grew;
    }

    // The first tile of keys.
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
    }

    // Tile n of keys, with the weights of tile n + 1 still to be multiplied with V.
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

__device__ __forceinline__ void consume(const Shared& shared, const Problem& p, const Output& out, float scale, int group) {
    const int row_in_block = group * 64 + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
    Math math{shared,
              p,
              scale * attention::log2_e,
              group,
              matrix_descriptor(shared.q + group * (64 * head_span * 2), 16, 8 * head_span * 2, head_span * 2),
              matrix_descriptor(shared.k, 16, 8 * head_span * 2, head_span * 2),
              matrix_descriptor(shared.v, block_k * value_span * 2, 8 * value_span * 2, value_span * 2),
              {}};
    if constexpr (order_groups != 0)
        if (group == math_groups - 1) pass_turn(group);
    Position<q_buffers> of_q;
    while (true) {
        barrier_wait(shared.q_full(of_q.at), of_q.parity);
        int words[4];
        asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                     : "r"(shared.tile(of_q.at))
                     : "memory");
        const Tile tile{warp_uniform(words[0]), warp_uniform(words[1]), warp_uniform(words[2])};
        if (tile.row0 < 0) break;
        const Keys keys = keys_of(p, tile.row0);
        const int row = tile.row0 + row_in_block;
        const int group_row0 = tile.row0 + group * 64;
        // Tiles [whole_first, whole_end) are seen whole by all rows of this group.
        const int whole_first = p.mask.first_full_tile(group_row0 + 63, block_k);
        const int whole_end = p.mask.end_full_tile(group_row0, block_k);
        const u64 q_now = descriptor_at(math.q, of_q.at * q_bytes);
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
            math.release(shared.q_empty(of_q.at));
            math.end(o, weights);
        } else {
            math.release(shared.q_empty(of_q.at));
        }
        store_outputs(p, out, tile, row, o, rows, scale);
        of_q.next();
        if constexpr (schedule == 0) break;
    }
    if constexpr (order_groups != 0)
        if (group == 0) take_turn(group);  // the last turn that was passed
}

constexpr int threads = 128 * (math_groups + 1);
// setmaxnreg: what a thread starts with, what the producer's keep and what the math groups' get, of the 65,536 of an SM.
constexpr int registers_at_start = 65536 / (threads * blocks_per_sm) / 8 * 8;
constexpr bool reallocates = registers_at_start < 256;
constexpr int producer_registers = math_groups == 3 ? 32 : schedule == 2 || has_low != 0 ? 40 : 24;
constexpr int most_registers = (registers_at_start * (math_groups + 1) - producer_registers) / math_groups / 8 * 8;
constexpr int math_registers = most_registers < 240 ? most_registers : 240;

}  // namespace

extern "C" __global__ void __launch_bounds__(threads, blocks_per_sm)
    AUTOTUNE_ENTRY()(const __grid_constant__ TensorMap map_q, const __grid_constant__ TensorMap map_k,
                     const __grid_constant__ TensorMap map_v, Element* o, float* lse, float scale, int heads, int group, int rows,
                     int keys, int mask_low, int mask_high, long long o_batch, long long o_head, long long o_row, int q_tiles,
                     int tiles, int heads_at_once, int longest_first, u32* counter) {
    extern __shared__ unsigned char memory[];
    const Shared shared((smem_address(memory) + 1023) & ~1023u);
    const Problem problem{{mask_low, mask_high, keys}, rows, heads, group, q_tiles, tiles, heads_at_once, longest_first};
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
    const int warpgroup = warp_uniform(threadIdx.x / 128);
    if (warpgroup == 0) {
        if constexpr (reallocates) give_registers<producer_registers>();
        if (threadIdx.x == 0) produce(shared, problem, &map_q, &map_k, &map_v, counter);
    } else {
        if constexpr (reallocates) take_registers<math_registers>();
        const Output out{o, o_batch, o_head, o_row, lse};
        consume(shared, problem, out, scale, warpgroup - 1);
    }
}
