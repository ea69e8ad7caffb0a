// The reference of every gemm family, independent of them. It sums products in f64 and keeps two numbers for each sum, from which
// the allowed error follows: R, the root of the sum of squared products, and the largest partial sum.
#define AUTOTUNE_KERNEL ${symbol}
#include "common/types.cuh"
#include "common/fp8.cuh"
using A = ${a_type};
using B = ${b_type};
using Out = ${out_type};
constexpr bool trans_a = ${trans_a};
constexpr bool trans_b = ${trans_b};
constexpr int scale_mode = ${scale_mode};  // 0: no scales, 3: each scale of B is for 128 columns
using Bias = ${bias_type};
constexpr int saturation = ${saturation};  // the largest number of a C in fp8; 0: C has infinities
// ---- end of parameters ----

namespace {

// 128 threads of 8x4 compute 64x64 elements. With 32 f64 sums per thread the f64 units stay busy while three blocks share an SM.
constexpr int tile = 64;
constexpr int depth = 16;
constexpr int peak_every = 64;  // k between two checks of the partial sums; the last check sees the whole sum
constexpr int threads = 128;
constexpr int rows_per_thread = 8;
constexpr int row_stride = tile + 2;  // the two extra elements spread a column over the banks and keep 16-byte alignment

struct Tolerance {
    f64 norm, value, input, floor, partial;
};

struct Product {
    i64 rows, cols, k;
    i64 lda, ldb, ldc;
    f64 alpha, beta;
};

// Scales of an operand's elements: one for each line and run of 128 k.
struct Scale {
    const f32* data;  // scales of this batch
    i64 line, k;      // distances from one line, and from one run of 128 k, to the next
    int lines;        // lines that share a scale

    __device__ f64 at(i64 of_line, i64 of_k) const {
        if constexpr (scale_mode == 0) return 1.0;
        return static_cast<f64>(data[of_line / lines * line + of_k / 128 * k]);
    }
};

template <class In>
struct Operand {
    const In* data;
    i64 ld;
    i64 first;   // the first row of A or column of B
    i64 extent;  // the number of rows or columns
    Scale scale;
};

__shared__ __align__(16) f64 a_values[depth][row_stride];
__shared__ __align__(16) f64 b_values[depth][row_stride];
__shared__ __align__(16) f32 a_squares[depth][row_stride];
__shared__ __align__(16) f32 b_squares[depth][row_stride];

// Fills [depth][tile] from an operand that is contiguous along k or along its lines. Zero beyond the edges.
template <bool k_is_contiguous, class In>
__device__ void fetch(f64 (&values)[depth][row_stride], f32 (&squares)[depth][row_stride], const Operand<In>& from, i64 k0, i64 k_end) {
#pragma unroll 2
    for (int i = threadIdx.x; i < tile * depth; i += threads) {
        const int at_k = k_is_contiguous ? i % depth : i / tile;
        const int at = k_is_contiguous ? i / depth : i % tile;
        const i64 k = k0 + at_k;
        const i64 line = from.first + at;
        f64 value = 0.0;
        if (k < k_end && line < from.extent)
            value = to_f64(from.data[k_is_contiguous ? line * from.ld + k : k * from.ld + line]) * from.scale.at(line, k);
        values[at_k][at] = value;
        squares[at_k][at] = static_cast<f32>(value) * static_cast<f32>(value);
    }
}

// This thread has columns 2x, 2x + 1, 32 + 2x and 33 + 2x, so that 16 lanes read 256 contiguous bytes.
__device__ int column_of(int j) { return j / 2 * 32 + threadIdx.x % 16 * 2 + j % 2; }
__device__ int row_of(int i) { return threadIdx.x / 16 * rows_per_thread + i; }

struct Sums {
    f64 product[rows_per_thread][4];
    f32 squares[rows_per_thread][4];
    f32 peak[rows_per_thread][4];  // the largest partial sum in the order of k
};

__device__ __forceinline__ void note_peaks(Sums& sums) {
#pragma unroll
    for (int i = 0; i < rows_per_thread; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) sums.peak[i][j] = fmaxf(sums.peak[i][j], fabsf(static_cast<f32>(sums.product[i][j])));
    }
}

__device__ __forceinline__ void accumulate(Sums& sums) {
#pragma unroll 2
    for (int k = 0; k < depth; ++k) {
        f64 b[4];
        f32 b2[4];
        for (int j = 0; j < 4; ++j) {
            b[j] = b_values[k][column_of(j)];
            b2[j] = b_squares[k][column_of(j)];
        }
#pragma unroll
        for (int i = 0; i < rows_per_thread; ++i) {
            const f64 a = a_values[k][row_of(i)];
            const f32 a2 = a_squares[k][row_of(i)];
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                sums.product[i][j] = fma(a, b[j], sums.product[i][j]);
                sums.squares[i][j] = fmaf(a2, b2[j], sums.squares[i][j]);
            }
        }
    }
}

// Two units in the last place of f32 are harmless in a bound, and an exact f64 root made compiling ten times slower.
__device__ __forceinline__ f32 root_of(f32 x) {
    f32 root;
    asm("sqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(x));
    return root;
}

struct Results {
    const Out* c;   // read if beta is not 0
    f64* expected;  // the expected values of this batch
    f64* bound;
};

// The epilogue's tensors; any of the three may be missing.
struct Epilogue {
    const Bias* bias;
    const f32* scale;
    u64* largest;  // bits of the largest magnitude of C before its factor, and of its allowed error; f64 bits are ordered like the numbers

    __device__ f64 biased(f64 value, i64 col) const { return bias == nullptr ? value : value + to_f64(bias[col]); }
    __device__ f64 scaled(f64 value) const { return scale == nullptr ? value : value * static_cast<f64>(*scale); }
    __device__ void count(f64 value, f64 error) const {
        if (largest == nullptr) return;
        atomicMax(largest, static_cast<u64>(__double_as_longlong(value)) & 0x7FFFFFFFFFFFFFFFull);
        atomicMax(largest + 1, static_cast<u64>(__double_as_longlong(error)));
    }
};
__device__ f64 saturated(f64 value) {
    if (saturation == 0 || fabs(value) <= saturation || value != value) return value;
    return value > 0.0 ? saturation : -saturation;
}

__device__ void write_results(const Sums& sums, const Product& shape, const Results& to, const Epilogue& epilogue, const Tolerance& allowed,
                              i64 row0, i64 col0) {
    // One copy of the code for all elements, because 32 copies compile for 0.8 s longer. Arrays that such loops index live in
    // memory, so they work on copies. With scales more values live at once, and such loops would spill registers.
    constexpr int row_copies = scale_mode == 0 ? 1 : rows_per_thread, column_copies = scale_mode == 0 ? 1 : 4;
    f64 product[rows_per_thread][4];
    f32 squares[rows_per_thread][4], peak[rows_per_thread][4];
#pragma unroll
    for (int i = 0; i < rows_per_thread; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            product[i][j] = sums.product[i][j];
            squares[i][j] = sums.squares[i][j];
            peak[i][j] = sums.peak[i][j];
        }
    }
#pragma unroll row_copies
    for (int i = 0; i < rows_per_thread; ++i) {
#pragma unroll column_copies
        for (int j = 0; j < 4; ++j) {
            const i64 row = row0 + row_of(i);
            const i64 col = col0 + column_of(j);
            if (row >= shape.rows || col >= shape.cols) continue;
            const f64 added = shape.beta == 0.0 ? 0.0 : shape.beta * to_f64(to.c[row * shape.ldc + col]);
            const f64 value = epilogue.biased(shape.alpha * product[i][j] + added, col);
            const f64 error = allowed.norm * root_of(squares[i][j]) + allowed.partial * peak[i][j] + allowed.input * fabs(added);
            const f64 stored = saturated(epilogue.scaled(value));
            to.expected[row * shape.cols + col] = stored;
            to.bound[row * shape.cols + col] = epilogue.scaled(error) + allowed.value * fabs(stored) + allowed.floor;
            epilogue.count(value, error);
        }
    }
}

__device__ void compute_tile(const Operand<A>& a, const Operand<B>& b, const Product& shape, const Results& to, const Epilogue& epilogue,
                             const Tolerance& allowed) {
    Sums sums = {};
    for (i64 k0 = 0; k0 < shape.k; k0 += depth) {
        fetch<!trans_a>(a_values, a_squares, a, k0, shape.k);
        fetch<trans_b>(b_values, b_squares, b, k0, shape.k);
        __syncthreads();
        accumulate(sums);
        if ((k0 + depth) % peak_every == 0 || k0 + depth >= shape.k) note_peaks(sums);
        __syncthreads();
    }
    write_results(sums, shape, to, epilogue, allowed, a.first, b.first);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(threads, 3)
    AUTOTUNE_ENTRY()(const A* a, const B* b, const Out* c, f64* expected, f64* bound, float alpha, float beta, float norm, float value,
                     float input, float floor, float partial, int m, int n, int k, i64 lda, i64 ldb, i64 ldc, int batch, i64 stride_a, i64 stride_b,
                     i64 stride_c, const f32* scale_a, const f32* scale_b, i64 scale_a_batch, i64 scale_a_line, i64 scale_a_k, i64 scale_b_batch,
                     i64 scale_b_line, i64 scale_b_k, const Bias* bias, const f32* scale_d, u64* largest) {
    const Product shape = {m, n, k, lda, ldb, ldc, alpha, beta};
    const Tolerance allowed = {norm * fabsf(alpha), value, input, floor, partial * fabsf(alpha)};
    const i64 tiles_n = (shape.cols + tile - 1) / tile;
    const i64 tiles = (shape.rows + tile - 1) / tile * tiles_n;
    for (i64 at = blockIdx.x; at < tiles * batch; at += gridDim.x) {
        const i64 which = at / tiles;
        const i64 row = at % tiles / tiles_n * tile;
        const i64 col = at % tiles_n * tile;
        const i64 dense = which * shape.rows * shape.cols;
        const Scale of_a = {scale_a + which * scale_a_batch, scale_a_line, scale_a_k, 1};
        const Scale of_b = {scale_b + which * scale_b_batch, scale_b_line, scale_b_k, scale_mode == 3 ? 128 : 1};
        compute_tile({a + which * stride_a, lda, row, shape.rows, of_a}, {b + which * stride_b, ldb, col, shape.cols, of_b}, shape,
                     {c + which * stride_c, expected + dense, bound + dense}, {bias, scale_d, largest}, allowed);
    }
}

// Raises amax_d to the largest magnitude, with one thread. `slack`: infinite if this is the amax of a part of C.
extern "C" __global__ void AUTOTUNE_ENTRY(_amax)(const f32* amax_d, const u64* largest, f64* expected, f64* bound, float of_amax, float slack) {
    const f64 found = __longlong_as_double(static_cast<i64>(largest[0])), before = static_cast<f64>(*amax_d);
    const f64 value = found < before ? before : found;
    *expected = value;
    *bound = __longlong_as_double(static_cast<i64>(largest[1])) + of_amax * value + slack;
}
