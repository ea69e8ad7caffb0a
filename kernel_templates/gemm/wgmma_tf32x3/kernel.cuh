// C = alpha A B + beta C with f32 operands on Hopper. Each operand is split into a sum of two tf32 parts, and three of the
// products are summed: low high, high low and high high. TMA loads into an mbarrier ring; one warp starts the loads, three more
// write the low parts of Y next to it, two consumer warpgroups keep the parts of X in registers and multiply; blocks are
// persistent. Tensor cores truncate their sums, so they only sum 32 of K, and CUDA cores add these sums, rounded.
// X is the operand on wgmma's M side, Y the one on its N side: A and B, or with swap_ab B^T and A^T (C^T = B^T A^T). wgmma reads
// tf32 from shared memory only if it is stored along K. So Y must be an operand that is; if neither is (A stored [K, M] and B [K,
// N]), _arrange first makes a transposed copy of Y in the workspace.
// clang-format off
#define AUTOTUNE_KERNEL ${symbol}
#include "common/types.cuh"
using In = ${in_type};
using Out = ${out_type};
constexpr int trans_a = ${trans_a};  // 1: A is stored [K, M]
constexpr int trans_b = ${trans_b};  // 1: B is stored [N, K]
constexpr int align_a = ${align_a};  // bytes; below 16 the operand is copied into the workspace first
constexpr int align_b = ${align_b};
constexpr int align_c = ${align_c};
constexpr int reads_c = ${reads_c};  // 0: beta is known to be 0; reading C is compiled out
constexpr int swap_ab = ${swap_ab};
constexpr int block_n = ${block_n};
constexpr int parts_n = ${parts_n};  // runs of columns; there are registers for the products of one run at a time
constexpr int cluster_m = ${cluster_m};  // blocks along M that share a tile of Y
constexpr int cluster_n = ${cluster_n};  // blocks along N that share a tile of X
// clang-format on
// ---- end of parameters ----
#include "common/dependent_launch.cuh"
#include "common/hopper.cuh"
#include "common/ptx.cuh"
#include "common/wgmma_tf32.cuh"
#include "gemm/device/arrange.cuh"
#include "gemm/device/f32_split.cuh"
#include "gemm/device/store_run.cuh"

namespace {

using namespace hopper;

static_assert(is_same<In, f32> && is_same<Out, f32>, "operands and results are f32");
constexpr bool x_along_m = trans_a || !trans_b;
static_assert(x_along_m || !swap_ab, "both operands lie along K: nothing to exchange");
static_assert(trans_a || trans_b || swap_ab, "Y lies along K: with A plain and B plain it is A");
static_assert(!trans_a || !trans_b || !swap_ab, "Y lies along K: with A and B transposed it is B");

constexpr int consumer_warpgroups = 2, groups_per_tile = 2;
constexpr int block_m = 64 * consumer_warpgroups;
constexpr int block_k = 32;  // 128 bytes, a swizzle span
constexpr int part_columns = block_n / parts_n;
constexpr int sharing_blocks = cluster_m * cluster_n, cluster_blocks = sharing_blocks;
constexpr int notified_blocks = cluster_m + cluster_n - 1;  // blocks that load for this one: those in its row or column of the cluster
constexpr int math_threads = 128 * consumer_warpgroups;
static_assert(block_n % (32 * parts_n) == 0 && block_n <= 256);

constexpr u32 bytes_x = block_m * block_k * 4;
constexpr u32 bytes_y = block_n * block_k * 4;
constexpr u32 stage_bytes = bytes_x + 2 * bytes_y;  // Y's low parts come after Y, in the same order
constexpr int splitting_warps = 3;

}  // namespace

#include "gemm/device/hopper/hopper_ring.cuh"
#include "gemm/device/f32_producer.cuh"

namespace {

__device__ __forceinline__ int lane_r() { return static_cast<int>(threadIdx.x) % 32 / 4; }
__device__ __forceinline__ int lane_t() { return static_cast<int>(threadIdx.x) % 4; }
__device__ __forceinline__ int warp_in_group() { return static_cast<int>(threadIdx.x) / 32 % 4; }

// ---- Y's parts ----

// The remainder of an element after truncation to tf32, rounded to tf32. The element serves as its own high part, because the
// hardware truncates it.
__device__ __forceinline__ u32 cut_off(float value) {
    return __float_as_uint(value - __uint_as_float(__float_as_uint(value) & 0xFFFFE000U)) + 0x1000U;
}

// Called by warps 1 to 3 of the producer's warpgroup: writes the low parts of each stage's Y.
__device__ __forceinline__ void split_y(const Ring& ring, const Extents& s, u32 split) {
    const int thread = static_cast<int>(threadIdx.x) - 32;
    const int clusters = static_cast<int>(gridDim.x) / cluster_blocks;
    Position at;
#pragma unroll 1
    for (int index = static_cast<int>(blockIdx.x) / cluster_blocks; index < s.tiles(); index += clusters) {
#pragma unroll 1
        for (int step = 0; step < s.steps(); ++step) {
            barrier_wait(ring.full + at.stage * 8, at.parity);
            const u32 y = ring.y(at.stage);
#pragma unroll 4
            for (int chunk = thread; chunk < block_n * 8; chunk += 32 * splitting_warps) {
                float four[4];
                load_shared(y + chunk * 16, four);
                ptx::st_shared(y + bytes_y + chunk * 16, {cut_off(four[0]), cut_off(four[1]), cut_off(four[2]), cut_off(four[3])});
            }
            fence_async_proxy();
            __syncwarp();
            if (thread % 32 == 0) barrier_arrive(split + at.stage * 8);
            at.next(ring.stages);
        }
    }
}

// ---- X's parts ----

// Lane 4 r + t of an m64k8 multiplication has rows r and r + 8 of its warp's 16, at k = t and t + 4. If X is stored along M, a
// lane reads two neighbouring rows at once as its rows r and r + 8. Any assignment of rows would do; this one lets half a warp
// read from all banks.
__device__ __forceinline__ int slab_chunk() { return lane_r() % 2 * 4 + lane_r() / 4 + warp_in_group() % 2 * 2; }
__device__ __forceinline__ int row_of(int upper) {
    if (x_along_m) return warp_in_group() / 2 * 32 + slab_chunk() * 4 + lane_r() / 2 % 2 * 2 + upper;
    return warp_in_group() * 16 + lane_r() + 8 * upper;
}

struct XParts {
    u32 high[block_k / 8][4], low[block_k / 8][4];

    __device__ __forceinline__ void load(u32 tile) {
#pragma unroll
        for (int kk = 0; kk < block_k / 8; ++kk) {
            if constexpr (x_along_m) {
                const u32 slab = tile + warp_in_group() / 2 * (32 * 128) + lane_r() / 2 % 2 * 8;
#pragma unroll
                for (int half = 0; half < 2; ++half) {
                    const int in_eight = half * 4 + lane_t();
                    load_shared(slab + (kk * 8 + in_eight) * 128 + (slab_chunk() ^ in_eight) * 16, &high[kk][2 * half]);
                }
            } else {
                const int lane = static_cast<int>(threadIdx.x) % 32, row = warp_in_group() * 16 + lane % 16;
                ptx::ldmatrix_x4(high[kk], tile + row * 128 + ((2 * kk + lane / 16) ^ row % 8) * 16);
            }
        }
#pragma unroll
        for (int i = 0; i < block_k / 2; ++i) {
            const TwoParts parts = split_in_two(high[i / 4][i % 4]);
            high[i / 4][i % 4] = parts.high;
            low[i / 4][i % 4] = parts.low;
        }
    }
};

// ---- sums ----

using Sums = float[parts_n][part_columns / 2];

// Multiplies one stage for one run of columns, small products first.
__device__ __forceinline__ void multiply(float* products, const XParts& x, u32 y) {
    const u32 small = y + bytes_y;
    wgmma_fence();
#pragma unroll
    for (int kk = 0; kk < block_k / 8; ++kk)
        WgmmaTf32<part_columns>::run(products, x.low[kk], matrix_descriptor(y + kk * 32, 16, 1024, 128), kk == 0 ? 0 : 1);
#pragma unroll
    for (int kk = 0; kk < block_k / 8; ++kk)
        WgmmaTf32<part_columns>::run(products, x.high[kk], matrix_descriptor(small + kk * 32, 16, 1024, 128), 1);
#pragma unroll
    for (int kk = 0; kk < block_k / 8; ++kk)
        WgmmaTf32<part_columns>::run(products, x.high[kk], matrix_descriptor(y + kk * 32, 16, 1024, 128), 1);
    wgmma_commit();
}

__device__ __forceinline__ bool is_finite(const Sums& sums) {
    bool all = true;
#pragma unroll
    for (int i = 0; i < block_n / 2; ++i) all = all && is_finite(sums[i / (part_columns / 2)][i % (part_columns / 2)]);
    return all;
}

// ---- results ----

// C and the operands in their stored form. A line is a row of A or a column of B.
struct Stored {
    f32* c;
    const f32 *a, *b;
    float alpha, beta;
    i64 ldc, stride_c, line_a, step_a, stride_a, line_b, step_b, stride_b;
};

// Column 8 j + 2 t + odd of the tile, and the number of a row. With swap_ab columns are rows of C.
__device__ __forceinline__ int col_of(int j, int odd) { return 8 * j + 2 * lane_t() + odd; }

// Stores runs of two if C's rows allow it: along a lane's columns or, with swap_ab, along its rows if they are neighbours.
__device__ __forceinline__ void store(const Stored& to, const Extents& s, const Tile& tile, int row0, const Sums& sums) {
    f32* const c = to.c + tile.batch * to.stride_c;
    constexpr int width = smaller(2, align_c / 4);
    const int rows[2] = {tile.m0 + row0 + row_of(0), tile.m0 + row0 + row_of(1)};
#pragma unroll
    for (int j = 0; j < block_n / 8; ++j) {
        const f32* const four = &sums[j / (part_columns / 8)][j % (part_columns / 8) * 4];
        const int col = tile.n0 + col_of(j, 0);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            if constexpr (swap_ab) {
                const f32 values[2] = {four[i], four[2 + i]};
                if (col + i >= s.n) continue;
#pragma unroll
                for (int e = 0; e < 2; e += width)
                    store_run<width>(values + e, c + (col + i) * to.ldc + rows[0] + e, to.alpha, to.beta, s.m - rows[0] - e);
            } else {
                if (rows[i] >= s.m) continue;
#pragma unroll
                for (int e = 0; e < 2; e += width)
                    store_run<width>(four + 2 * i + e, c + rows[i] * to.ldc + col + e, to.alpha, to.beta, s.n - col - e);
            }
        }
    }
}

// Stores all of a thread's elements, summed on CUDA cores.
__device__ __forceinline__ void store_exact_sums(const Stored& to, const Extents& s, const Tile& tile, int row0) {
#pragma unroll 1
    for (int i = 0; i < block_n / 2; ++i) {
        const int row = tile.m0 + row0 + row_of(i / 2 % 2), col = tile.n0 + col_of(i / 4, i % 2);
        if (row >= s.m || col >= s.n) continue;
        const i64 c_row = swap_ab ? col : row, c_col = swap_ab ? row : col;
        const f32 sum = exact_sum(to.a + tile.batch * to.stride_a + c_row * to.line_a, to.step_a,
                                  to.b + tile.batch * to.stride_b + c_col * to.line_b, to.step_b, s.k);
        store_run<1>(&sum, to.c + tile.batch * to.stride_c + c_row * to.ldc + c_col, to.alpha, to.beta, 1);
    }
}

// ---- the consumer warpgroups ----

__device__ __forceinline__ void consume(const Ring& ring, const Extents& s, const Stored& to, u32 split, int group, int rank) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int row0 = group * 64;
    const bool notifies = shares_with(lane, rank);
    const int clusters = static_cast<int>(gridDim.x) / cluster_blocks;
    Position at;
#pragma unroll 1
    for (int index = static_cast<int>(blockIdx.x) / cluster_blocks; index < s.tiles(); index += clusters) {
        Sums sums;
#pragma unroll
        for (int i = 0; i < block_n / 2; ++i) sums[i / (part_columns / 2)][i % (part_columns / 2)] = 0.0F;
#pragma unroll 1
        for (int step = 0; step < s.steps(); ++step) {
            barrier_wait(ring.full + at.stage * 8, at.parity);
            XParts x;
            x.load(ring.x(at.stage) + row0 * 128);  // in rows and in slabs alike, a row has 128 bytes
            barrier_wait(split + at.stage * 8, at.parity);
#pragma unroll
            for (int part = 0; part < parts_n; ++part) {
                float products[part_columns / 2];
                multiply(products, x, ring.y(at.stage) + part * part_columns * 128);
                wgmma_wait<0>();
                if (part == parts_n - 1) release(ring, at.stage, lane, notifies);
#pragma unroll
                for (int i = 0; i < part_columns / 2; ++i) sums[part][i] += products[i];
            }
            at.next(ring.stages);
        }
        const Tile tile = tile_at(s, index, rank);
        if (is_finite(sums))
            store(to, s, tile, row0, sums);
        else
            store_exact_sums(to, s, tile, row0);
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(math_threads + 128, 1)
    AUTOTUNE_KERNEL(const __grid_constant__ TensorMap map_x, const __grid_constant__ TensorMap map_y, const f32* a, const f32* b, f32* c,
                    float alpha, float beta, int m, int n, int k, i64 lda, i64 ldb, i64 ldc, int batch, i64 stride_a, i64 stride_b,
                    i64 stride_c, int stages, int tiles_m, int tiles_n, int group, int raster) {
    if constexpr (!reads_c) beta = 0.0F;
    extern __shared__ unsigned char shared[];
    const u32 base = (smem_address(shared) + 1023) & ~1023u;
    const Extents shape{swap_ab ? n : m, swap_ab ? m : n, k, batch, tiles_m, tiles_n, group, raster};
    const u32 barriers = base + stages * stage_bytes;
    const Ring ring{base, barriers, barriers + stages * 8, 0, stages};
    const u32 split = barriers + stages * 16;
    const int rank = cluster_blocks > 1 ? static_cast<int>(cluster_rank()) : 0;
    if (threadIdx.x == 0) {
        prefetch_map(&map_x);
        prefetch_map(&map_y);
        make_stage_barriers(ring, 1);
        for (int stage = 0; stage < stages; ++stage) barrier_init(split + stage * 8, splitting_warps);
        fence_barrier_init();
    }
    meet();
    const int warpgroup = static_cast<int>(threadIdx.x) / 128;
    if (warpgroup == 0) {
        give_to_consumers();
        if (threadIdx.x >= 32)
            split_y(ring, shape, split);
        else if (threadIdx.x == 0)
            produce(ring, shape, &map_x, &map_y, rank);
    } else {
        take_from_producer();
        begin_turn();
        const Stored to{c,        a,  b,  alpha, beta, ldc, stride_c, trans_a ? 1 : lda, trans_a ? lda : 1, stride_a, trans_b ? ldb : 1,
                        trans_b ? 1 : ldb, stride_b};
        consume(ring, shape, to, split, warpgroup - 1, rank);
    }
}

// Copies an operand to the workspace with rows padded to 16 bytes, as stored or transposed.
extern "C" __global__ void __launch_bounds__(256)
    AUTOTUNE_ENTRY(_arrange)(const f32* from, f32* to, int rows, int cols, i64 ld, i64 ld_to, int batch, i64 stride, int transposes) {
    arrange(from, to, rows, cols, ld, ld_to, batch, stride, transposes);
}
