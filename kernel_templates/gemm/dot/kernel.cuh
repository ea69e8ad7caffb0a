// C = alpha A B + beta C where C has few rows or few columns and the product is small: dot products on CUDA cores with as few
// instructions as possible. Each instruction runs only a few times, so fetching instructions takes longer than memory accesses. X
// is the operand
// with more lines (rows of A or, with swap_ab, columns of B), Y the other. `lanes` threads share a line of X, each every lanes-th
// access of it.
// - k contiguous in X: an access is as many k as the alignment of its rows allows, lanes are neighbours.
// - lines contiguous in X: an access is one element, neighbours take neighbouring lines.
#include "common/types.cuh"
// clang-format off
#define AUTOTUNE_KERNEL ${symbol}
using In = ${in_type};
using Out = ${out_type};
constexpr bool trans_a = ${trans_a};
constexpr bool trans_b = ${trans_b};
constexpr int align_a = ${align_a};    // bytes
constexpr int align_b = ${align_b};
constexpr int reads_c = ${reads_c};    // 0: beta is known to be 0; reading C is compiled out
constexpr bool swap_ab = ${swap_ab};   // X is B
constexpr int threads = ${threads};
constexpr int lanes = ${lanes};        // threads that share a line of X
constexpr int columns = ${columns};    // lines of Y, and sums per thread
constexpr int unroll = ${unroll};      // accesses of X in flight at once
// clang-format on
// ---- end of parameters ----
#include "common/dependent_launch.cuh"

namespace {

constexpr bool x_along_k = swap_ab ? trans_b : !trans_a;
constexpr bool y_along_k = swap_ab ? !trans_a : trans_b;
constexpr int align_x = swap_ab ? align_b : align_a;
constexpr int align_y = swap_ab ? align_a : align_b;
constexpr int width = x_along_k ? align_x / 2 : 1;                    // k per access of X
constexpr int width_y = y_along_k ? smaller(width, align_y / 2) : 1;  // the same for Y
constexpr int block_lines = threads / lanes;
constexpr int in_warp = x_along_k ? smaller(lanes, 32) : 1;  // lanes whose sums are added by shuffles
constexpr int apart = lanes / in_warp;                       // sums that are then added in shared memory

static_assert(sizeof(In) == 2);
static_assert(threads % lanes == 0 && threads % 32 == 0 && columns <= lanes, "a thread stores one element at most");
static_assert(x_along_k || block_lines % 8 == 0, "a warp reads runs of neighbouring lines");

// Addresses from which a thread reads its line of X and the block's lines of Y.
struct Source {
    const In *x, *y;
    i64 x_step, y_step;  // the distance from one k to the next
    i64 column_step;     // the distance from one line of Y to the next
    int last_column;     // last existing column; later ones read this column, and their sums are not stored

    __device__ __forceinline__ i64 column(int c) const { return min(c, last_column) * column_step; }
};

// Reads `elements` k at `piece` of an access.
template <int elements, int piece>
__device__ __forceinline__ void read(In (&to)[elements], const In* from, i64 step) {
#pragma unroll
    for (int e = 0; e < elements; e += piece) {
        const Pack<In, piece> pack = load_pack<In, piece>(from + e * step);
#pragma unroll
        for (int i = 0; i < piece; ++i) to[e + i] = pack.at[i];
    }
}

// Adds this thread's accesses, of `count` in the line. All loads of a round come before its first product. Addresses advance by
// addition: computing them anew by multiplication would be half of all instructions.
__device__ __forceinline__ void sum_accesses(f32 (&sums)[columns], const Source& from, int lane, int count) {
    const In* at_x = from.x + lane * width * from.x_step;
    const In* at_y = from.y + lane * width * from.y_step;
    const i64 next_x = lanes * width * from.x_step, next_y = lanes * width * from.y_step;
#pragma unroll 1
    for (int first = lane; first < count; first += lanes * unroll) {
        In x[unroll][width], y[unroll][columns][width];
#pragma unroll
        for (int u = 0; u < unroll; ++u) {
            if (first + u * lanes < count) {
                read<width, width>(x[u], at_x, from.x_step);
#pragma unroll
                for (int c = 0; c < columns; ++c) read<width, width_y>(y[u][c], at_y + from.column(c), from.y_step);
            }
            at_x += next_x;
            at_y += next_y;
        }
#pragma unroll
        for (int u = 0; u < unroll; ++u) {
            if (first + u * lanes >= count) continue;
#pragma unroll
            for (int c = 0; c < columns; ++c) {
#pragma unroll
                for (int e = 0; e < width; ++e) sums[c] += to_f32(x[u][e]) * to_f32(y[u][c][e]);
            }
        }
    }
}

// The k after the last whole access, one by one.
__device__ __forceinline__ void sum_rest(f32 (&sums)[columns], const Source& from, int k, int end) {
#pragma unroll 1
    for (; k < end; k += lanes) {
        const f32 factor = to_f32(from.x[k * from.x_step]);
#pragma unroll
        for (int c = 0; c < columns; ++c) sums[c] += factor * to_f32(from.y[from.column(c) + k * from.y_step]);
    }
}

// The sum of column `c`, selected so that the array stays in registers.
__device__ __forceinline__ f32 pick(const f32 (&sums)[columns], int c) {
    f32 value = sums[0];
#pragma unroll
    for (int i = 1; i < columns; ++i) value = c == i ? sums[i] : value;
    return value;
}

// The element of the block's share of C that a thread stores, if any.
struct Element {
    int line, column;
    bool exists;
};

// The sum of the thread's own element over all threads that share its line.
__device__ __forceinline__ f32 add_up(f32 (&sums)[columns], const Element& own, int line, int lane) {
#pragma unroll
    for (int c = 0; c < columns; ++c) {
#pragma unroll
        for (int distance = 1; distance < in_warp; distance *= 2) sums[c] += __shfl_xor_sync(0xffffffffu, sums[c], distance);
    }
    if constexpr (apart == 1) {
        return pick(sums, own.column);
    } else {
        __shared__ f32 left[apart][columns][block_lines];
        if (lane % in_warp == 0) {
#pragma unroll
            for (int c = 0; c < columns; ++c) left[lane / in_warp][c][line] = sums[c];
        }
        __syncthreads();
        f32 sum = 0.0F;
        if (own.exists) {
#pragma unroll 8
            for (int i = 0; i < apart; ++i) sum += left[i][own.column][own.line];
        }
        return sum;
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(threads)
    AUTOTUNE_ENTRY()(const In* a, const In* b, Out* c, float alpha, float beta, int m, int n, int k, i64 lda, i64 ldb, i64 ldc,
                     int batch, i64 stride_a, i64 stride_b, i64 stride_c) {
    dependent_launch::let_next_grid_start();
    const int t = static_cast<int>(threadIdx.x), lines = swap_ab ? n : m, most_columns = swap_ab ? m : n;
    const int first_line = static_cast<int>(blockIdx.x) * block_lines, first_column = static_cast<int>(blockIdx.y) * columns;
    const int lane = x_along_k ? t % lanes : t / block_lines, line = x_along_k ? t / lanes : t % block_lines;
    const int line_x = min(first_line + line, lines - 1);  // threads without a line compute the last one and store nothing
    const i64 ldx = swap_ab ? ldb : lda, ldy = swap_ab ? lda : ldb, slice = blockIdx.z;
    const In* const x = (swap_ab ? b : a) + slice * (swap_ab ? stride_b : stride_a);
    const In* const y = (swap_ab ? a : b) + slice * (swap_ab ? stride_a : stride_b);
    const Source from = {x + (x_along_k ? line_x * ldx : line_x),
                         y + (y_along_k ? first_column * ldy : first_column),
                         x_along_k ? 1 : ldx,
                         y_along_k ? 1 : ldy,
                         y_along_k ? ldy : 1,
                         most_columns - 1 - first_column};

    Element own = {line, lane, lane < columns};
    if constexpr (apart > 1) own = {t % block_lines, t / block_lines, t < block_lines * columns};
    own.exists = own.exists && first_line + own.line < lines && own.column <= from.last_column;
    const int row = swap_ab ? first_column + own.column : first_line + own.line;
    const int col = swap_ab ? first_line + own.line : first_column + own.column;
    Out* const to = c + slice * stride_c + row * ldc + col;

    dependent_launch::wait_for_earlier_grids();
    f32 before = 0.0F;
    if (reads_c && beta != 0.0F && own.exists) before = to_f32(*to);
    f32 sums[columns] = {};
    sum_accesses(sums, from, lane, k / width);
    if constexpr (width > 1) sum_rest(sums, from, k / width * width + lane, k);
    const f32 value = alpha * add_up(sums, own, line, lane);
    if (own.exists) *to = from_f32<Out>(reads_c && beta != 0.0F ? value + beta * before : value);
}
