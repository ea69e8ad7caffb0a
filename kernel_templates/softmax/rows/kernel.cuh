// Softmax of rows that are shared by threads: part of a warp, a warp, a block or a cluster of blocks for each row. The first
// `register_chunks` accesses of each thread stay in registers, so a row that fits is read once. The rest of a longer row is read again to
// be written. A row's length is a whole number of accesses.
#include "common/dependent_launch.cuh"
#include "common/global_access.cuh"
#include "common/types.cuh"
#include "softmax/device/exchange.cuh"
#include "softmax/device/softmax.cuh"
// clang-format off
#define AUTOTUNE_KERNEL ${symbol}
using Element = ${element_type};
constexpr int align_x = ${align_x};
constexpr int align_y = ${align_y};
constexpr bool negative = ${negative};
constexpr bool has_lse = ${has_lse};
constexpr int threads = ${threads};
constexpr int threads_per_row = ${threads_per_row};
constexpr int rows_per_thread = ${rows_per_thread};
constexpr int cluster_blocks = ${cluster_blocks};
constexpr int access_bytes = ${access_bytes};
constexpr int register_chunks = ${register_chunks};
constexpr int unroll = ${unroll};
constexpr bool online = ${online};
constexpr bool hold_weights = ${hold_weights};
constexpr bool warp_max_first = ${warp_max_first};
constexpr int resident_blocks = ${resident_blocks};
constexpr int load_hint = ${load_hint};
constexpr int store_hint = ${store_hint};
constexpr int waves = ${waves};
// clang-format on
// ---- end of parameters ----

namespace {

using softmax::Part;

constexpr int element_bytes = static_cast<int>(sizeof(Element));
constexpr int vec = access_bytes / element_bytes;  // elements of an access
constexpr int store_bytes = smaller(access_bytes, align_y);
constexpr int groups = threads / threads_per_row;  // groups of threads, each of which shares a row
constexpr int rows_per_block = groups * rows_per_thread;
constexpr int lanes = smaller(threads_per_row, 32);  // lanes of a warp that share a row
static_assert(access_bytes <= align_x, "an access is as narrow as the rows' alignment");
static_assert(threads % threads_per_row == 0, "every row has all its threads");
static_assert(cluster_blocks == 1 || groups == 1, "blocks share a row with all their threads");
static_assert(register_chunks > 0 || !hold_weights, "weights are held in place of elements");

// A row of x and its division among threads: access i of a thread begins at (i * sharers + place) * vec.
struct Row {
    const Element* x;
    Element* y;
    int cols;
    int place;  // this thread's number among all threads of the row, in all blocks
    f32 slope;

    static constexpr int sharers = threads_per_row * cluster_blocks;
    __device__ __forceinline__ int at(int access) const { return (access * sharers + place) * vec; }
};

struct Access {
    Pack<Element, vec> elements;

    // Positions beyond the end of the row have weight 0. A row beyond the last has only such positions.
    __device__ __forceinline__ void load(const Row& row, int at) {
        if (at < row.cols) {
            global::Load<load_hint>::run(elements.raw, row.x + at);
            return;
        }
#pragma unroll
        for (int i = 0; i < vec; ++i) elements.at[i] = softmax::nothing<Element, negative>();
    }
    __device__ __forceinline__ f32 value(int i) const {
        return softmax::value_of<negative>(elements.at[i]);
    }
};

__device__ __forceinline__ f32 peak_of(const Access& access, f32 peak) {
#pragma unroll
    for (int i = 0; i < vec; ++i) peak = fmaxf(peak, access.value(i));
    return peak;
}

__device__ __forceinline__ f32 sum_of(const Access& access, f32 origin, f32 slope) {
    f32 sum = 0;
#pragma unroll
    for (int i = 0; i < vec; ++i) sum += softmax::weight(access.value(i), origin, slope);
    return sum;
}

// `weights` times `factor`.
__device__ __forceinline__ void store(const Row& row, int at, const f32 (&weights)[vec], f32 factor) {
    Pack<Element, vec> answer;
#pragma unroll
    for (int i = 0; i < vec; ++i) answer.at[i] = from_f32<Element>(weights[i] * factor);
    constexpr int step = store_bytes / element_bytes;
#pragma unroll
    for (int i = 0; i < vec; i += step) {
        Pack<Element, step> part;
#pragma unroll
        for (int j = 0; j < step; ++j) part.at[j] = answer.at[i + j];
        global::Store<store_hint>::run(row.y + at + i, part.raw);
    }
}

// A thread's part of a row in registers: elements, or weights relative to the thread's own peak or to the common peak of the
// row's lanes in its warp.
template <bool agreed>
struct Held {
    static constexpr bool is_whole_row = agreed && threads_per_row <= 32 && cluster_blocks == 1;

    Access accesses[register_chunks > 0 ? register_chunks : 1];
    f32 weights[hold_weights ? register_chunks : 1][vec];
    f32 peak = softmax::minus_infinity();

    __device__ __forceinline__ void load(const Row& row) {
#pragma unroll
        for (int i = 0; i < register_chunks; ++i) accesses[i].load(row, row.at(i));
    }
    __device__ __forceinline__ Part part(f32 slope) {
        Part mine;
#pragma unroll
        for (int i = 0; i < register_chunks; ++i) mine.peak = peak_of(accesses[i], mine.peak);
        if constexpr (agreed) mine.peak = softmax::peak_of_lanes<lanes>(mine.peak);
        peak = mine.peak;
        const f32 origin = softmax::origin_of(peak);
#pragma unroll
        for (int i = 0; i < register_chunks; ++i) {
            if constexpr (hold_weights) {
#pragma unroll
                for (int j = 0; j < vec; ++j) {
                    weights[i][j] = softmax::weight(accesses[i].value(j), origin, slope);
                    mine.sum += weights[i][j];
                }
            } else {
                mine.sum += sum_of(accesses[i], origin, slope);
            }
        }
        if constexpr (agreed) mine.sum = softmax::sum_of_lanes<lanes>(mine.sum);
        return mine;
    }
    __device__ __forceinline__ void store_all(const Row& row, f32 row_origin, f32 inverse) {
        // The factor is 0 if the row has no peak, because its weights are then zeros or NaN.
        const f32 factor = hold_weights && !is_whole_row ? softmax::weight(peak, row_origin, row.slope) * inverse : inverse;
#pragma unroll
        for (int i = 0; i < register_chunks; ++i) {
            const int at = row.at(i);
            if (at >= row.cols) break;
            if constexpr (hold_weights) {
                store(row, at, weights[i], factor);
            } else {
                f32 fresh[vec];
#pragma unroll
                for (int j = 0; j < vec; ++j) fresh[j] = softmax::weight(accesses[i].value(j), row_origin, row.slope);
                store(row, at, fresh, factor);
            }
        }
    }
};

// ---- the part that does not fit into registers is read `unroll` accesses at a time ----

struct Batch {
    Access accesses[unroll];
};

template <class Body>
__device__ __forceinline__ void for_rest(const Row& row, const Body& body) {
    for (int first = register_chunks; row.at(first) < row.cols; first += unroll) {
        Batch batch;
#pragma unroll
        for (int i = 0; i < unroll; ++i) batch.accesses[i].load(row, row.at(first + i));
        body(batch.accesses, first);
    }
}

__device__ __forceinline__ Part part_of_rest(const Row& row, Part mine) {
    if constexpr (online) {
        for_rest(row, [&](const Access* batch, int) {
            Part part;
#pragma unroll
            for (int i = 0; i < unroll; ++i) part.peak = peak_of(batch[i], part.peak);
            const f32 origin = softmax::origin_of(part.peak);
#pragma unroll
            for (int i = 0; i < unroll; ++i) part.sum += sum_of(batch[i], origin, row.slope);
            mine = softmax::join(mine, part, row.slope);
        });
        return mine;
    } else {
        Part rest;
        for_rest(row, [&](const Access* batch, int) {
#pragma unroll
            for (int i = 0; i < unroll; ++i) rest.peak = peak_of(batch[i], rest.peak);
        });
        const f32 origin = softmax::origin_of(rest.peak);
        for_rest(row, [&](const Access* batch, int) {
#pragma unroll
            for (int i = 0; i < unroll; ++i) rest.sum += sum_of(batch[i], origin, row.slope);
        });
        return softmax::join(mine, rest, row.slope);
    }
}

__device__ __forceinline__ void store_rest(const Row& row, f32 origin, f32 inverse) {
    for_rest(row, [&](const Access* batch, int first) {
#pragma unroll
        for (int i = 0; i < unroll; ++i) {
            const int at = row.at(first + i);
            if (at >= row.cols) break;
            f32 fresh[vec];
#pragma unroll
            for (int j = 0; j < vec; ++j) fresh[j] = softmax::weight(batch[i].value(j), origin, row.slope);
            store(row, at, fresh, inverse);
        }
    });
}

// The kernel's arguments.
struct Rows {
    const Element* x;
    Element* y;
    f32* lse;  // null without has_lse
    i64 rows, cols, ldx, ldy;
    f32 magnitude;  // magnitude of the scale
};

template <bool fits>
__device__ __forceinline__ void run(const Rows& all) {
    constexpr f32 log2e = 1.44269504088896341F;
    const f32 slope = all.magnitude * log2e;
    const u32 rank = cluster_blocks > 1 ? cluster::rank() : 0;
    const int place = static_cast<int>(rank) * threads_per_row + threadIdx.x % threads_per_row;
    const int group = threadIdx.x / threads_per_row;
    const i64 stride = static_cast<i64>(gridDim.x / cluster_blocks) * rows_per_block;
    constexpr bool agreed = warp_max_first && fits;
    __shared__ softmax::Exchange<rows_per_thread, groups, threads_per_row, cluster_blocks, agreed> exchange;
    // waits until all blocks have begun, because the shared memory of other blocks must not be written before
    if constexpr (cluster_blocks > 1) cluster::sync();
    dependent_launch::let_next_grid_start();
    dependent_launch::wait_for_earlier_grids();
    int turn = 0;
    for (i64 first = static_cast<i64>(blockIdx.x / cluster_blocks) * rows_per_block; first < all.rows;
         first += stride, turn ^= 1) {
        Row row[rows_per_thread];
        Held<agreed> mine[rows_per_thread];
        Part part[rows_per_thread];
#pragma unroll
        for (int r = 0; r < rows_per_thread; ++r) {
            const i64 index = first + r * groups + group;
            row[r] = {all.x + index * all.ldx, all.y + index * all.ldy, index < all.rows ? static_cast<int>(all.cols) : 0, place,
                      slope};
            mine[r].load(row[r]);
        }
#pragma unroll
        for (int r = 0; r < rows_per_thread; ++r) {
            part[r] = mine[r].part(slope);
            if constexpr (!fits) part[r] = part_of_rest(row[r], part[r]);
        }
        exchange.join(part, slope, turn);
#pragma unroll
        for (int r = 0; r < rows_per_thread; ++r) {
            const f32 origin = softmax::origin_of(part[r].peak);
            const f32 inverse = softmax::inverse_of(part[r].sum);
            mine[r].store_all(row[r], origin, inverse);
            if constexpr (!fits) store_rest(row[r], origin, inverse);
            if (has_lse && place == 0 && row[r].cols > 0)
                all.lse[first + r * groups + group] = softmax::log_sum_exp(part[r], all.magnitude);
        }
        if constexpr (waves == 0) break;  // a block for each tile
    }
}

}  // namespace

// x and y are rows of `cols` elements, ldx and ldy apart; lse, if given, has one element per row. There are two kernels, because
// the code for rows that do not fit into registers would make short launches a third slower even if unused.
extern "C" __global__ void __launch_bounds__(threads, resident_blocks)
    AUTOTUNE_ENTRY()(const Element* x, Element* y, f32* lse, i64 rows, i64 cols, i64 ldx, i64 ldy, f32 magnitude) {
    run<true>({x, y, lse, rows, cols, ldx, ldy, magnitude});
}

extern "C" __global__ void __launch_bounds__(threads, resident_blocks)
    AUTOTUNE_ENTRY(_long)(const Element* x, Element* y, f32* lse, i64 rows, i64 cols, i64 ldx, i64 ldy, f32 magnitude) {
    run<false>({x, y, lse, rows, cols, ldx, ldy, magnitude});
}
