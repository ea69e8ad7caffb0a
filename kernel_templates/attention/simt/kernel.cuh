// Attention in f32 on CUDA cores, with strict products and sums. A block keeps block_q queries in shared memory and goes through
// the keys in tiles; threads_x threads share a row. Keys are loaded in parts of a few columns, values in parts of a few rows, one
// after the other into the same slots. Both products add outer products of a column and a row, so that one load yields four rows
// or four columns of a step. For this, queries, keys and weights are transposed in shared memory. Weights go through shared
// memory from the threads that computed them to those that have the columns of the output.
// clang-format off
#define AUTOTUNE_KERNEL ${symbol}
#define ATTENTION_PACKED ${packed}
#include "attention/device/call.cuh"
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
// 0: every tile is visited; 1: tiles that no query sees are skipped; 2: and only partial ones are masked
constexpr int masking = ${masking};
constexpr int unroll = ${unroll};        // steps of a part
constexpr int part = ${part};            // columns of keys, and rows of values, that are loaded together, at most
constexpr int stages = ${stages};        // slots of parts
constexpr bool rows_inside = ${rows_inside};  // an outer product's inner loop goes over rows, not columns
constexpr int resident_blocks = ${resident_blocks};
// clang-format on
// ---- end of parameters ----
#include "attention/device/attention_order.cuh"
#include "attention/device/simt_parts.cuh"

namespace {

constexpr int block_q = threads_y * thread_q;
constexpr int block_k = threads_x * thread_k;
constexpr int runs = (dv + threads_x * vec - 1) / (threads_x * vec);  // runs of four columns that a thread holds
constexpr int columns = runs * vec;
constexpr int group_q = thread_q < vec ? thread_q : vec;  // adjacent rows of a thread
constexpr int group_k = thread_k < vec ? thread_k : vec;  // adjacent keys of a thread

constexpr int part_d = d % part == 0 ? part : d % 32 == 0 ? 32 : d % 16 == 0 ? 16 : 8;
constexpr int part_k = block_k < part ? block_k : part;
constexpr int parts_d = d / part_d, parts_k = block_k / part_k;
static_assert(d % part_d == 0 && block_k % part_k == 0 && part_k % vec == 0, "parts are whole steps of four");

// Columns of queries and keys have eight unused elements, which put 4 columns of 8 rows into 32 different banks.
constexpr int ld_q = block_q + 8;
constexpr int ld_k = block_k + 8;
constexpr int ld_v = columns * threads_x;
constexpr int ld_p = block_q + 4;
constexpr int slot_elements = part_d * ld_k > part_k * ld_v ? part_d * ld_k : part_k * ld_v;

struct Shared {
    f32 *q, *p, *slots;

    __device__ __forceinline__ explicit Shared(f32* memory) : q(memory), p(q + d * ld_q), slots(p + block_k * ld_p) {}
};

// Rows and keys of a thread, in groups of adjacent ones.
__device__ __forceinline__ int own_row(const Place& place, int i) {
    return (i / group_q * threads_y + place.y) * group_q + i % group_q;
}
__device__ __forceinline__ int own_key(const Place& place, int j) {
    return (j / group_k * threads_x + place.x) * group_k + j % group_k;
}

// Copies rows to columns of shared memory; those from `count` on become zeros. A warp takes eight rows of four elements at a
// time.
template <int rows, int row_columns, int ld>
__device__ __forceinline__ void copy_transposed(f32* to, const Element* from, i64 row_elements, int count) {
    constexpr int warps = threads / 32, tiles_y = (rows + 7) / 8, tiles_x = row_columns / 4;
    constexpr int warps_y = tiles_y < warps ? tiles_y : warps, warps_x = warps / warps_y;
    static_assert(tiles_y % warps_y == 0 && warps % warps_y == 0, "warps share the tiles out evenly");
    const int warp = threadIdx.x / 32, warp_x = warp / warps_y;
    const int first_row = warp % warps_y * 8 + threadIdx.x % 8, column = warp_x * 4 + threadIdx.x % 32 / 8;
#pragma unroll
    for (int y = 0; y < tiles_y; y += warps_y) {
        const int row = first_row + y * 8;
        if (rows % 8 != 0 && row >= rows) break;
        const bool exists = row < count;
        const Element* const source = from + row * row_elements + column;
        f32* const target = to + column * ld + row;
#pragma unroll
        for (int x = 0; x < tiles_x; x += warps_x) {
            if (tiles_x % warps_x != 0 && x + warp_x >= tiles_x) break;
            if constexpr (is_same<Element, f32>)
                ptx::cp_async<4>(ptx::shared_address(target) + x * 16 * ld, source + x * 4, exists ? 4 : 0);
            else
                target[x * 4 * ld] = exists ? to_f32(source[x * 4]) : 0.0F;
        }
    }
}

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
    f32 peak[thread_q];  // largest score times slope
    f32 sum[thread_q];   // the sum over this thread's keys
};

// Turns scores into weights in shared memory, and rescales the sums of earlier tiles to the new peaks.
__device__ __forceinline__ void weigh(f32 (&scores)[thread_q][thread_k], f32 (&sums)[thread_q][columns], RowState& state,
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
            scores[i][j] = attention::exp2_approx(__fmaf_rn(scores[i][j], slope, -origin));
            sum += scores[i][j];
        }
        state.sum[i] = __fmaf_rn(state.sum[i], factor, sum);
#pragma unroll
        for (int c = 0; c < columns; ++c) sums[i][c] *= factor;
    }
#pragma unroll
    for (int j = 0; j < thread_k; ++j)
#pragma unroll
        for (int i = 0; i < thread_q; i += group_q) {
            Pack<f32, group_q> weights;
#pragma unroll
            for (int row = 0; row < group_q; ++row) weights.at[row] = scores[i + row][j];
            store_pack(shared.p + own_key(place, j) * ld_p + own_row(place, i), weights);
        }
}

// Adds one product to each of a thread's sums in serpentine order. Each multiplication shares an operand with the one before it,
// because the register file delivers two operands per clock (docs/results/attention.md).
template <int width>
__device__ __forceinline__ void multiply_add(f32 (&sums)[thread_q][width], const f32 (&left)[thread_q], const f32 (&right)[width]) {
    constexpr int outer = rows_inside ? width : thread_q, inner = rows_inside ? thread_q : width;
#pragma unroll
    for (int x = 0; x < outer; ++x)
#pragma unroll
        for (int step = 0; step < inner; ++step) {
            const int y = x % 2 == 0 ? step : inner - 1 - step;
            const int i = rows_inside ? y : x, j = rows_inside ? x : y;
            sums[i][j] = __fmaf_rn(left[i], right[j], sums[i][j]);
        }
}

// Loads `count` elements in groups of `group`, `group_step` apart.
template <int count, int group, int group_step>
__device__ __forceinline__ void load_groups(f32 (&to)[count], const f32* from) {
#pragma unroll
    for (int i = 0; i < count; i += group) {
        const Pack<f32, group> pack = load_pack<f32, group>(from + i / group * group_step);
#pragma unroll
        for (int j = 0; j < group; ++j) to[i + j] = pack.at[j];
    }
}

// Adds the products of `steps` columns, ld_left apart, and rows, ld_right apart, of shared memory.
template <int steps, int ld_left, int ld_right, int group_right, int width>
__device__ __forceinline__ void add_products(f32 (&sums)[thread_q][width], const f32* left, const f32* right, const Place& place) {
    left += place.y * group_q;
    right += place.x * group_right;
#pragma unroll unroll
    for (int step = 0; step < steps; ++step) {
        f32 rows[thread_q], others[width];
        load_groups<thread_q, group_q, threads_y * group_q>(rows, left + step * ld_left);
        load_groups<width, group_right, threads_x * group_right>(others, right + step * ld_right);
        multiply_add(sums, rows, others);
    }
}

template <class Masks>
__device__ __forceinline__ void apply_mask(f32 (&scores)[thread_q][thread_k], const Masks& mask, int first_row, int first_key,
                                           const Place& place) {
#pragma unroll
    for (int i = 0; i < thread_q; ++i) {
        const int row = first_row + own_row(place, i);
        const int begin = mask.first_key(row) - first_key, end = mask.end_key(row) - first_key;
#pragma unroll
        for (int j = 0; j < thread_k; ++j) {
            const int key = own_key(place, j);
            const bool is_seen = (!has_low || key >= begin) && key < end;
            if (!is_seen) scores[i][j] = attention::minus_infinity();
        }
    }
}

__device__ __forceinline__ void store_row(Element* to, const f32 (&sums)[columns], f32 inverse, const Place& place) {
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
            for (int j = 0; j < step; ++j) pack.at[j] = from_f32<Element>(sums[run * vec + i + j] * inverse);
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
    int next_tile = begin, next_part = 0, next_slot = 0;
    const auto fetch = [&] {  // fetches the next part of a tile, keys first
        if (next_tile < end) {
            f32* const to = shared.slots + next_slot * slot_elements;
            const i64 first_key = static_cast<i64>(next_tile) * block_k;
            const int left = call.kv_len - next_tile * block_k;
            if (next_part < parts_d) {
                copy_transposed<block_k, part_d, ld_k>(to, keys + first_key * k_row + next_part * part_d, k_row, left);
            } else {
                const int row = (next_part - parts_d) * part_k;
                copy_rows<part_k, dv, ld_v, align_v>(to, values + (first_key + row) * v_row, v_row, left - row);
            }
            next_slot = next_slot + 1 < stages ? next_slot + 1 : 0;
            next_part = next_part + 1 < parts_d + parts_k ? next_part + 1 : 0;
            if (next_part == 0) ++next_tile;
        }
        ptx::cp_async_commit();
    };
    copy_transposed<block_q, d, ld_q>(
        shared.q, call.q + call.q_strides.of_head(at.b, at.head) + static_cast<i64>(first_row) * q_row, q_row, call.q_len - first_row);
#pragma unroll
    for (int stage = 0; stage < stages - 1; ++stage) fetch();
    int slot = 0;
    const auto next_arrived = [&] {
        ptx::cp_async_wait<stages - 2>();
        __syncthreads();  // this part has arrived, and the part in the next slot to be filled has been read
        fetch();
        const f32* const arrived = shared.slots + slot * slot_elements;
        slot = slot + 1 < stages ? slot + 1 : 0;
        return arrived;
    };
    f32 sums[thread_q][columns];
    RowState state;
#pragma unroll
    for (int i = 0; i < thread_q; ++i) {
        state.peak[i] = attention::minus_infinity();
        state.sum[i] = 0;
#pragma unroll
        for (int c = 0; c < columns; ++c) sums[i][c] = 0;
    }
    for (int tile = begin; tile < end; ++tile) {
        f32 scores[thread_q][thread_k];
#pragma unroll
        for (int i = 0; i < thread_q; ++i)
#pragma unroll
            for (int j = 0; j < thread_k; ++j) scores[i][j] = 0;
#pragma unroll 1
        for (int i = 0; i < parts_d; ++i)
            add_products<part_d, ld_q, ld_k, group_k>(scores, shared.q + i * part_d * ld_q, next_arrived(), place);
        if (masking != 2 || tile < begin_full || tile >= end_full) apply_mask(scores, mask, first_row, tile * block_k, place);
        weigh(scores, sums, state, shared, place, slope);
#pragma unroll 1
        for (int i = 0; i < parts_k; ++i)
            add_products<part_k, ld_p, ld_v, vec>(sums, shared.p + i * part_k * ld_p, next_arrived(), place);
    }
    ptx::cp_async_wait<0>();
    Element* const to = call.o + call.o_strides.of_head(at.b, at.head);
    const i64 line = call.line_of_head(at.b, at.head);
#pragma unroll
    for (int i = 0; i < thread_q; ++i) {
        const f32 sum = sum_of_row(state.sum[i]);
        const int row = first_row + own_row(place, i);
        if (row >= call.q_len) continue;
        store_row(to + row * o_row, sums[i], attention::inverse_of(sum), place);
        if (lse != nullptr && place.x == 0) lse[line + row] = attention::log_sum_exp(state.peak[i], sum, attention::ln_2);
    }
}
