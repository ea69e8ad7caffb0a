// C = alpha scale_a A B scale_b + beta C of fp8 operands on Hopper, without separate loading warps: every warpgroup multiplies,
// and the same threads fetch the stages ahead, by cp.async or by TMA. These are the first steps of the series of kernels that
// ends with gemm/wgmma_fp8.
#define AUTOTUNE_KERNEL ${symbol}
#include "common/types.cuh"
#include "common/fp8.cuh"
using A = ${a_type};
using B = ${b_type};
using Out = ${out_type};
constexpr int promotes = ${promotes};
// Scales 0: none, 1: per tensor, 2: per row of A and column of B, 3: per 128 k of those
constexpr int scale_mode = ${scale_mode};
constexpr int align_a = ${align_a};  // bytes
constexpr int align_b = ${align_b};
constexpr int align_c = ${align_c};
#define AUTOTUNE_EPILOGUE ${epilogue}  // 1: the kernel has parameters for a bias, a factor of C and an amax
using Bias = ${bias_type};
constexpr int has_bias = ${has_bias};
constexpr int scales_c = ${scales_c};      // an fp8 C is multiplied by a factor
constexpr int keeps_amax = ${keeps_amax};  // amax_d is raised to the largest magnitude of C
constexpr int reads_c = ${reads_c};  // 0: beta is known to be 0; reading C is compiled out
constexpr int loads = ${loads};      // 0: cp.async, 1: TMA
constexpr int block_m = ${block_m};
constexpr int block_n = ${block_n};
constexpr int block_k = ${block_k};
constexpr int consumer_warpgroups = ${consumer_warpgroups};
constexpr int stages = ${stages};
#define AUTOTUNE_DEVICE_MAPS ${device_maps}  // 1: a separate kernel made the tensor maps, in the workspace
// ---- end of parameters ----
#include "common/dependent_launch.cuh"
#include "common/hopper.cuh"
#include "common/wgmma_fp8.cuh"
#if AUTOTUNE_DEVICE_MAPS
#include "common/tensor_map.cuh"
#endif

namespace {

using namespace hopper;

static_assert(align_a == 16 && align_b == 16, "operands are copied in chunks of 16 bytes");
static_assert(block_k == 64 || block_k == 128, "a row of a tile is one swizzle span");
static_assert(block_m % (64 * consumer_warpgroups) == 0 && block_n % 16 == 0 && block_n <= 256 && stages >= 3);
static_assert(!promotes || block_k == 128, "products of 128 k are promoted");
static_assert(scale_mode != 3 || promotes, "scales of blocks are factors of promoted products");

constexpr int swap_ab = 0, cluster_m = 1, cluster_n = 1, cluster_k = 1, sharing_blocks = 1, cluster_blocks = 1;
constexpr int threads = 128 * consumer_warpgroups;
constexpr int bands = block_m / (64 * consumer_warpgroups);
constexpr int accumulators = block_n / 2;
constexpr u32 bytes_a = block_m * block_k, stage_bytes = (block_m + block_n) * block_k;
constexpr u32 column_bytes = scale_mode == 2 ? block_n * 4 : 0;
constexpr int ahead = stages - 2;  // stages loaded ahead, not counting the two that may be in multiplication

constexpr bool converts_pairs = true;
using Register = float;
using Sums = float[bands][accumulators];
__device__ __forceinline__ constexpr int owner_of(int, int) { return 0; }

}  // namespace

#include "gemm/device/pairs.cuh"
#include "gemm/device/hopper/hopper_schedule.cuh"
#include "gemm/device/pair_store.cuh"
#include "gemm/device/fp8_scales.cuh"
#include "gemm/device/fp8_epilogue.cuh"
#include "gemm/device/fp8_factors.cuh"

namespace {

// An operand as lines along K.
struct Lines {
    const TensorMap* map;
    const u8* data;
    i64 ld, stride;
    int count, k;
};

// Copies sixteen bytes; bytes beyond `valid` become zero.
__device__ __forceinline__ void copy_chunk(u32 to, const u8* from, int valid) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid) : "memory");
}

// Copies the lines of a tile from `first` on, from k on, in the order of TMA's swizzle, which permutes chunks of 16 bytes by the
// line's number.
template <int extent>
__device__ __forceinline__ void copy_lines(u32 to, const Lines& from, int first, int k, int batch) {
    constexpr int chunks = block_k / 16, line_shift = block_k == 128 ? 0 : 1;
#pragma unroll 4
    for (int i = threadIdx.x; i < extent * chunks; i += threads) {
        const int line = i / chunks, chunk = i % chunks;
        const int at = first + line, column = k + chunk * 16;
        const int valid = at < from.count ? min(max(from.k - column, 0), 16) : 0;
        const u8* source = valid > 0 ? from.data + batch * from.stride + at * from.ld + column : from.data;
        copy_chunk(to + line * block_k + (chunk ^ (line >> line_shift & (chunks - 1))) * 16, source, valid);
    }
}

// A block's stages. A loaded step belongs to one tile, and all of a tile's steps are multiplied before the next tile's.
struct Stages {
    u32 tiles, full;
    __device__ __forceinline__ u32 a(int stage) const { return tiles + stage * stage_bytes; }
    __device__ __forceinline__ u32 b(int stage) const { return tiles + stage * stage_bytes + bytes_a; }

    __device__ __forceinline__ void load(int stage, const Lines& a_lines, const Lines& b_lines, const Tile& tile, int step) const {
        if constexpr (loads == 0) {
            copy_lines<block_m>(a(stage), a_lines, tile.m0, step * block_k, tile.batch);
            copy_lines<block_n>(b(stage), b_lines, tile.n0, step * block_k, tile.batch);
        } else if (threadIdx.x == 0) {
            const u32 barrier = full + stage * 8;
            barrier_expect(barrier, stage_bytes);
            load_box(a(stage), a_lines.map, barrier, step * block_k, tile.m0, tile.batch, policy_normal);
            load_box(b(stage), b_lines.map, barrier, step * block_k, tile.n0, tile.batch, policy_normal);
        }
    }
    // Ends the loads of a step, even if there are none.
    __device__ __forceinline__ void commit() const {
        if constexpr (loads == 0) asm volatile("cp.async.commit_group;" ::: "memory");
    }
    // Waits until the oldest of the `ahead` steps has arrived for all threads, and all threads have finished the step before the
    // previous one.
    __device__ __forceinline__ void wait(int stage, u32 parity) const {
        if constexpr (loads == 0) {
            asm volatile("cp.async.wait_group %0;" ::"n"(ahead - 1) : "memory");
            fence_async_proxy();
        } else {
            barrier_wait(full + stage * 8, parity);
        }
        __syncthreads();
    }
};

__device__ __forceinline__ void multiply_band(float* sums, u32 tile_a, u32 tile_b, int row, int kk, bool fresh) {
    const u64 desc_a = matrix_descriptor(tile_a + row * block_k + kk * 32, 16, 8 * block_k, block_k);
    const u64 desc_b = matrix_descriptor(tile_b + kk * 32, 16, 8 * block_k, block_k);
    WgmmaFp8<block_n, A, B>::run(sums, desc_a, desc_b, fresh ? 0 : 1);
}

// Multiplies a step. With promotion its multiplications have ended afterwards; otherwise all but this step's have.
__device__ __forceinline__ void multiply(Sums& acc, u32 tile_a, u32 tile_b, int row0, bool fresh, const StepScales<bands>& scales) {
    if constexpr (promotes) {
#pragma unroll
        for (int band = 0; band < bands; ++band) {
            float products[accumulators];
            wgmma_fence();
#pragma unroll
            for (int kk = 0; kk < block_k / 32; ++kk) multiply_band(products, tile_a, tile_b, row0 + band * 64, kk, kk == 0);
            wgmma_commit();
            wgmma_wait<0>();
            scales.add(acc[band], products, band);
        }
    } else {
        wgmma_fence();
#pragma unroll
        for (int kk = 0; kk < block_k / 32; ++kk) {
#pragma unroll
            for (int band = 0; band < bands; ++band) multiply_band(acc[band], tile_a, tile_b, row0 + band * 64, kk, fresh && kk == 0);
        }
        wgmma_commit();
        wgmma_wait<1>();
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(threads, 1)
    AUTOTUNE_ENTRY()(
#if AUTOTUNE_DEVICE_MAPS
                     const TensorMap* made_a, const TensorMap* made_b,
#else
                     const __grid_constant__ TensorMap map_a, const __grid_constant__ TensorMap map_b,
#endif
                     const u8* a, const u8* b, Out* c, float alpha,
                     float beta, int m, int n, int k, i64 lda, i64 ldb, i64 ldc, int batch, i64 stride_a, i64 stride_b, i64 stride_c, int tiles_m,
                     int tiles_n, int group, int raster, const float* scale_a, const float* scale_b, i64 scale_a_batch, i64 scale_a_line,
                     i64 scale_a_k, i64 scale_b_batch, i64 scale_b_line, i64 scale_b_k AUTOTUNE_EPILOGUE_PARAMETERS) {
#if AUTOTUNE_DEVICE_MAPS
    const TensorMap &map_a = *made_a, &map_b = *made_b;
#endif
    extern __shared__ unsigned char shared[];
    const u32 base = (smem_address(shared) + 1023) & ~1023u;
    const u32 columns = base + stages * stage_bytes;
    const u32 biases = columns + consumer_warpgroups * column_bytes;
    const Stages ring{base, biases + consumer_warpgroups * bias_bytes};
    const int warpgroup = threadIdx.x / 128, row0 = warpgroup * (64 * bands);
    const Extents shape{m, n, k, batch, tiles_m, tiles_n, tiles_m * tiles_n * batch, 1, group, raster};
    if (loads == 1 && threadIdx.x == 0) {
        if constexpr (!AUTOTUNE_DEVICE_MAPS) {
            prefetch_map(&map_a);
            prefetch_map(&map_b);
        }
        for (int stage = 0; stage < stages; ++stage) barrier_init(ring.full + stage * 8, 1);
        fence_barrier_init();
    }
    dependent_launch::wait_for_earlier_grids();
    dependent_launch::let_next_grid_start();
#if AUTOTUNE_DEVICE_MAPS
    acquire_map(&map_a);
    acquire_map(&map_b);
#endif
    __syncthreads();

    const Scales scales{scale_a, scale_b, {scale_a_batch, scale_a_line, scale_a_k}, {scale_b_batch, scale_b_line, scale_b_k}};
    const Output out{c, nullptr, hopper::policy_normal, scales.of_tensors(alpha), beta, ldc, stride_c, nullptr, nullptr};
    Epilogue epilogue(AUTOTUNE_EPILOGUE_ADDRESSES);
    const Lines lines_a{&map_a, a, lda, stride_a, m, k}, lines_b{&map_b, b, ldb, stride_b, n, k};
    Schedule schedule(shape, 0);
    Work work;
    int first_stage = 0;  // the stage of the tile's first step
    u32 first_parity = 0;
    while (schedule.next(work)) {
        const Tile tile = schedule.tile(work);
        const BlockScales block_scales(scales, shape, tile, row0);
        Factors factors(out.alpha);
        factors.read(scales, shape, tile, row0);
        if constexpr (has_epilogue) epilogue.read<bands>(shape, tile, row0);
        Sums acc;
#pragma unroll
        for (int i = 0; i < bands * accumulators; ++i) acc[i / accumulators][i % accumulators] = 0.0f;
        int filling = first_stage;
        for (int step = 0; step < ahead; ++step) {
            if (step < work.steps) ring.load(filling, lines_a, lines_b, tile, step);
            ring.commit();
            filling = filling + 1 == stages ? 0 : filling + 1;
        }
        int stage = first_stage;
        u32 parity = first_parity;
        for (int step = 0; step < work.steps; ++step) {
            StepScales<bands> step_scales;
            step_scales.read(block_scales, step);
            ring.wait(stage, parity);
            if (step + ahead < work.steps) ring.load(filling, lines_a, lines_b, tile, step + ahead);
            ring.commit();
            filling = filling + 1 == stages ? 0 : filling + 1;
            multiply(acc, ring.a(stage), ring.b(stage), row0, step == 0, step_scales);
            if (++stage == stages) {
                stage = 0;
                parity ^= 1;
            }
        }
        first_stage = stage;
        first_parity = parity;
        wgmma_wait<0>();
        factors.publish(columns + warpgroup * column_bytes, 1 + warpgroup);
        epilogue.publish(biases + warpgroup * bias_bytes, 1 + warpgroup);
        store_direct(out, shape, tile, row0, 0, factors, epilogue, acc);
        __syncthreads();  // all threads have finished with the last stages
    }
    epilogue.raise_amax();
}

#if AUTOTUNE_DEVICE_MAPS
extern "C" __global__ void __launch_bounds__(32)
    AUTOTUNE_ENTRY(_map)(const void* base, TensorMap* to, int columns, int rows, int batch, i64 row_bytes, i64 batch_bytes, int box_columns,
                         int box_rows, int) {
    make_map<map_type_u8, block_k>(to, map_fields(base, columns, rows, batch, row_bytes, batch_bytes, box_columns, box_rows));
}
#endif
