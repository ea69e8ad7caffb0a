// Scales of fp8 products, in device memory. X and Y are the operands on the M and N side of the multiplication. REQUIRES
// gemm/device/pairs.cuh, gemm/device/hopper/hopper_schedule.cuh and, before the include: scale_mode (0: none, 1: per tensor, 2:
// per row of A and column of B, 3: per 128 k, for each row of A and for each 128 columns of B).
#pragma once

namespace {

constexpr int scale_block = 128;  // the length of a block along K, and its number of columns of B

// Distances between scales, in elements: between two batches, between two lines (rows of A; columns of B, or blocks of 128 of
// them), and between two runs of 128 k.
struct ScaleStrides {
    i64 batch, line, k;
};

// Ordered with other volatile reads and barriers, because the previous grid may have written the scale.
__device__ __forceinline__ float load_scale(const float* from) {
    float value;
    asm volatile("ld.global.f32 %0, [%1];" : "=f"(value) : "l"(from));
    return value;
}

struct Scales {
    const float *x, *y;
    ScaleStrides of_x, of_y;

    __device__ __forceinline__ float of_tensors(float alpha) const {
        if constexpr (scale_mode == 1) return alpha * (load_scale(x) * load_scale(y));
        return alpha;
    }
    // The scale of a row or column of the multiplication. Lines beyond the edge get the scale of the last line.
    __device__ __forceinline__ float of_row(const Extents& s, const Tile& tile, int row) const {
        return load_scale(x + tile.batch * of_x.batch + min(row, s.m - 1) * of_x.line);
    }
    __device__ __forceinline__ float of_column(const Extents& s, const Tile& tile, int column) const {
        return load_scale(y + tile.batch * of_y.batch + min(column, s.n - 1) * of_y.line);
    }
    // Returns alpha and the scales times the sums of two neighbouring columns.
    __device__ __forceinline__ Pair applied(const Extents& s, const Tile& tile, int row, int column, float alpha, const Pair& sums) const {
        if constexpr (scale_mode != 2) return {alpha * sums.low, alpha * sums.high};
        const float factor = alpha * of_row(s, tile, row);
        return {sums.low * factor * of_column(s, tile, column), sums.high * factor * of_column(s, tile, column + 1)};
    }
};

}  // namespace
