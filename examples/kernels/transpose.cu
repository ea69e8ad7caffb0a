// out[x][y] = in[y][x] for a matrix of rows x cols floats, through tiles in shared memory.
//
// transpose.toml describes it to autotune, which defines AUTOTUNE and the parameters as macros. Without autotune this is an
// ordinary .cu file with the values below.
#ifndef AUTOTUNE
#define tile 32
#define threads_y 8
#define pad 1
#define order 0
#endif

// `order` 1 walks the tiles along diagonals, so that blocks that run together write to different memory channels.
__device__ __forceinline__ void tile_of_block(int& x, int& y) {
    x = blockIdx.x;
    y = blockIdx.y;
#if order == 1
    y = (blockIdx.x + blockIdx.y) % gridDim.y;
#endif
}

extern "C" __global__ void __launch_bounds__(tile* threads_y)
    transpose(const float* __restrict__ in, float* __restrict__ out, int rows, int cols) {
    __shared__ float patch[tile][tile + pad];
    int tile_x, tile_y;
    tile_of_block(tile_x, tile_y);
    const int x = tile_x * tile + threadIdx.x;
#pragma unroll
    for (int j = 0; j < tile; j += threads_y) {
        const int y = tile_y * tile + threadIdx.y + j;
        if (x < cols && y < rows) patch[threadIdx.y + j][threadIdx.x] = in[static_cast<long long>(y) * cols + x];
    }
    __syncthreads();
    const int out_x = tile_y * tile + threadIdx.x;
#pragma unroll
    for (int j = 0; j < tile; j += threads_y) {
        const int out_y = tile_x * tile + threadIdx.y + j;
        if (out_x < rows && out_y < cols) out[static_cast<long long>(out_y) * rows + out_x] = patch[threadIdx.x][threadIdx.y + j];
    }
}

// The right answer, in double: autotune hands the reference every float tensor as doubles.
extern "C" __global__ void transpose_reference(const double* in, double* out, int rows, int cols) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    const int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < cols && y < rows) out[static_cast<long long>(x) * rows + y] = in[static_cast<long long>(y) * cols + x];
}
