// Copies an f32 operand to the workspace with rows padded to 16 bytes, as stored or transposed. Needs common/types.cuh.
#pragma once

namespace {

// For blocks of 256 threads, which copy squares of 32 x 32 elements.
__device__ __forceinline__ void arrange(const f32* from, f32* to, int rows, int cols, i64 ld, i64 ld_to, int batch, i64 stride,
                                        int transposes) {
    __shared__ f32 square[32][33];
    const i64 across = (cols + 31) / 32, squares = across * ((rows + 31) / 32);
    const int x = static_cast<int>(threadIdx.x) % 32, y = static_cast<int>(threadIdx.x) / 32;
    const i64 stride_to = static_cast<i64>(transposes ? cols : rows) * ld_to;
    for (i64 at = blockIdx.x; at < squares * batch; at += gridDim.x) {
        const f32* const source = from + at / squares * stride;
        f32* const target = to + at / squares * stride_to;
        const int row0 = static_cast<int>(at % squares / across) * 32, col0 = static_cast<int>(at % squares % across) * 32;
#pragma unroll
        for (int i = 0; i < 32; i += 8) {
            const int row = row0 + y + i, col = col0 + x;
            if (row < rows && col < cols) square[y + i][x] = source[row * ld + col];
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 32; i += 8) {
            const int row = (transposes ? col0 : row0) + y + i, col = (transposes ? row0 : col0) + x;
            if (row < (transposes ? cols : rows) && col < (transposes ? rows : cols))
                target[row * ld_to + col] = transposes ? square[x][y + i] : square[y + i][x];
        }
        __syncthreads();
    }
}

}  // namespace
