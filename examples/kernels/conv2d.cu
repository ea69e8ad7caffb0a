// 2-D convolution of one channel: out[y][x] = sum over i, j of image[y + i][x + j] * weights[i][j].
//
// conv2d.toml describes it to autotune, which defines AUTOTUNE, the parameters and filter_size. Without autotune this is an
// ordinary .cu file with the values below.
#ifndef AUTOTUNE
#define filter_size 15
#define block_x 32
#define block_y 8
#define tile_x 2
#define tile_y 4
#define unroll_rows 5
#define use_smem 1
#endif

constexpr int halo = filter_size - 1;
constexpr int outputs_x = block_x * tile_x;  // of a block
constexpr int outputs_y = block_y * tile_y;
constexpr int patch_x = outputs_x + halo;  // the part of the image that a block reads
constexpr int patch_y = outputs_y + halo;

__device__ __forceinline__ float pixel(const float* image, int size, int pitch, int x, int y) {
    return image[static_cast<long long>(min(y, size - 1)) * pitch + min(x, size - 1)];
}

extern "C" __global__ void __launch_bounds__(block_x* block_y)
    conv2d(const float* __restrict__ image, const float* __restrict__ weights, float* __restrict__ out, int n, int pitch) {
    const int first_x = blockIdx.x * outputs_x, first_y = blockIdx.y * outputs_y;
    const int size = n + halo;
#if use_smem
    extern __shared__ float patch[];
    for (int y = threadIdx.y; y < patch_y; y += block_y) {
        for (int x = threadIdx.x; x < patch_x; x += block_x)
            patch[y * patch_x + x] = pixel(image, size, pitch, first_x + x, first_y + y);
    }
    __syncthreads();
#endif

    float sums[tile_y][tile_x] = {};
#pragma unroll unroll_rows
    for (int i = 0; i < filter_size; ++i) {
#pragma unroll
        for (int j = 0; j < filter_size; ++j) {
            const float weight = weights[i * filter_size + j];
#pragma unroll
            for (int ty = 0; ty < tile_y; ++ty) {
#pragma unroll
                for (int tx = 0; tx < tile_x; ++tx) {
                    const int x = threadIdx.x + tx * block_x + j, y = threadIdx.y + ty * block_y + i;
#if use_smem
                    sums[ty][tx] += weight * patch[y * patch_x + x];
#else
                    sums[ty][tx] += weight * pixel(image, size, pitch, first_x + x, first_y + y);
#endif
                }
            }
        }
    }

#pragma unroll
    for (int ty = 0; ty < tile_y; ++ty) {
#pragma unroll
        for (int tx = 0; tx < tile_x; ++tx) {
            const int x = first_x + threadIdx.x + tx * block_x, y = first_y + threadIdx.y + ty * block_y;
            if (x < n && y < n) out[static_cast<long long>(y) * n + x] = sums[ty][tx];
        }
    }
}

// The right answer, in double: autotune hands the reference every float tensor as doubles.
extern "C" __global__ void conv2d_reference(const double* image, const double* weights, double* out, int n, int pitch) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= n || y >= n) return;
    double sum = 0;
    for (int i = 0; i < filter_size; ++i) {
        for (int j = 0; j < filter_size; ++j)
            sum += image[static_cast<long long>(y + i) * pitch + x + j] * weights[i * filter_size + j];
    }
    out[static_cast<long long>(y) * n + x] = sum;
}
