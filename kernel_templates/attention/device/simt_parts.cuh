// Code that attention/simt and attention_bwd/simt share: tiles of rows in shared memory as f32, and their products on CUDA cores,
// with threads_x threads per row. REQUIRES common/ptx.cuh and, before the include: Element, threads, threads_x (threads that
// share a row), unroll (of steps of four elements).
#pragma once

namespace {

constexpr int threads_y = threads / threads_x;
constexpr int vec = 4;
constexpr int rows_of_warp = 32 / threads_x;
static_assert(threads % 32 == 0 && 32 % threads_x == 0, "the threads of a row are of one warp");

// The XOR mask for the columns of a row, if rows are not padded: it puts the elements that a warp reads at once into different
// banks. REQUIRES: the row length is a multiple of 32 elements.
__device__ __forceinline__ int turn_of_row(int row) {
    return row % rows_of_warp * threads_x;
}

// Copies four elements to shared memory as f32, or writes zeros: f32 is copied asynchronously, other types are converted on the
// way.
template <int align>
__device__ __forceinline__ void copy_four(f32* target, const Element* source, bool exists) {
    if constexpr (is_same<Element, f32>) {
        constexpr int bytes = align < 16 ? align : 16;
#pragma unroll
        for (int i = 0; i < 16; i += bytes)
            ptx::cp_async<bytes>(ptx::shared_address(target) + i, reinterpret_cast<const char*>(source) + i, exists ? bytes : 0);
    } else {
        constexpr int step = align >= 8 ? 4 : align / 2;
        float4 value = {};
        if (exists) {
            f32 parts[vec];
#pragma unroll
            for (int i = 0; i < vec; i += step) {
                const Pack<Element, step> pack = load_pack<Element, step>(source + i);
#pragma unroll
                for (int j = 0; j < step; ++j) parts[i + j] = to_f32(pack.at[j]);
            }
            value = make_float4(parts[0], parts[1], parts[2], parts[3]);
        }
        *reinterpret_cast<float4*>(target) = value;
    }
}

// Copies rows to shared memory, with XORed columns if `turned`; rows from `count` on become zeros.
template <int rows, int columns, int ld, int align, bool turned = false>
__device__ __forceinline__ void copy_rows(f32* to, const Element* from, i64 row_elements, int count) {
    constexpr int chunks = columns / vec, rows_at_once = threads / chunks;
    constexpr bool one_turn = !turned || rows_at_once % rows_of_warp == 0;  // all rows of a thread have one XOR mask
    // Each thread has fixed columns, which needs no divisions.
    if constexpr (threads % chunks == 0 && rows % rows_at_once == 0 && one_turn) {
        const int first = threadIdx.x / chunks, column = threadIdx.x % chunks * vec;
        const Element* source = from + first * row_elements + column;
        f32* const target = to + first * ld + (turned ? column ^ turn_of_row(first) : column);
#pragma unroll
        for (int row = 0; row < rows; row += rows_at_once, source += rows_at_once * row_elements)
            copy_four<align>(target + row * ld, source, first + row < count);
    } else {
        for (int at = threadIdx.x; at < rows * chunks; at += threads) {
            const int row = at / chunks, column = at % chunks * vec;
            copy_four<align>(to + row * ld + (turned ? column ^ turn_of_row(row) : column), from + row * row_elements + column,
                             row < count);
        }
    }
}

__device__ __forceinline__ float4 load4(const f32* from) {
    return *reinterpret_cast<const float4*>(from);
}

__device__ __forceinline__ f32 dot4(float4 left, float4 right, f32 sum) {
    sum = __fmaf_rn(left.x, right.x, sum);
    sum = __fmaf_rn(left.y, right.y, sum);
    sum = __fmaf_rn(left.z, right.z, sum);
    return __fmaf_rn(left.w, right.w, sum);
}

__device__ __forceinline__ void add_scaled(f32 (&sums)[vec], f32 weight, float4 values) {
    sums[0] = __fmaf_rn(weight, values.x, sums[0]);
    sums[1] = __fmaf_rn(weight, values.y, sums[1]);
    sums[2] = __fmaf_rn(weight, values.z, sums[2]);
    sums[3] = __fmaf_rn(weight, values.w, sums[3]);
}

// The lanes of a row are two apart if a warp has several rows. The hardware serves a 16-byte load for half a warp at a time: in
// one pass if each lane reads the address of its neighbour or its next but one, otherwise in two.
constexpr int lane_step = threads_x < 32 ? 2 : 1;

struct Place {
    int x, y;
    __device__ __forceinline__ Place()
        : x(threadIdx.x / lane_step % threads_x),
          y(threadIdx.x / (threads_x * lane_step) * lane_step + threadIdx.x % lane_step) {}
    // Neighbouring threads have neighbouring rows, both among the block's own rows and among the rows of a tile.
    __device__ __forceinline__ int own(int i) const { return i * threads_y + y; }
    __device__ __forceinline__ int other(int i) const { return i * threads_x + x; }
    __device__ __forceinline__ int turn() const { return turn_of_row(y); }  // XOR mask of all its own rows
};

// Computes the products of own rows and a tile's rows, which have `columns` elements. Columns of own rows are XORed with `turn`.
template <int columns, int ld_own, int ld, int thread_own, int thread_other>
__device__ __forceinline__ void multiply_rows(f32 (&result)[thread_own][thread_other], const f32* own, const f32* other, const Place& place,
                                              int turn = 0) {
#pragma unroll
    for (int i = 0; i < thread_own; ++i)
#pragma unroll
        for (int j = 0; j < thread_other; ++j) result[i][j] = 0;
#pragma unroll unroll
    for (int at = 0; at < columns; at += vec) {
        float4 a[thread_own], b[thread_other];
#pragma unroll
        for (int i = 0; i < thread_own; ++i) a[i] = load4(own + place.own(i) * ld_own + (at ^ turn));
#pragma unroll
        for (int j = 0; j < thread_other; ++j) b[j] = load4(other + place.other(j) * ld + at);
#pragma unroll
        for (int i = 0; i < thread_own; ++i)
#pragma unroll
            for (int j = 0; j < thread_other; ++j) result[i][j] = dot4(a[i], b[j], result[i][j]);
    }
}

// Adds the products of weights (rows of ld_w elements, columns XORed with `turn`) and the rows of a tile.
template <int tile_rows, int ld_w, int ld, int thread_own, int runs>
__device__ __forceinline__ void add_product(f32 (&sums)[thread_own][runs][vec], const f32* weights, const f32* other,
                                            const Place& place, int turn = 0) {
#pragma unroll unroll
    for (int row = 0; row < tile_rows; row += vec) {
        float4 weight[thread_own];
#pragma unroll
        for (int i = 0; i < thread_own; ++i) weight[i] = load4(weights + place.own(i) * ld_w + (row ^ turn));
#pragma unroll
        for (int run = 0; run < runs; ++run) {
            const f32* const from = other + row * ld + (run * threads_x + place.x) * vec;
            const float4 values[vec] = {load4(from), load4(from + ld), load4(from + 2 * ld), load4(from + 3 * ld)};
#pragma unroll
            for (int i = 0; i < thread_own; ++i) {
                add_scaled(sums[i][run], weight[i].x, values[0]);
                add_scaled(sums[i][run], weight[i].y, values[1]);
                add_scaled(sums[i][run], weight[i].z, values[2]);
                add_scaled(sums[i][run], weight[i].w, values[3]);
            }
        }
    }
}

}  // namespace
