// Attention of few queries on many keys (decoding): the keys of a head are split among blocks, and within a block among warps,
// each of which goes through its own without meeting the others. Keys and values come from memory straight into mma.sync's
// registers: a lane loads 16 bytes of a row, and which element of a product's sum, or which column of the output, a register
// stands for follows from that. Parts are joined in a fixed order, by the last block of a head or by a second kernel.
//
// The rows of a warp are 16 pairs of a query and a head that shares the keys; row r is query r / group of head r % group.
#include "attention/call.cuh"
#include "common/dependent_launch.cuh"
#include "common/global_access.cuh"
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
constexpr int warps = ${warps};
constexpr int key_steps = ${key_steps};  // of 16 keys, of a warp at a time
constexpr int load_hint = ${load_hint};
constexpr bool second_kernel = ${second_kernel};
constexpr int resident_blocks = ${resident_blocks};
// clang-format on
// ---- end of parameters ----

namespace {

constexpr int threads = 32 * warps;
constexpr int rows = 16;
constexpr int tile_keys = 16 * key_steps;
constexpr int pieces_d = d / 32;   // 16 bytes of each of four lanes
constexpr int pieces_v = dv / 64;  // 16 bytes of each of eight lanes
static_assert(sizeof(Element) == 2 && !tf32, "operands are 16-bit");
static_assert(d % 32 == 0 && dv % 64 == 0, "whole loads of 16 bytes");
static_assert(align_q == 16 && align_k == 16 && align_v == 16, "whole loads of 16 bytes");

using Words = u32[4];

__device__ __forceinline__ void load_words(Words& to, const Element* from) {
    uint4 raw;
    global::Load<load_hint>::run(raw, from);
    to[0] = raw.x, to[1] = raw.y, to[2] = raw.z, to[3] = raw.w;
}

// What of a warp's keys is in registers. A key behind the last one is read as that.
struct Keys {
    Words at[2 * key_steps][pieces_d];

    __device__ __forceinline__ void load(const Element* k, i64 k_row, int first, int last, int lane) {
#pragma unroll
        for (int n = 0; n < 2 * key_steps; ++n) {
            const Element* const row = k + min(first + n * 8 + lane / 4, last) * k_row + lane % 4 * 8;
#pragma unroll
            for (int piece = 0; piece < pieces_d; ++piece) load_words(at[n][piece], row + piece * 32);
        }
    }
};

struct Values {
    Words at[key_steps][4][pieces_v];  // keys 2t, 2t + 1, 2t + 8, 2t + 9 of lane t of four

    __device__ __forceinline__ void load(const Element* v, i64 v_row, int first, int last, int lane) {
#pragma unroll
        for (int step = 0; step < key_steps; ++step) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int key = first + step * 16 + lane % 4 * 2 + i / 2 * 8 + i % 2;
                const Element* const row = v + min(key, last) * v_row + lane / 4 * 8;
#pragma unroll
                for (int piece = 0; piece < pieces_v; ++piece) load_words(at[step][i][piece], row + piece * 64);
            }
        }
    }
};

// Of two words, their low halves or their high ones.
template <bool high>
__device__ __forceinline__ u32 joined_halves(u32 low_word, u32 high_word) {
    return __byte_perm(low_word, high_word, high ? 0x7632 : 0x5410);
}

// A part of a row's answer: weights relative to a peak, and what they weigh. Sum and weighted values of a warp, of a block's keys
// or of several blocks'.
struct RowState {
    f32 peak[2];                 // of scores times slope; rows lane / 4 and that + 8
    f32 sum[2];                  // of this thread's keys
    f32 values[pieces_v][8][4];  // [64 columns][mma tile]: column 16t + 8 (i % 2) + tile of row i / 2 * 8 + lane / 4
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

// begin, end: the keys that the thread's two rows see, from the tile's first key on.
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
    if (__any_sync(0xffffffffU, factor[0] != 1.0F || factor[1] != 1.0F) != 0) {
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

// ---- parts, where warps and blocks meet ----

constexpr int part_columns = dv + 4;  // in shared memory: neighbouring rows begin in other banks

struct Part {
    f32 values[rows][part_columns];
    f32 peak[rows], sum[rows];
};
struct Meeting {
    Part parts[warps];
    f32 factor[warps][rows];  // of a warp's part in the block's
    f32 peak[rows], sum[rows];
    int is_last;
};

// A part in memory: values, then peaks, then sums.
constexpr int stored_part = rows * (dv + 2);

__device__ __forceinline__ void store_part(Part& part, const RowState& state, int lane) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int row = lane / 4 + half * 8;
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
        const f32 sum = sum_of_row(state.sum[half]);
        if (lane % 4 == 0) {
            part.peak[row] = state.peak[half];
            part.sum[row] = sum;
        }
    }
}

// Where the rows of a block's head lie in the output.
struct Output {
    Element* o;
    f32* lse;  // may be null
    i64 o_head, o_row;
    int first_row, row_count;  // pairs of a query and a head
    int group, q_len;

    __device__ __forceinline__ void store(int row, int column, float4 values, f32 inverse) const {
        const int pair = first_row + row;
        if (pair >= row_count) return;
        Element* const to = o + pair % group * o_head + static_cast<i64>(pair / group) * o_row + column;
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
        const int pair = first_row + row;
        if (lse == nullptr || pair >= row_count) return;
        lse[static_cast<i64>(pair % group) * q_len + pair / group] = attention::log_sum_exp(peak, sum, attention::ln_2);
    }
};

// Joins the warps' parts: to the output, or to memory if the keys are split further.
__device__ __forceinline__ void join_warps(Meeting& meeting, const Output& output, f32* stored) {
    if (threadIdx.x < rows) {
        const int row = threadIdx.x;
        f32 peak = attention::minus_infinity();
#pragma unroll
        for (int warp = 0; warp < warps; ++warp) peak = fmaxf(peak, meeting.parts[warp].peak[row]);
        const f32 origin = origin_of(peak);
        f32 sum = 0;
#pragma unroll
        for (int warp = 0; warp < warps; ++warp) {
            const f32 factor = attention::exp2_approx(meeting.parts[warp].peak[row] - origin);
            meeting.factor[warp][row] = factor;
            sum = __fmaf_rn(meeting.parts[warp].sum[row], factor, sum);
        }
        meeting.peak[row] = peak;
        meeting.sum[row] = sum;
        if (stored == nullptr) {
            output.store_lse(row, peak, sum);
        } else {
            stored[rows * dv + row] = peak;
            stored[rows * dv + rows + row] = sum;
        }
    }
    __syncthreads();
    const int count = min(rows, output.row_count - output.first_row);
    for (int at = threadIdx.x; at < count * dv / 4; at += threads) {
        const int row = at / (dv / 4), column = at % (dv / 4) * 4;
        float4 total = make_float4(0, 0, 0, 0);
#pragma unroll
        for (int warp = 0; warp < warps; ++warp) {
            const float4 values = *reinterpret_cast<const float4*>(meeting.parts[warp].values[row] + column);
            const f32 factor = meeting.factor[warp][row];
            total.x = __fmaf_rn(values.x, factor, total.x);
            total.y = __fmaf_rn(values.y, factor, total.y);
            total.z = __fmaf_rn(values.z, factor, total.z);
            total.w = __fmaf_rn(values.w, factor, total.w);
        }
        if (stored == nullptr) {
            output.store(row, column, total, attention::inverse_of(meeting.sum[row]));
        } else {
            *reinterpret_cast<float4*>(stored + row * dv + column) = total;
        }
    }
}

// How the parts of all blocks that split the keys are joined: the factor of each part's rows, in shared memory.
struct Joining {
    f32 peak[rows], sum[rows];
};

// Joins the stored parts, in their order. Other SMs wrote them: they are read past L1. Loads do not wait for each other, or the
// many ways to the L2 would take longer than the keys do.
__device__ __forceinline__ void join_blocks(unsigned char* memory, const f32* stored, int splits, const Output& output) {
    Joining& joining = *reinterpret_cast<Joining*>(memory);
    f32* const factors = reinterpret_cast<f32*>(memory + sizeof(Joining));  // peaks first
    f32* const sums = factors + splits * rows;
    const int count = min(rows, output.row_count - output.first_row);
    for (int at = threadIdx.x; at < splits * rows; at += blockDim.x) {
        const f32* const facts = stored + static_cast<i64>(at / rows) * stored_part + rows * dv;
        factors[at] = __ldcg(facts + at % rows);
        sums[at] = __ldcg(facts + rows + at % rows);
    }
    __syncthreads();
    if (threadIdx.x < rows) {
        f32 peak = attention::minus_infinity();
        for (int split = 0; split < splits; ++split) peak = fmaxf(peak, factors[split * rows + threadIdx.x]);
        const f32 origin = origin_of(peak);
        f32 sum = 0;
        for (int split = 0; split < splits; ++split) {
            f32& factor = factors[split * rows + threadIdx.x];
            factor = attention::exp2_approx(factor - origin);
            sum = __fmaf_rn(sums[split * rows + threadIdx.x], factor, sum);
        }
        joining.peak[threadIdx.x] = peak;
        joining.sum[threadIdx.x] = sum;
    }
    __syncthreads();
    for (int at = threadIdx.x; at < count * dv / 4; at += blockDim.x) {
        const int row = at / (dv / 4), column = at % (dv / 4) * 4;
        const f32* const from = stored + row * dv + column;
        float4 total = make_float4(0, 0, 0, 0);
#pragma unroll 8
        for (int split = 0; split < splits; ++split) {
            const float4 values = __ldcg(reinterpret_cast<const float4*>(from + static_cast<i64>(split) * stored_part));
            const f32 factor = factors[split * rows + row];
            total.x = __fmaf_rn(values.x, factor, total.x);
            total.y = __fmaf_rn(values.y, factor, total.y);
            total.z = __fmaf_rn(values.z, factor, total.z);
            total.w = __fmaf_rn(values.w, factor, total.w);
        }
        output.store(row, column, total, attention::inverse_of(joining.sum[row]));
        if (column == 0) output.store_lse(row, joining.peak[row], joining.sum[row]);
    }
}

// Blocks of one head and band of rows are neighbours: splits innermost.
struct BlockPlace {
    int split, band, b, kv_head;
    i64 line;  // number of the head and band
};

__device__ __forceinline__ BlockPlace block_place(u32 block, int splits, int bands, int kv_heads) {
    const u32 line = block / splits;
    const u32 head = line / bands;
    return {static_cast<int>(block % splits), static_cast<int>(line % bands), static_cast<int>(head / kv_heads),
            static_cast<int>(head % kv_heads), static_cast<i64>(line)};
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
    const BlockPlace place = block_place(blockIdx.x, splits, bands, q_heads / group);
    const Output output = output_of(call, place);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const f32 slope = scale * attention::log2_e;
    const auto mask = call.mask<has_low, has_high>();
    dependent_launch::let_next_grid_start();
    dependent_launch::wait_for_earlier_grids();

    Words queries[pieces_d][2];
    int row_begin[2], row_end[2];  // keys
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int pair = min(output.first_row + lane / 4 + half * 8, output.row_count - 1);
        const int row = pair / group;
        const Element* const from = q + call.q_strides.of_head(place.b, place.kv_head * group + pair % group) +
                                    static_cast<i64>(row) * q_row + lane % 4 * 8;
#pragma unroll
        for (int piece = 0; piece < pieces_d; ++piece) load_words(queries[piece][half], from + piece * 32);
        row_begin[half] = mask.first_key(row);
        row_end[half] = mask.end_key(row);
    }
    // Tiles of the block's rows, of this split, of this warp.
    const int first_row = output.first_row / group;
    const int last_row = (min(output.first_row + rows, output.row_count) - 1) / group;
    const int begin = mask.first_tile(first_row, tile_keys), end = mask.end_tile(last_row, tile_keys);
    const int begin_full = mask.first_full_tile(last_row, tile_keys), end_full = mask.end_full_tile(first_row, tile_keys);
    const int share = (max(end - begin, 0) + splits - 1) / splits;
    const int split_end = min(begin + (place.split + 1) * share, end);
    int tile = begin + place.split * share + warp;

    RowState state;
#pragma unroll
    for (int piece = 0; piece < pieces_v; ++piece)
#pragma unroll
        for (int n = 0; n < 8; ++n)
#pragma unroll
            for (int i = 0; i < 4; ++i) state.values[piece][n][i] = 0;
    state.peak[0] = state.peak[1] = attention::minus_infinity();
    state.sum[0] = state.sum[1] = 0;

    const Element* const key_rows = k + call.k_strides.of_head(place.b, place.kv_head);
    const Element* const value_rows = v + call.v_strides.of_head(place.b, place.kv_head);
    Keys keys;
    Values values;
    if (tile < split_end) {
        keys.load(key_rows, k_row, tile * tile_keys, kv_len - 1, lane);
        values.load(value_rows, v_row, tile * tile_keys, kv_len - 1, lane);
    }
    for (; tile < split_end; tile += warps) {
        // The last turn reads its own tile again: nothing that is not there, and no branch around the loads.
        const int next = (tile + warps < split_end ? tile + warps : tile) * tile_keys;
        f32 scores[2 * key_steps][4];
        multiply_keys(scores, queries, keys);
        keys.load(key_rows, k_row, next, kv_len - 1, lane);
        if (tile < begin_full || tile >= end_full) {
            const int first = tile * tile_keys;
            const int from[2] = {row_begin[0] - first, row_begin[1] - first};
            const int to[2] = {row_end[0] - first, row_end[1] - first};
            apply_mask(scores, from, to, lane);
        }
        u32 weights[key_steps][4];
        weigh(scores, state, weights, slope);
        multiply_values(state, weights, values);
        values.load(value_rows, v_row, next, kv_len - 1, lane);
    }
    store_part(meeting.parts[warp], state, lane);
    __syncthreads();
    if (splits == 1) {
        join_warps(meeting, output, nullptr);
        return;
    }
    f32* const of_line = stored + place.line * splits * stored_part;
    join_warps(meeting, output, of_line + static_cast<i64>(place.split) * stored_part);
    if constexpr (second_kernel) return;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        meeting.is_last = atomicAdd(counters + place.line, 1U) == static_cast<u32>(splits) - 1;
        if (meeting.is_last != 0) counters[place.line] = 0;
    }
    __syncthreads();
    if (meeting.is_last == 0) return;
    __threadfence();
    __syncthreads();  // every thread has read is_last, which lies where the parts are joined
    join_blocks(memory, of_line, splits, output);
}

extern "C" __global__ void AUTOTUNE_ENTRY(_join)(ATTENTION_PARAMETERS, int splits, int bands, u32*, f32* stored) {
    const attention::Call<Element> call = ATTENTION_CALL;
    const BlockPlace place = block_place(blockIdx.x * splits, splits, bands, q_heads / group);
    dependent_launch::let_next_grid_start();
    dependent_launch::wait_for_earlier_grids();
    extern __shared__ __align__(16) unsigned char memory[];
    join_blocks(memory, stored + place.line * splits * stored_part, splits, output_of(call, place));
}
