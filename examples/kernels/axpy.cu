// out = a x + y. The macros have values of their own only if no tuner defines them: autotune, Kernel Tuner and KTT all tune this file.
#ifndef block_size_x
#define block_size_x 256
#endif
#ifndef items
#define items 4
#endif

extern "C" __global__ void axpy(int n, float a, const float* x, const float* y, float* out) {
    const int first = blockIdx.x * block_size_x * items + threadIdx.x;
#pragma unroll
    for (int i = 0; i < items; ++i) {
        const int at = first + i * block_size_x;
        if (at < n) out[at] = a * x[at] + y[at];
    }
}

// The right answer. autotune hands float tensors to it as doubles.
extern "C" __global__ void axpy_reference(int n, float a, const double* x, const double* y, double* out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a * x[i] + y[i];
}
