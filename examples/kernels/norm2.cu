// The sum of the squares of n numbers. Each block adds up its share; then a second kernel adds the blocks' sums (finish 0), or the
// block that ends last does (finish 1).
#ifndef AUTOTUNE
#define threads 256
#define vec 4
#define unroll 4
#define finish 0
#endif

template <int width>
struct alignas(4 * width) Pack {
    float at[width];
};

__device__ __forceinline__ float warp_sum(float value) {
    for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(0xffffffffU, value, step);
    return value;
}

// Adds up the values of all threads of a block; thread 0 gets the sum.
__device__ __forceinline__ float block_sum(float value) {
    __shared__ float of_warps[32];
    value = warp_sum(value);
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
    __syncthreads();
    value = threadIdx.x < blockDim.x / 32 ? of_warps[threadIdx.x] : 0.0F;
    return threadIdx.x < 32 ? warp_sum(value) : value;
}

__device__ __forceinline__ float sum_of_partials(const volatile float* partial, int count) {
    float sum = 0;
    for (int i = threadIdx.x; i < count; i += blockDim.x) sum += partial[i];
    __syncthreads();  // block_sum() is about to write this memory again
    return block_sum(sum);
}

extern "C" __global__ void __launch_bounds__(threads)
    norm2_partial(const float* __restrict__ x, float* partial, unsigned* ended, float* total, long long n) {
    const long long step = static_cast<long long>(gridDim.x) * threads;
    const long long thread = static_cast<long long>(blockIdx.x) * threads + threadIdx.x;
    const long long packs = n / vec;
    const Pack<vec>* const from = reinterpret_cast<const Pack<vec>*>(x);
    float sums[unroll] = {};
    long long at = thread;
    for (; at + (unroll - 1) * step < packs; at += unroll * step) {
        Pack<vec> loaded[unroll];
#pragma unroll
        for (int i = 0; i < unroll; ++i) loaded[i] = from[at + i * step];
#pragma unroll
        for (int i = 0; i < unroll; ++i) {
#pragma unroll
            for (int k = 0; k < vec; ++k) sums[i] += loaded[i].at[k] * loaded[i].at[k];
        }
    }
    for (; at < packs; at += step) {
        const Pack<vec> loaded = from[at];
#pragma unroll
        for (int k = 0; k < vec; ++k) sums[0] += loaded.at[k] * loaded.at[k];
    }
    for (at = packs * vec + thread; at < n; at += step) sums[0] += x[at] * x[at];

    float sum = 0;
#pragma unroll
    for (int i = 0; i < unroll; ++i) sum += sums[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
#if finish == 1
    __shared__ bool is_last;
    __threadfence();
    if (threadIdx.x == 0) is_last = atomicAdd(ended, 1U) == gridDim.x - 1;
    __syncthreads();
    if (!is_last) return;
    sum = sum_of_partials(partial, static_cast<int>(gridDim.x));
    if (threadIdx.x != 0) return;
    *total = sum;
    *ended = 0;  // it must be zero again for the next launch
#endif
}

extern "C" __global__ void __launch_bounds__(256) norm2_final(const float* partial, float* total, int count) {
    const float sum = sum_of_partials(partial, count);
    if (threadIdx.x == 0) *total = sum;
}

// The right answer: one block, in double.
extern "C" __global__ void norm2_reference(const double* x, double* total, long long n) {
    __shared__ double of_threads[1024];
    double sum = 0;
    for (long long i = threadIdx.x; i < n; i += blockDim.x) sum += x[i] * x[i];
    of_threads[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x != 0) return;
    for (unsigned i = 1; i < blockDim.x; ++i) sum += of_threads[i];
    *total = sum;
}
