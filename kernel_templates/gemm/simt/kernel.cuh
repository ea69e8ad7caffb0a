// C = alpha A B + beta C on CUDA cores. smem = 0: one element a thread, straight from global memory. smem = 1: tiles of A and B
// go through shared memory, and a thread keeps thread_m x thread_n sums in registers.
#include "common/types.cuh"
// clang-format off
#define AUTOTUNE_KERNEL ${symbol}
using In = ${in_type};
using Out = ${out_type};
using Acc = ${acc_type};
constexpr bool trans_a = ${trans_a};
constexpr bool trans_b = ${trans_b};
constexpr int align_a = ${align_a};
constexpr int align_b = ${align_b};
constexpr int align_c = ${align_c};
constexpr bool smem = ${smem};
constexpr int block_m = ${block_m};
constexpr int block_n = ${block_n};
constexpr int block_k = ${block_k};
constexpr int thread_m = ${thread_m};
constexpr int thread_n = ${thread_n};
constexpr int vec = ${vec};
constexpr int smem_pad = ${smem_pad};
// clang-format on
// ---- end of parameters ----

namespace {

constexpr int threads_n = block_n / thread_n;
constexpr int threads = block_m / thread_m * threads_n;
static_assert(block_m % thread_m == 0 && block_n % thread_n == 0, "thread tiles fill the block tile");
static_assert(threads >= 32 && threads <= 1024 && threads % 32 == 0, "whole warps, at most 1024 threads");
static_assert(smem || (thread_m == 1 && thread_n == 1), "without shared memory a thread computes one element");
static_assert(block_k % vec == 0 && block_m % vec == 0 && block_n % vec == 0 && smem_pad % 8 == 0, "accesses stay aligned");

// Elements of one access: as many as asked, as far as the operand's alignment goes.
constexpr int width_a = smaller(vec, align_a / static_cast<int>(sizeof(In)));
constexpr int width_b = smaller(vec, align_b / static_cast<int>(sizeof(In)));
constexpr int width_c = smaller(smaller(vec, thread_n), align_c / static_cast<int>(sizeof(Out)));

struct Shape {
    i64 m, n, k;
    i64 lda, ldb, ldc;
    f32 alpha, beta;
};

// Where an operand's tile comes from: lines are rows of A or columns of B.
struct Source {
    const In* data;
    i64 ld;
    i64 first_line;
    i64 lines;
    i64 k;
};

// The first `valid` of `width` elements, the others zero.
template <int width>
__device__ __forceinline__ Pack<In, width> fetch(const In* from, int valid) {
    if (valid >= width) return load_pack<In, width>(from);
    Pack<In, width> pack;
#pragma unroll
    for (int i = 0; i < width; ++i) pack.at[i] = i < valid ? from[i] : zero_of<In>();
    return pack;
}

template <int lines>
using Tile = In[block_k][lines + smem_pad];

// How many of the next elements exist, as far as a tile is concerned.
__device__ __forceinline__ int clipped(i64 left) { return static_cast<int>(smaller<i64>(left, 1024)); }

// Fills tile[k][line] for k0 <= k < k0 + block_k. The contiguous direction of the operand is k, or the lines.
template <bool k_is_contiguous, int width, int lines>
__device__ __forceinline__ void fill_tile(Tile<lines>& tile, const Source& from, i64 k0) {
    constexpr int run = k_is_contiguous ? block_k : lines;
    constexpr int chunks = block_k * lines / width;
    const int k_left = clipped(from.k - k0);
    const int lines_left = clipped(from.lines - from.first_line);
    const In* const first = k_is_contiguous ? from.data + from.first_line * from.ld + k0 : from.data + k0 * from.ld + from.first_line;
#pragma unroll 2
    for (int i = threadIdx.x; i < chunks; i += threads) {
        const int across = i / (run / width);
        const int along = i % (run / width) * width;
        const int valid = across < (k_is_contiguous ? lines_left : k_left) ? (k_is_contiguous ? k_left : lines_left) - along : 0;
        const Pack<In, width> pack = fetch<width>(first + across * from.ld + along, valid);
        if constexpr (k_is_contiguous) {
#pragma unroll
            for (int j = 0; j < width; ++j) tile[along + j][across] = pack.at[j];
        } else {
            store_pack<In, width>(&tile[across][along], pack);
        }
    }
}

struct Sums {
    Acc at[thread_m][thread_n];
};

__device__ int thread_row() {
    return static_cast<int>(threadIdx.x) / threads_n * thread_m;
}
__device__ int thread_col() {
    return static_cast<int>(threadIdx.x) % threads_n * thread_n;
}

__device__ __forceinline__ void sum_tiled(Sums& sums, const Source& a, const Source& b) {
    __shared__ __align__(16) Tile<block_m> a_tile;
    __shared__ __align__(16) Tile<block_n> b_tile;
    for (i64 k0 = 0; k0 < a.k; k0 += block_k) {
        fill_tile<!trans_a, width_a, block_m>(a_tile, a, k0);
        fill_tile<trans_b, width_b, block_n>(b_tile, b, k0);
        __syncthreads();
#pragma unroll 4
        for (int k = 0; k < block_k; ++k) {
            const Pack<In, thread_m> left = load_pack<In, thread_m>(&a_tile[k][thread_row()]);
            const Pack<In, thread_n> right = load_pack<In, thread_n>(&b_tile[k][thread_col()]);
#pragma unroll
            for (int i = 0; i < thread_m; ++i) {
#pragma unroll
                for (int j = 0; j < thread_n; ++j) sums.at[i][j] = multiply_add(left.at[i], right.at[j], sums.at[i][j]);
            }
        }
        __syncthreads();
    }
}

__device__ __forceinline__ void sum_direct(Sums& sums, const Source& a, const Source& b) {
    const i64 row = a.first_line + thread_row();
    const i64 col = b.first_line + thread_col();
    if (row >= a.lines || col >= b.lines) return;
    const In* left = a.data + (trans_a ? row : row * a.ld);
    const In* right = b.data + (trans_b ? col * b.ld : col);
    const i64 step_a = trans_a ? a.ld : 1;
    const i64 step_b = trans_b ? 1 : b.ld;
    for (i64 k = 0; k < a.k; ++k) sums.at[0][0] = multiply_add(left[k * step_a], right[k * step_b], sums.at[0][0]);
}

// One run of width_c elements of a row, of which `valid` exist. C is not read where beta is 0.
__device__ __forceinline__ void store_run(const Acc* sums, Out* c, const Shape& shape, int valid) {
    if (valid <= 0) return;
    const bool is_whole = valid >= width_c;
    Pack<Out, width_c> old;
    if (shape.beta != 0.0F && is_whole) old = load_pack<Out, width_c>(c);
    Pack<Out, width_c> pack;
#pragma unroll
    for (int j = 0; j < width_c; ++j) {
        f32 value = shape.alpha * to_f32(sums[j]);
        if (shape.beta != 0.0F) {
            if (!is_whole && j < valid) old.at[j] = c[j];
            value += shape.beta * to_f32(old.at[j]);
        }
        pack.at[j] = from_f32<Out>(value);
        if (!is_whole && j < valid) c[j] = pack.at[j];
    }
    if (is_whole) store_pack<Out, width_c>(c, pack);
}

__device__ __forceinline__ void store(const Sums& sums, Out* c, const Shape& shape, i64 tile_row, i64 tile_col) {
    const int rows = clipped(shape.m - tile_row) - thread_row();
    const int cols = clipped(shape.n - tile_col) - thread_col();
    Out* const first = c + (tile_row + thread_row()) * shape.ldc + tile_col + thread_col();
#pragma unroll
    for (int i = 0; i < thread_m; ++i) {
        if (i >= rows) return;
#pragma unroll
        for (int j = 0; j < thread_n; j += width_c) store_run(&sums.at[i][j], first + i * shape.ldc + j, shape, cols - j);
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(threads)
    AUTOTUNE_ENTRY()(const In* a, const In* b, Out* c, float alpha, float beta, int m, int n, int k, i64 lda, i64 ldb, i64 ldc,
                     int batch, i64 stride_a, i64 stride_b, i64 stride_c, void*) {
    const Shape shape = {m, n, k, lda, ldb, ldc, alpha, beta};
    const i64 tiles_n = (shape.n + block_n - 1) / block_n;
    const i64 tiles = (shape.m + block_m - 1) / block_m * tiles_n;
    for (i64 at = blockIdx.x; at < tiles * batch; at += gridDim.x) {
        const i64 which = at / tiles;
        const i64 row = at % tiles / tiles_n * block_m;
        const i64 col = at % tiles_n * block_n;
        Sums sums;
#pragma unroll
        for (int i = 0; i < thread_m * thread_n; ++i) sums.at[i / thread_n][i % thread_n] = zero_of<Acc>();
        const Source left = {a + which * stride_a, lda, row, shape.m, shape.k};
        const Source right = {b + which * stride_b, ldb, col, shape.n, shape.k};
        if constexpr (smem) {
            sum_tiled(sums, left, right);
        } else {
            sum_direct(sums, left, right);
        }
        store(sums, c + which * stride_c, shape, row, col);
    }
}
