// y = A x, A sparse in CSR: the entries of row r are row_start[r] .. row_start[r + 1] - 1 of column[] and value[]. `lanes`
// neighbouring threads share a row.
#ifndef AUTOTUNE
#define threads 128
#define lanes 8
#define unroll 2
#define streams_matrix 1
#endif

constexpr int rows_of_block = threads / lanes;

// Reads the matrix once. With streams_matrix it leaves the caches to x.
template <class T>
__device__ __forceinline__ T load_of_matrix(const T* from) {
#if streams_matrix
    return __ldcs(from);
#else
    return *from;
#endif
}

extern "C" __global__ void __launch_bounds__(threads)
    spmv(const int* __restrict__ row_start, const int* __restrict__ column, const float* __restrict__ value,
         const float* __restrict__ x, float* __restrict__ y, int rows) {
    const int lane = threadIdx.x % lanes;
    for (int first = blockIdx.x * rows_of_block; first < rows; first += gridDim.x * rows_of_block) {
        const int row = first + threadIdx.x / lanes;
        float sums[unroll] = {};
        if (row < rows) {
            const int end = row_start[row + 1];
            int at = row_start[row] + lane;
            for (; at + (unroll - 1) * lanes < end; at += unroll * lanes) {
                int columns[unroll];
                float values[unroll];
#pragma unroll
                for (int i = 0; i < unroll; ++i) {
                    columns[i] = load_of_matrix(column + at + i * lanes);
                    values[i] = load_of_matrix(value + at + i * lanes);
                }
#pragma unroll
                for (int i = 0; i < unroll; ++i) sums[i] += values[i] * __ldg(x + columns[i]);
            }
            for (; at < end; at += lanes) sums[0] += load_of_matrix(value + at) * __ldg(x + load_of_matrix(column + at));
        }
        float sum = 0;
#pragma unroll
        for (int i = 0; i < unroll; ++i) sum += sums[i];
#pragma unroll
        for (int step = lanes / 2; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffU, sum, step, lanes);
        if (lane == 0 && row < rows) y[row] = sum;
    }
}

// The right answer: one thread a row, in double. Integers stay integers.
extern "C" __global__ void spmv_reference(const int* row_start, const int* column, const double* value, const double* x,
                                          double* y, int rows) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    double sum = 0;
    for (int at = row_start[row]; at < row_start[row + 1]; ++at) sum += value[at] * x[column[at]];
    y[row] = sum;
}
