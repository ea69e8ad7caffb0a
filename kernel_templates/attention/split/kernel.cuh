// Attention of few queries on many keys (decoding). The keys of a head are split among blocks, and within a block among warps,
// which do not synchronise with each other. Keys and values are loaded from memory straight into mma.sync's registers: a lane
// loads 16 bytes of a row, and the elements of a dot product and the columns of the output are assigned to registers accordingly.
// Parts are joined in a fixed order: by the last block of a head, by a second kernel, or by the blocks of a cluster, which read
// each other's shared memory.
//
// The rows of a warp are 16 pairs of a query and a head that shares the keys; row r is query r / group of head r % group.
#include "attention/device/call.cuh"
#include "common/cluster.cuh"
#include "common/dependent_launch.cuh"
#include "common/global_access.cuh"
#include "common/ptx.cuh"
#if __CUDA_ARCH__ >= 900
#include "common/hopper.cuh"
#endif
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
constexpr int warps = ${warps};
constexpr int key_steps = ${key_steps};  // steps of 16 keys that a warp processes at a time
constexpr int load_hint = ${load_hint};
constexpr int join = ${join};  // parts are joined by 0: the last block of a head, 1: a second kernel, 2: the blocks' cluster
constexpr bool one_tile = ${one_tile};  // a warp has at most one tile: all loads of a block are in flight at once
constexpr int resident_blocks = ${resident_blocks};
// clang-format on
// ---- end of parameters ----

namespace {

constexpr int threads = 32 * warps;
constexpr int rows = 16;
constexpr int tile_keys = 16 * key_steps;
constexpr int pieces_d = d / 32;   // pieces of 16 bytes of a row for each of four lanes
constexpr int pieces_v = dv / 64;  // pieces of 16 bytes of a row for each of eight lanes
static_assert(sizeof(Element) == 2 && !tf32, "operands are 16-bit");
static_assert(d % 32 == 0 && dv % 64 == 0, "whole loads of 16 bytes");
static_assert(align_q == 16 && align_k == 16 && align_v == 16, "whole loads of 16 bytes");

using Words = u32[4];

__device__ __forceinline__ void load_words(Words& to, const Element* from) {
    uint4 raw;
    global::Load<load_hint>::run(raw, from);
    to[0] = raw.x, to[1] = raw.y, to[2] = raw.z, to[3] = raw.w;
}
// Loads if `is_wanted`; otherwise the words stay as they are. It uses a predicate, because loads could not be ordered around a
// branch.
__device__ __forceinline__ void load_words_if(bool is_wanted, Words& to, const Element* from) {
#define AT_LOAD_IF(modifiers)                                                                                             \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %5, 0;\n@p ld.global" modifiers ".v4.u32 {%0, %1, %2, %3}, [%4];\n}" \
                 : "+r"(to[0]), "+r"(to[1]), "+r"(to[2]), "+r"(to[3])                                                     \
                 : "l"(from), "r"(static_cast<u32>(is_wanted)))
    if constexpr (load_hint == global::load_default) AT_LOAD_IF("");
    else if constexpr (load_hint == global::load_no_allocate) AT_LOAD_IF(".L1::no_allocate");
    else AT_LOAD_IF(".L1::no_allocate.L2::256B");
#undef AT_LOAD_IF
}

struct LoadAlways {
    __device__ __forceinline__ void operator()(Words& to, const Element* from) const { load_words(to, from); }
};
struct LoadIf {
    bool is_wanted;
    __device__ __forceinline__ void operator()(Words& to, const Element* from) const { load_words_if(is_wanted, to, from); }
};

// Rows of a head of keys or values. `first` points at this lane's columns, so an address takes a single wide multiplication.
struct HeadRows {
    const char* first;
    u32 row_bytes;

    __device__ __forceinline__ const Element* operator[](int row) const {
        return reinterpret_cast<const Element*>(first + static_cast<u64>(static_cast<u32>(row)) * row_bytes);
    }
};

// A warp's keys in registers. Beyond the last key, the last one is read.
struct Keys {
    Words at[2 * key_steps][pieces_d];

    template <class Load>
    __device__ __forceinline__ void load(const Load& load, const HeadRows& k, int first, int last, int lane) {
#pragma unroll
        for (int n = 0; n < 2 * key_steps; ++n) {
            const Element* const row = k[min(first + n * 8 + lane / 4, last)];
#pragma unroll
            for (int piece = 0; piece < pieces_d; ++piece) load(at[n][piece], row + piece * 32);
        }
    }
};

struct Values {
    Words at[key_steps][4][pieces_v];  // lane t of four has the keys 2t, 2t + 1, 2t + 8, 2t + 9

    template <class Load>
    __device__ __forceinline__ void load(const Load& load, const HeadRows& v, int first, int last, int lane) {
#pragma unroll
        for (int step = 0; step < key_steps; ++step) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const Element* const row = v[min(first + step * 16 + lane % 4 * 2 + i / 2 * 8 + i % 2, last)];
#pragma unroll
                for (int piece = 0; piece < pieces_v; ++piece) load(at[step][i][piece], row + piece * 64);
            }
        }
    }
};

// The low or the high halves of two words.
template <bool high>
__device__ __forceinline__ u32 joined_halves(u32 low_word, u32 high_word) {
    return __byte_perm(low_word, high_word, high ? 0x7632 : 0x5410);
}

// A part of a row's result, for the keys of a warp, of a block or of several blocks: the sum of the weights relative to a peak,
// and the weighted values.
struct RowState {
    f32 peak[2];                 // the largest score times slope, for rows lane / 4 and lane / 4 + 8
    f32 sum[2];                  // the sum over this thread's keys
    f32 values[pieces_v][8][4];  // [64 columns][mma tile]: column 16t + 8 (i % 2) + tile of row i / 2 * 8 + lane / 4

    __device__ __forceinline__ void clear_values() {
#pragma unroll
        for (int piece = 0; piece < pieces_v; ++piece)
#pragma unroll
            for (int tile = 0; tile < 8; ++tile)
#pragma unroll
                for (int i = 0; i < 4; ++i) values[piece][tile][i] = 0;
    }
};

__device__ __forceinline__ void multiply_keys(f32 (&scores)[2 * key_steps][4], const Words (&queries)[pieces_d][2],
                                              const Keys& keys) {
#pragma unroll
    for (int n = 0; n < 2 * key_steps; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) scores[n][i] = 0;
    }
#pragma unroll
    for (int piece = 0; piece < pieces_d; ++piece) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const u32 a[4] = {queries[piece][0][2 * half], queries[piece][1][2 * half], queries[piece][0][2 * half + 1],
                              queries[piece][1][2 * half + 1]};
#pragma unroll
            for (int n = 0; n < 2 * key_steps; ++n)
                ptx::mma_m16n8k16<Element>(scores[n], a, keys.at[n][piece][2 * half], keys.at[n][piece][2 * half + 1]);
        }
    }
}

__device__ __forceinline__ void multiply_values(RowState& state, const u32 (&weights)[key_steps][4], const Values& values) {
#pragma unroll
    for (int step = 0; step < key_steps; ++step) {
#pragma unroll
        for (int piece = 0; piece < pieces_v; ++piece) {
#pragma unroll
            for (int tile = 0; tile < 8; ++tile) {
                const int word = tile / 2;
                const Words(&a)[pieces_v] = values.at[step][0];
                const Words(&b)[pieces_v] = values.at[step][1];
                const Words(&c)[pieces_v] = values.at[step][2];
                const Words(&e)[pieces_v] = values.at[step][3];
                const u32 b0 = tile % 2 == 0 ? joined_halves<false>(a[piece][word], b[piece][word])
                                             : joined_halves<true>(a[piece][word], b[piece][word]);
                const u32 b1 = tile % 2 == 0 ? joined_halves<false>(c[piece][word], e[piece][word])
                                             : joined_halves<true>(c[piece][word], e[piece][word]);
                ptx::mma_m16n8k16<Element>(state.values[piece][tile], weights[step], b0, b1);
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

// begin, end: the keys that the thread's two rows see, relative to the tile's first key.
__device__ __forceinline__ void apply_mask(f32 (&scores)[2 * key_steps][4], const int (&begin)[2], const int (&end)[2],
                                           int lane) {
#pragma unroll
    for (int n = 0; n < 2 * key_steps; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int key = n * 8 + lane % 4 * 2 + i % 2;
            if (key < begin[i / 2] || key >= end[i / 2]) scores[n][i] = attention::minus_infinity();
        }
    }
}

__device__ __forceinline__ f32 origin_of(f32 peak) {
    return peak == attention::minus_infinity() ? 0.0F : peak;
}

__device__ __forceinline__ void weigh(f32 (&scores)[2 * key_steps][4], RowState& state, u32 (&weights)[key_steps][4], f32 slope) {
    f32 factor[2], origin[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        f32 here = fmaxf(scores[0][2 * half], scores[0][2 * half + 1]);
#pragma unroll
        for (int n = 1; n < 2 * key_steps; ++n) here = fmaxf(here, fmaxf(scores[n][2 * half], scores[n][2 * half + 1]));
        here = __fmul_rn(largest_of_row(here), slope);
        const f32 before = state.peak[half];
        state.peak[half] = fmaxf(before, here);
        origin[half] = origin_of(state.peak[half]);
        factor[half] = attention::exp2_approx(before - origin[half]);
    }
    if (!one_tile && __any_sync(0xffffffffU, factor[0] != 1.0F || factor[1] != 1.0F) != 0) {
#pragma unroll
        for (int piece = 0; piece < pieces_v; ++piece)
#pragma unroll
            for (int tile = 0; tile < 8; ++tile)
#pragma unroll
                for (int i = 0; i < 4; ++i) state.values[piece][tile][i] *= factor[i / 2];
    }
    f32 sum[2] = {0, 0};
#pragma unroll
    for (int n = 0; n < 2 * key_steps; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            scores[n][i] = attention::exp2_approx(__fmaf_rn(scores[n][i], slope, -origin[i / 2]));
            sum[i / 2] += scores[n][i];
        }
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) state.sum[half] = __fmaf_rn(state.sum[half], factor[half], sum[half]);
#pragma unroll
    for (int step = 0; step < key_steps; ++step) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const f32* const from = scores[2 * step + i / 2] + i % 2 * 2;
            weights[step][i] = ptx::pack_pair<Element>(from[0], from[1]);
        }
    }
}

// ---- parts exchanged by warps and blocks ----

constexpr int part_columns = dv + 4;  // in shared memory, padded so that neighbouring rows begin in different banks
constexpr int row_quads = dv / 4;

struct Part {
    f32 values[rows][part_columns];
    f32 peak[rows], sum[rows];
};

// Four columns of a row's part, with the row's peak and sum, as the blocks of a cluster send them to each other.
struct QuadPart {
    float4 values;
    float2 peak_and_sum;
    float2 unused;  // keeps values aligned
};
constexpr int most_cluster_blocks = 16;
constexpr int most_quads = join == 2 ? rows * row_quads + most_cluster_blocks : 1;

struct Meeting {
    Part parts[warps];
    QuadPart received[most_quads];  // by the quad of this block, then by the sending block
    u64 all_received;               // barrier
    int is_last;
};

// A part in memory: values, then peaks with sums.
constexpr int stored_part = rows * (dv + 2);
constexpr int parts_at_once = 16;  // parts that a thread reads at once

__device__ __forceinline__ void store_part(Part& part, const RowState& state, int lane, int count) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int row = lane / 4 + half * 8;
        const f32 sum = sum_of_row(state.sum[half]);
        if (row >= count) continue;
#pragma unroll
        for (int piece = 0; piece < pieces_v; ++piece) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                f32* const to = part.values[row] + piece * 64 + lane % 4 * 16 + i * 8;
#pragma unroll
                for (int tile = 0; tile < 8; tile += 4) {
                    const f32(&from)[8][4] = state.values[piece];
                    *reinterpret_cast<float4*>(to + tile) =
                        make_float4(from[tile][2 * half + i], from[tile + 1][2 * half + i], from[tile + 2][2 * half + i],
                                    from[tile + 3][2 * half + i]);
                }
            }
        }
        if (lane % 4 == 0) {
            part.peak[row] = state.peak[half];
            part.sum[row] = sum;
        }
    }
}

// The query and head of a row. Decoding has one query and skips the division, which takes as long as a tile of keys.
struct Pair {
    int query, head;
};
__device__ __forceinline__ Pair pair_of(int number, int group, int q_len) {
    if (q_len == 1) return {0, number};
    return {number / group, number % group};
}

// The output rows of a block's head.
struct Output {
    Element* o;
    f32* lse;  // may be null
    i64 o_head, o_row;
    int first_row, row_count;  // row_count: the number of pairs of a query and a head
    int group, q_len;

    // Existing rows of the block.
    __device__ __forceinline__ int count() const { return min(rows, row_count - first_row); }
    __device__ __forceinline__ void store(int row, int column, float4 values, f32 inverse) const {
        if (first_row + row >= row_count) return;
        const Pair pair = pair_of(first_row + row, group, q_len);
        Element* const to = o + pair.head * o_head + pair.query * o_row + column;
        const f32 each[4] = {values.x * inverse, values.y * inverse, values.z * inverse, values.w * inverse};
        constexpr int fitting = align_o / 2;
        constexpr int step = fitting < 4 ? fitting : 4;
#pragma unroll
        for (int i = 0; i < 4; i += step) {
            Pack<Element, step> pack;
#pragma unroll
            for (int j = 0; j < step; ++j) pack.at[j] = from_f32<Element>(each[i + j]);
            store_pack(to + i, pack);
        }
    }
    __device__ __forceinline__ void store_lse(int row, f32 peak, f32 sum) const {
        if (lse == nullptr || first_row + row >= row_count) return;
        const Pair pair = pair_of(first_row + row, group, q_len);
        lse[static_cast<i64>(pair.head) * q_len + pair.query] = attention::log_sum_exp(peak, sum, attention::ln_2);
    }
};

// Four columns of a row, weighted and summed over parts, with the row's peak and sum.
struct Joined {
    f32 peak = attention::minus_infinity(), sum = 0;
    float4 total = make_float4(0, 0, 0, 0);

    __device__ __forceinline__ void add(f32 weight, f32 part_sum, float4 values) {
        sum = __fmaf_rn(part_sum, weight, sum);
        total.x = __fmaf_rn(values.x, weight, total.x);
        total.y = __fmaf_rn(values.y, weight, total.y);
        total.z = __fmaf_rn(values.z, weight, total.z);
        total.w = __fmaf_rn(values.w, weight, total.w);
    }
    // Adds `count` parts from `first` on, at most `most`, in order. All loads are issued before one is used, because each may
    // take as long as the keys.
    template <int most, class Parts>
    __device__ __forceinline__ void add_parts(const Parts& parts, int first, int count, int row, int column) {
        float2 facts[most];  // peaks and sums
        float4 values[most];
#pragma unroll
        for (int i = 0; i < most; ++i) {
            facts[i] = make_float2(attention::minus_infinity(), 0);
            values[i] = make_float4(0, 0, 0, 0);
            if (i < count) {
                facts[i] = parts.peak_and_sum(first + i, row);
                values[i] = parts.values(first + i, row, column);
            }
        }
        const f32 before = peak;
#pragma unroll
        for (int i = 0; i < most; ++i) peak = fmaxf(peak, facts[i].x);
        const f32 origin = origin_of(peak);
        const f32 factor = attention::exp2_approx(before - origin);
        sum *= factor;
        total = make_float4(total.x * factor, total.y * factor, total.z * factor, total.w * factor);
#pragma unroll
        for (int i = 0; i < most; ++i) add(attention::exp2_approx(facts[i].x - origin), facts[i].y, values[i]);
    }
};

template <class Parts>
__device__ __forceinline__ Joined joined(const Parts& parts, int count, int row, int column) {
    constexpr int most = Parts::at_once;
    Joined all;
#pragma unroll 1
    for (int first = 0; first < count; first += most) all.template add_parts<most>(parts, first, count - first, row, column);
    return all;
}

// The parts of a block's warps, in shared memory.
struct PartsOfWarps {
    static constexpr int at_once = warps;
    const Part* parts;
    __device__ __forceinline__ float2 peak_and_sum(int warp, int row) const {
        return make_float2(parts[warp].peak[row], parts[warp].sum[row]);
    }
    __device__ __forceinline__ float4 values(int warp, int row, int column) const {
        return *reinterpret_cast<const float4*>(parts[warp].values[row] + column);
    }
};
// The parts of the blocks that split the keys, in memory. Other SMs wrote them, so reads bypass L1.
template <int most>
struct PartsInMemory {
    static constexpr int at_once = most;
    const f32* first;
    __device__ __forceinline__ const f32* of(int split) const { return first + static_cast<i64>(split) * stored_part; }
    __device__ __forceinline__ float2 peak_and_sum(int split, int row) const {
        return __ldcg(reinterpret_cast<const float2*>(of(split) + rows * dv) + row);
    }
    __device__ __forceinline__ float4 values(int split, int row, int column) const {
        return __ldcg(reinterpret_cast<const float4*>(of(split) + row * dv + column));
    }
};
// A block with few threads has enough registers to read all parts of the usual number of splits at once.
using StoredParts = PartsInMemory<threads * resident_blocks <= 128 ? 2 * parts_at_once : parts_at_once>;
// The parts received from the blocks of a cluster, for the one quad of columns whose row and column are given.
struct ReceivedParts {
    static constexpr int at_once = most_cluster_blocks;
    const QuadPart* of_quad;
    __device__ __forceinline__ float2 peak_and_sum(int block, int) const { return of_quad[block].peak_and_sum; }
    __device__ __forceinline__ float4 values(int block, int, int) const { return of_quad[block].values; }
};

__device__ __forceinline__ void store_joined(const Output& output, int row, int column, const Joined& all) {
    output.store(row, column, all.total, attention::inverse_of(all.sum));
    if (column == 0) output.store_lse(row, all.peak, all.sum);
}
// Joins parts to the output: the share of thread `thread` of `thread_count`.
template <class Parts>
__device__ __forceinline__ void join_to_output(const Parts& parts, int count, const Output& output, int thread,
                                               int thread_count) {
#pragma unroll 1
    for (int at = thread; at < output.count() * row_quads; at += thread_count) {
        const int row = at / row_quads, column = at % row_quads * 4;
        store_joined(output, row, column, joined(parts, count, row, column));
    }
}
__device__ __forceinline__ void join_to_memory(const PartsOfWarps& parts, const Output& output, f32* stored) {
#pragma unroll 1
    for (int at = threadIdx.x; at < output.count() * row_quads; at += threads) {
        const int row = at / row_quads, column = at % row_quads * 4;
        const Joined all = joined(parts, warps, row, column);
        *reinterpret_cast<float4*>(stored + row * dv + column) = all.total;
        if (column != 0) continue;
        *(reinterpret_cast<float2*>(stored + rows * dv) + row) = make_float2(all.peak, all.sum);
    }
}

// ---- a cluster whose blocks split a head's keys: each block joins a share of the output's quads, which the others send to it
// ----

#if __CUDA_ARCH__ >= 900
struct Exchange {
    Meeting& meeting;
    u32 barrier, rank;
    int blocks, quads;  // blocks of the cluster; quads of the output

    __device__ __forceinline__ Exchange(Meeting& of_block, int block_count, int quad_count)
        : meeting(of_block),
          barrier(ptx::shared_address(&of_block.all_received)),
          rank(cluster::rank()),
          blocks(block_count),
          quads(quad_count) {}

    // The barrier counts arrived bytes, so no block has to wait for another's writes.
    __device__ __forceinline__ void begin() const {
        if (threadIdx.x == 0) {
            const int own = (quads - static_cast<int>(rank) + blocks - 1) / blocks;
            hopper::barrier_init(barrier, 1);
            hopper::fence_barrier_init();
            hopper::barrier_expect(barrier, own * blocks * (sizeof(float4) + sizeof(float2)));
        }
        __syncwarp();
        asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
    }
    // Called before anything is sent: waits until the barriers of all blocks are initialised.
    __device__ __forceinline__ void wait_for_others() const {
        asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    }

    __device__ __forceinline__ void send(int quad, const Joined& part) const {
        const int turn = quad / blocks;
        const u32 to = ptx::shared_address(meeting.received + turn * blocks + rank), of_rank = quad - turn * blocks;
        const f32 values[4] = {part.total.x, part.total.y, part.total.z, part.total.w};
        const u32 facts[2] = {__float_as_uint(part.peak), __float_as_uint(part.sum)};
        hopper::send_remote(to, barrier, of_rank, values);
        hopper::send_remote(to + sizeof(float4), barrier, of_rank, facts);
    }
    __device__ __forceinline__ void join(const Output& output) const {
        hopper::barrier_wait_cluster(barrier, 0);
#pragma unroll 1
        for (int turn = threadIdx.x; turn * blocks + static_cast<int>(rank) < quads; turn += threads) {
            const int quad = turn * blocks + static_cast<int>(rank);
            const int row = quad / row_quads, column = quad % row_quads * 4;
            store_joined(output, row, column, joined(ReceivedParts{meeting.received + turn * blocks}, blocks, row, column));
        }
    }
};
#else
struct Exchange {
    __device__ __forceinline__ Exchange(Meeting&, int, int) {}
    __device__ __forceinline__ void begin() const {}
    __device__ __forceinline__ void wait_for_others() const {}
    __device__ __forceinline__ void send(int, const Joined&) const {}
    __device__ __forceinline__ void join(const Output&) const {}
};
#endif

// Increments the counter and returns its old value; after `last` it wraps to 0. The block's writes before its barrier are visible
// to blocks that count later.
__device__ __forceinline__ u32 counted(u32* counter, u32 last) {
    u32 before;
    asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;" : "=r"(before) : "l"(counter), "r"(last) : "memory");
    return before;
}

// Blocks of one head and band of rows are neighbours: splits innermost, then bands, heads, batches.
struct BlockPlace {
    int split, band, b, kv_head;
    i64 line;  // the index of the head and the band of rows
};

__device__ __forceinline__ BlockPlace block_place(int bands) {
    const int head = bands == 1 ? blockIdx.y : blockIdx.y / bands;
    return {static_cast<int>(blockIdx.x), static_cast<int>(blockIdx.y) - head * bands, static_cast<int>(blockIdx.z), head,
            static_cast<i64>(blockIdx.z) * gridDim.y + blockIdx.y};
}

__device__ __forceinline__ Output output_of(const attention::Call<Element>& call, const BlockPlace& place) {
    const int head = place.kv_head * call.group;
    return {call.o + call.o_strides.of_head(place.b, head),
            call.lse == nullptr ? nullptr : call.lse + (static_cast<i64>(place.b) * call.q_heads + head) * call.q_len,
            call.o_strides.head,
            call.o_strides.row,
            place.band * rows,
            call.q_len * call.group,
            call.group,
            call.q_len};
}

}  // namespace

extern "C" __global__ void __launch_bounds__(threads, resident_blocks)
    AUTOTUNE_ENTRY()(ATTENTION_PARAMETERS, int splits, int bands, u32* counters, f32* stored) {
    extern __shared__ __align__(16) unsigned char memory[];
    Meeting& meeting = *reinterpret_cast<Meeting*>(memory);
    const attention::Call<Element> call = ATTENTION_CALL;
    const BlockPlace place = block_place(bands);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const auto mask = call.mask<has_low, has_high>();
    const int row_count = q_len * group, band_row = place.band * rows;
    const int count = min(rows, row_count - band_row);

    // Distributes the tiles of keys that the block's rows see to the splits, and then to the warps of each split.
    const int first_row = pair_of(band_row, group, q_len).query;
    const int last_row = pair_of(band_row + count - 1, group, q_len).query;
    const int begin = mask.first_tile(first_row, tile_keys), end = mask.end_tile(last_row, tile_keys);
    const int begin_full = mask.first_full_tile(last_row, tile_keys), end_full = mask.end_full_tile(first_row, tile_keys);
    const int stride = warps * splits;
    int tile = begin + warp * splits + place.split;

    const HeadRows key_rows = {reinterpret_cast<const char*>(k + call.k_strides.of_head(place.b, place.kv_head) + lane % 4 * 8),
                               static_cast<u32>(k_row) * 2};
    const HeadRows value_rows = {reinterpret_cast<const char*>(v + call.v_strides.of_head(place.b, place.kv_head) + lane / 4 * 8),
                                 static_cast<u32>(v_row) * 2};
    Keys keys;
    Values values;
    const int last_key = kv_len - 1;

    dependent_launch::let_next_grid_start();
    dependent_launch::wait_for_earlier_grids();
    Words queries[pieces_d][2];
    int row_begin[2], row_end[2];  // keys
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const Pair pair = pair_of(band_row + min(lane / 4 + half * 8, count - 1), group, q_len);
        const Element* const from =
            q + call.q_strides.of_head(place.b, place.kv_head * group + pair.head) + pair.query * q_row + lane % 4 * 8;
#pragma unroll
        for (int piece = 0; piece < pieces_d; ++piece) load_words(queries[piece][half], from + piece * 32);
        row_begin[half] = mask.first_key(pair.query);
        row_end[half] = mask.end_key(pair.query);
    }
    const Exchange exchange(meeting, splits, count * row_quads);
    if constexpr (join == 2) exchange.begin();

    const f32 slope = scale * attention::log2_e;
    RowState state;
    state.peak[0] = state.peak[1] = attention::minus_infinity();
    state.sum[0] = state.sum[1] = 0;
    f32 scores[2 * key_steps][4];
    u32 weights[key_steps][4];
    const auto weigh_tile = [&] {
        if (tile < begin_full || tile >= end_full) {
            const int first = tile * tile_keys;
            const int from[2] = {row_begin[0] - first, row_begin[1] - first};
            const int to[2] = {row_end[0] - first, row_end[1] - first};
            apply_mask(scores, from, to, lane);
        }
        weigh(scores, state, weights, slope);
    };
    if constexpr (one_tile) {
        if (tile < end) {
            keys.load(LoadAlways{}, key_rows, tile * tile_keys, last_key, lane);
            values.load(LoadAlways{}, value_rows, tile * tile_keys, last_key, lane);
            multiply_keys(scores, queries, keys);
            weigh_tile();
            state.clear_values();  // this is not done earlier, because keys and queries occupy those registers
            multiply_values(state, weights, values);
        } else {
            state.clear_values();
        }
    } else {
        state.clear_values();
        if (tile < end) {
            keys.load(LoadAlways{}, key_rows, tile * tile_keys, last_key, lane);
            values.load(LoadAlways{}, value_rows, tile * tile_keys, last_key, lane);
        }
        for (; tile < end; tile += stride) {
            const int next = tile + stride;
            const LoadIf load_next = {next < end};
            multiply_keys(scores, queries, keys);
            keys.load(load_next, key_rows, next * tile_keys, last_key, lane);
            weigh_tile();
            multiply_values(state, weights, values);
            values.load(load_next, value_rows, next * tile_keys, last_key, lane);
        }
    }
    store_part(meeting.parts[warp], state, lane, count);
    __syncthreads();
    const PartsOfWarps parts = {meeting.parts};
    const Output output = output_of(call, place);
    if (splits == 1) {
        join_to_output(parts, warps, output, static_cast<int>(threadIdx.x), threads);
        return;
    }
    if constexpr (join == 2) {
        exchange.wait_for_others();
#pragma unroll 1
        for (int quad = threadIdx.x; quad < count * row_quads; quad += threads)
            exchange.send(quad, joined(parts, warps, quad / row_quads, quad % row_quads * 4));
        exchange.join(output);
        return;
    }
    f32* const of_line = stored + place.line * splits * stored_part;
    join_to_memory(parts, output, of_line + static_cast<i64>(place.split) * stored_part);
    if constexpr (join == 1) return;
    __syncthreads();
    if (threadIdx.x == 0) {
        const u32 last = static_cast<u32>(splits) - 1;
        meeting.is_last = counted(counters + place.line, last) == last;
    }
    __syncthreads();
    if (meeting.is_last != 0) join_to_output(StoredParts{of_line}, splits, output, static_cast<int>(threadIdx.x), threads);
}

extern "C" __global__ void __launch_bounds__(rows* dv / 4)
    AUTOTUNE_ENTRY(_join)(ATTENTION_PARAMETERS, int splits, int bands, u32*, f32* stored) {
    const attention::Call<Element> call = ATTENTION_CALL;
    const BlockPlace place = block_place(bands);
    dependent_launch::let_next_grid_start();
    dependent_launch::wait_for_earlier_grids();
    join_to_output(PartsInMemory<parts_at_once>{stored + place.line * splits * stored_part}, splits, output_of(call, place),
                   static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x));
}
