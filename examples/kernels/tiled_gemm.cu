// C = A B for row-major floats: blocks of BM x BN, BK columns of A at a time, TM x TN results a thread. The tile sizes are template
// arguments of the device function; the kernel names the instance that is tuned.
#ifndef AUTOTUNE
#define BM 64
#define BN 64
#define BK 16
#define TM 4
#define TN 4
#define PAD 1
#endif

template <int bm, int bn, int bk, int tm, int tn, int pad>
__device__ __forceinline__ void multiply(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m,
                                         int n, int k) {
    constexpr int threads_x = bn / tn, threads = threads_x * (bm / tm);
    __shared__ float a_tile[bk][bm + pad];
    __shared__ float b_tile[bk][bn];
    const int thread = threadIdx.x;
    const int first_row = blockIdx.y * bm, first_col = blockIdx.x * bn;
    const int row = thread / threads_x * tm, col = thread % threads_x;
    float sums[tm][tn] = {};
    for (int first = 0; first < k; first += bk) {
        for (int i = thread; i < bm * bk; i += threads) {
            const int r = first_row + i / bk, t = first + i % bk;
            a_tile[i % bk][i / bk] = r < m && t < k ? a[static_cast<long long>(r) * k + t] : 0.0F;
        }
        for (int i = thread; i < bk * bn; i += threads) {
            const int t = first + i / bn, s = first_col + i % bn;
            b_tile[i / bn][i % bn] = t < k && s < n ? b[static_cast<long long>(t) * n + s] : 0.0F;
        }
        __syncthreads();
#pragma unroll
        for (int t = 0; t < bk; ++t) {
            float of_a[tm], of_b[tn];
#pragma unroll
            for (int i = 0; i < tm; ++i) of_a[i] = a_tile[t][row + i];
#pragma unroll
            for (int j = 0; j < tn; ++j) of_b[j] = b_tile[t][col + j * threads_x];
#pragma unroll
            for (int i = 0; i < tm; ++i) {
#pragma unroll
                for (int j = 0; j < tn; ++j) sums[i][j] += of_a[i] * of_b[j];
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < tm; ++i) {
#pragma unroll
        for (int j = 0; j < tn; ++j) {
            const int r = first_row + row + i, s = first_col + col + j * threads_x;
            if (r < m && s < n) c[static_cast<long long>(r) * n + s] = sums[i][j];
        }
    }
}

extern "C" __global__ void __launch_bounds__((BM / TM) * (BN / TN))
    tiled_gemm(const float* a, const float* b, float* c, int m, int n, int k) {
    multiply<BM, BN, BK, TM, TN, PAD>(a, b, c, m, n, k);
}

// The right answer: one thread a result, in double.
extern "C" __global__ void gemm_reference(const double* a, const double* b, double* c, int m, int n, int k) {
    const int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= m || col >= n) return;
    double sum = 0;
    for (int t = 0; t < k; ++t) sum += a[static_cast<long long>(row) * k + t] * b[static_cast<long long>(t) * n + col];
    c[static_cast<long long>(row) * n + col] = sum;
}
