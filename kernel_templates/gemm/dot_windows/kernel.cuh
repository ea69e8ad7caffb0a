// C = alpha A B + beta C where C has few rows or few columns and rows of the large operand do not begin at multiples of 16 bytes:
// dot products on CUDA cores. X is the operand with more lines (rows of A or, with swap_ab, columns of B), Y the other. X is read
// in windows: eight elements that begin at a multiple of 16 bytes, wherever a row begins. The first window of a row begins `shift`
// elements before it. `lanes` threads share a line of X.
// - k contiguous in X: a window is eight k of a line. A thread's lines lie eight apart, so that they have one shift and one read of
//   Y serves them all. Elements outside of whole windows are read one by one.
// - lines contiguous in X: a window is eight lines at one k. A thread's k lie a multiple of eight apart, so that they have one
//   shift. A block stores the lines of all its windows but eight, which belong to the next block.
#include "common/types.cuh"
// clang-format off
#define AUTOTUNE_KERNEL ${symbol}
using In = ${in_type};
using Out = ${out_type};
constexpr bool trans_a = ${trans_a};
constexpr bool trans_b = ${trans_b};
constexpr int reads_c = ${reads_c};    // 0: beta is known to be 0; reading C is compiled out
constexpr bool swap_ab = ${swap_ab};   // X is B
constexpr int threads = ${threads};
constexpr int lanes = ${lanes};        // threads that share a line of X
constexpr int rows = ${rows};          // lines of X of a thread, k contiguous
constexpr int columns = ${columns};    // lines of Y
constexpr int unroll = ${unroll};      // windows of each line in flight at once
constexpr int cluster_k = ${cluster_k};  // blocks of a cluster that share K, as if their lanes were in one block
// clang-format on
// ---- end of parameters ----
#include "common/cluster.cuh"
#include "common/dependent_launch.cuh"

namespace {

constexpr bool x_along_k = swap_ab ? trans_b : !trans_a;
constexpr bool y_along_k = swap_ab ? !trans_a : trans_b;
constexpr int window = 8;                // elements
// Groups of lanes: if k is contiguous, each has a line at a time; otherwise each has a window of a line of k.
constexpr int groups = threads / lanes;
constexpr int all_lanes = lanes * cluster_k;
using Window = Pack<In, window>;

static_assert(sizeof(In) == 2);
static_assert(threads % lanes == 0 && threads % 32 == 0 && lanes % window == 0);
static_assert(x_along_k ? rows * columns <= lanes : rows == 1 && window * columns <= lanes && groups > 1,
              "a thread stores one element at most");

// X and Y of one product of the batch.
struct Operands {
    const In *x, *y;
    i64 ldx, ldy;
    int lines, k;
    int first_column, last_column;  // columns of Y. A later column repeats the last one's reads and is not stored

    __device__ __forceinline__ const In* line_of_y(int c) const {
        return y + min(first_column + c, last_column) * (y_along_k ? ldy : 1);
    }
    __device__ __forceinline__ In element_of_y(int c, int at_k) const {
        return line_of_y(c)[at_k * (y_along_k ? i64{1} : ldy)];
    }
};

// Elements between the last multiple of 16 bytes and the address.
__device__ __forceinline__ int shift_of(const In* at) {
    return static_cast<int>(reinterpret_cast<u64>(at) / sizeof(In)) & (window - 1);
}

// Keeps the loads before this call in place. Otherwise the compiler moves each load after the condition of its product, where
// each is waited for separately.
__device__ __forceinline__ void loaded(Window& x) {
    asm volatile("" : "+r"(x.raw.x), "+r"(x.raw.y), "+r"(x.raw.z), "+r"(x.raw.w));
}
__device__ __forceinline__ void loaded(In& y) {
    asm volatile("" : "+h"(y.bits));
}

// Zeroes the window unless `mask` is all ones. A branch would also make loads wait for each other.
__device__ __forceinline__ void keep(Window& x, u32 mask) {
    x.raw.x &= mask, x.raw.y &= mask, x.raw.z &= mask, x.raw.w &= mask;
}
__device__ __forceinline__ void keep(In& y, u32 mask) {
    y.bits &= static_cast<u16>(mask);
}

// The element of C that a thread stores, if it stores one.
struct Element {
    int line, column;  // line of X, column of Y
    bool exists;
};

// ---- k contiguous in X ----

namespace along_k {

constexpr int in_warp = smaller(lanes, 32);  // lanes whose sums are added by shuffles
constexpr int apart = lanes / in_warp;       // sums that are then added in shared memory

using Sums = f32[rows][columns];

// Groups whose indices are equal modulo eight have lines with the same shift.
__device__ __forceinline__ int line_of(int group, int row) {
    return group / window * (window * rows) + group % window + window * row;
}

__device__ __forceinline__ void add(Sums& sums, const Operands& from, int first_line, int lane) {
    const In* line[rows];
#pragma unroll
    for (int r = 0; r < rows; ++r) {  // threads without a line compute the first one and store nothing
        const int at = first_line + window * r;
        line[r] = from.x + (at < from.lines ? at : first_line) * from.ldx;
    }
    const int shift = shift_of(line[0]);
    const int begin = shift == 0 ? 0 : 1, end = (from.k + shift) / window;  // windows that lie entirely within the line
    // Loads a whole round without conditions, so that all loads are issued before the first product. After the end, the last
    // window is loaded again.
#pragma unroll 1
    for (int first = begin + lane; first < end; first += all_lanes * unroll) {
        Window x[unroll][rows];
        In y[unroll][columns][window];
#pragma unroll
        for (int u = 0; u < unroll; ++u) {
            const int at = min(first + u * all_lanes, end - 1) * window - shift;
#pragma unroll
            for (int r = 0; r < rows; ++r) x[u][r] = load_pack<In, window>(line[r] + at);
#pragma unroll
            for (int c = 0; c < columns; ++c) {
#pragma unroll
                for (int e = 0; e < window; ++e) y[u][c][e] = from.element_of_y(c, at + e);
            }
        }
#pragma unroll
        for (int u = 0; u < unroll; ++u) {
#pragma unroll
            for (int r = 0; r < rows; ++r) loaded(x[u][r]);
#pragma unroll
            for (int i = 0; i < columns * window; ++i) loaded(y[u][i / window][i % window]);
        }
#pragma unroll
        for (int u = 0; u < unroll; ++u) {
            const u32 mask = first + u * all_lanes < end ? ~0U : 0U;
#pragma unroll
            for (int r = 0; r < rows; ++r) keep(x[u][r], mask);
#pragma unroll
            for (int c = 0; c < columns; ++c) {
#pragma unroll
                for (int e = 0; e < window; ++e) {
                    keep(y[u][c][e], mask);
#pragma unroll
                    for (int r = 0; r < rows; ++r) sums[r][c] += to_f32(x[u][r].at[e]) * to_f32(y[u][c][e]);
                }
            }
        }
    }
    // At most seven elements before the first whole window and after the last.
    const int head = min(begin * window - shift, from.k), tail = max(end * window - shift, head);
#pragma unroll 1
    for (int i = lane; i < 2 * window; i += all_lanes) {
        const int at = i < window ? i : tail + i - window;
        if (at >= (i < window ? head : from.k)) continue;
#pragma unroll
        for (int c = 0; c < columns; ++c) {
            const f32 y = to_f32(from.element_of_y(c, at));
#pragma unroll
            for (int r = 0; r < rows; ++r) sums[r][c] += to_f32(line[r][at]) * y;
        }
    }
}

// Sum number `own` of group `own_group`, from the sums of this thread's group.
__device__ __forceinline__ f32 add_up(Sums& sums, int group, int lane, int own, int own_group) {
    f32 picked = 0.0F;
#pragma unroll
    for (int r = 0; r < rows; ++r) {
#pragma unroll
        for (int c = 0; c < columns; ++c) {
#pragma unroll
            for (int distance = 1; distance < in_warp; distance *= 2)
                sums[r][c] += __shfl_xor_sync(0xffffffffu, sums[r][c], distance);
            if (r * columns + c == own) picked = sums[r][c];
        }
    }
    if constexpr (apart > 1) {
        __shared__ f32 left[apart][rows * columns][groups];
        if (lane % in_warp == 0) {
#pragma unroll
            for (int i = 0; i < rows * columns; ++i) left[lane / in_warp][i][group] = sums[i / columns][i % columns];
        }
        __syncthreads();
        picked = 0.0F;
        if (own < rows * columns) {
#pragma unroll 8
            for (int i = 0; i < apart; ++i) picked += left[i][own][own_group];
        }
    }
    return picked;
}

}  // namespace along_k

// ---- lines contiguous in X ----

namespace along_lines {

constexpr int owned = window * (groups - 1);  // lines whose elements a block stores
// Neighbouring threads that together add the sums of an element.
constexpr int helpers = smaller(window, lanes / (window * columns));

using Sums = f32[window][columns];

// A window; `before` is the index of its first element, counted from the block's first line.
__device__ __forceinline__ void add(Sums& sums, const Operands& from, int first_line, int group, int lane) {
    const In* const row = from.x + first_line + lane * from.ldx;
    const int shift = shift_of(row), begins = window * group - shift;  // windows begin this far from the block's first line
    const int count = lane < from.k ? (from.k - 1 - lane) / all_lanes + 1 : 0;
    // With eight lines or more, only windows of the first and the last k can extend beyond X.
    const bool all_alone = from.lines < window;
    const bool is_used = first_line + begins < from.lines && begins < owned;
    const bool sticks_out = first_line + begins < 0 || first_line + begins + window > from.lines;
    const bool first_alone = sticks_out && lane == 0, last_alone = sticks_out && (count - 1) * all_lanes + lane == from.k - 1;
    const int begin = first_alone ? 1 : 0, end = !is_used || all_alone ? 0 : last_alone ? count - 1 : count;
    const auto read_y = [&](In(&y)[columns], int at_k) {
#pragma unroll
        for (int c = 0; c < columns; ++c) y[c] = from.element_of_y(c, at_k);
    };
    const auto multiply = [&](const Window& x, const In(&y)[columns]) {
#pragma unroll
        for (int c = 0; c < columns; ++c) {
#pragma unroll
            for (int e = 0; e < window; ++e) sums[e][c] += to_f32(x.at[e]) * to_f32(y[c]);
        }
    };
    // Reads the window element by element, for windows that extend beyond X.
    const auto alone = [&](int at_k) {
        Window x;
        In y[columns];
        read_y(y, at_k);
#pragma unroll
        for (int e = 0; e < window; ++e) {
            const int line = first_line + begins + e;
            const bool exists = line >= 0 && line < from.lines;
            x.at[e] = exists ? from.x[line + at_k * from.ldx] : from_f32<In>(0.0F);
        }
        multiply(x, y);
    };
    if (all_alone) {
#pragma unroll 1
        for (int at_k = lane; is_used && at_k < from.k; at_k += all_lanes) alone(at_k);
        return;
    }
    // The windows are added in the order of k, wherever X begins.
    if (is_used && first_alone && count > 0) alone(0);
#pragma unroll 1
    for (int first = begin; first < end; first += unroll) {
        Window x[unroll];
        In y[unroll][columns];
#pragma unroll
        for (int u = 0; u < unroll; ++u) {
            const int at = min(first + u, end - 1) * all_lanes;
            x[u] = load_pack<In, window>(row + begins + at * from.ldx);
            read_y(y[u], lane + at);
        }
#pragma unroll
        for (int u = 0; u < unroll; ++u) {
            loaded(x[u]);
#pragma unroll
            for (int c = 0; c < columns; ++c) loaded(y[u][c]);
        }
#pragma unroll
        for (int u = 0; u < unroll; ++u) {
            if (first + u < end) multiply(x[u], y[u]);
        }
    }
    if (is_used && last_alone && count > begin) alone(from.k - 1);
}

// Adds the share of helper number `helper` of the sums of element (line, column) of the block, then adds all shares.
__device__ __forceinline__ f32 add_up(const Sums& sums, int shift, int group, int lane, int line, int column, int helper) {
    // The window is the last index, so that neighbouring windows are in neighbouring words. Threads of a warp with the same shift
    // read the same position of their windows.
    __shared__ f32 left[lanes][columns][window][groups + 1];
#pragma unroll
    for (int e = 0; e < window; ++e) {
        const int at = window * group - shift + e;
        if (at < 0 || at >= owned) continue;
#pragma unroll
        for (int c = 0; c < columns; ++c) left[lane][c][at & (window - 1)][at / window] = sums[e][c];
    }
    __syncthreads();
    f32 sum = 0.0F;
    if (column < columns) {
#pragma unroll 8
        for (int i = helper; i < lanes; i += helpers) sum += left[i][column][line % window][line / window];
    }
#pragma unroll
    for (int distance = 1; distance < helpers; distance *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    return sum;
}

}  // namespace along_lines

// Adds the corresponding sums of all blocks of the cluster, in the first block.
__device__ __forceinline__ f32 add_blocks(f32 sum) {
    __shared__ f32 of_block[threads];
    of_block[threadIdx.x] = sum;
    cluster::sync();
    if (cluster::rank() == 0) {
        sum = 0.0F;
#pragma unroll
        for (int rank = 0; rank < cluster_k; ++rank) {
            f32 part = 0.0F;
#if __CUDA_ARCH__ >= 900
            asm volatile("{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %1, %2;\nld.shared::cluster.f32 %0, [remote];\n}"
                         : "=f"(part)
                         : "r"(ptx::shared_address(of_block + threadIdx.x)), "r"(rank)
                         : "memory");
#endif
            sum += part;
        }
    }
    cluster::sync();  // a block must not leave while the first reads its sums
    return sum;
}

}  // namespace

// Requests one block per SM. Otherwise the compiler saves registers until only two loads run at a time.
extern "C" __global__ void __launch_bounds__(threads, 1)
    AUTOTUNE_ENTRY()(const In* a, const In* b, Out* c, float alpha, float beta, int m, int n, int k, i64 lda, i64 ldb, i64 ldc,
                     int batch, i64 stride_a, i64 stride_b, i64 stride_c) {
    dependent_launch::let_next_grid_start();
    const int t = static_cast<int>(threadIdx.x), block = static_cast<int>(blockIdx.x) / cluster_k;
    const int rank = static_cast<int>(blockIdx.x) % cluster_k;
    const i64 slice = blockIdx.z;
    const Operands from = {(swap_ab ? b : a) + slice * (swap_ab ? stride_b : stride_a),
                           (swap_ab ? a : b) + slice * (swap_ab ? stride_a : stride_b),
                           swap_ab ? ldb : lda,
                           swap_ab ? lda : ldb,
                           swap_ab ? n : m,
                           k,
                           static_cast<int>(blockIdx.y) * columns,
                           (swap_ab ? m : n) - 1};
    // Finds its element of C, and reads the old value, before the first load of X.
    Element own;
    int group = 0, lane = 0, element = 0, helper = 0;
    if constexpr (x_along_k) {
        group = t / lanes, lane = t % lanes;
        element = along_k::apart > 1 ? t / groups : lane;
        const int of_group = along_k::apart > 1 ? t % groups : group;
        own = {along_k::line_of(block * groups + of_group, element / columns), element % columns, element < rows * columns};
    } else {
        group = t % groups, lane = t / groups;
        helper = t % along_lines::helpers, element = t / along_lines::helpers;
        own = {block * along_lines::owned + element % along_lines::owned, element / along_lines::owned,
               helper == 0 && element < along_lines::owned * columns};
    }
    own.exists = own.exists && rank == 0 && own.line < from.lines && from.first_column + own.column <= from.last_column;
    const int row = swap_ab ? from.first_column + own.column : own.line, col = swap_ab ? own.line : from.first_column + own.column;
    Out* const to = c + slice * stride_c + row * ldc + col;

    dependent_launch::wait_for_earlier_grids();
    f32 before = 0.0F;
    if (reads_c && beta != 0.0F && own.exists) before = to_f32(*to);
    f32 sum = 0.0F;
    if constexpr (x_along_k) {
        along_k::Sums sums = {};
        const int first_line = along_k::line_of(block * groups + group, 0);
        if (first_line < from.lines) along_k::add(sums, from, first_line, rank * lanes + lane);
        sum = along_k::add_up(sums, group, lane, element, t % groups);
    } else {
        along_lines::Sums sums = {};
        const int first_line = block * along_lines::owned;
        along_lines::add(sums, from, first_line, group, rank * lanes + lane);
        const int shift = shift_of(from.x + first_line + lane * from.ldx);
        sum = along_lines::add_up(sums, shift, group, lane, element % along_lines::owned, element / along_lines::owned, helper);
    }
    if constexpr (cluster_k > 1) sum = add_blocks(sum);
    const f32 value = alpha * sum;
    if (own.exists) *to = from_f32<Out>(reads_c && beta != 0.0F ? value + beta * before : value);
}
