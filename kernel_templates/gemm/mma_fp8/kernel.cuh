// C = alpha scale_a A B scale_b + beta C of fp8 operands by mma.sync m16n8k32 (sm_89 and later), fed by a cp.async ring. Rows may
// have any alignment: without 16-byte alignment they are copied in smaller pieces.
#define AUTOTUNE_KERNEL ${symbol}
#include "common/types.cuh"
#include "common/fp8.cuh"
using A = ${a_type};
using B = ${b_type};
using Out = ${out_type};
constexpr int promotes = ${promotes};      // 1: products of 128 k each are added to sums outside of the tensor cores
// Scales 0: none, 1: per tensor, 2: per row of A and column of B, 3: per 128 k of those
constexpr int scale_mode = ${scale_mode};
constexpr int align_a = ${align_a};        // bytes
constexpr int align_b = ${align_b};
constexpr int align_c = ${align_c};
#define AUTOTUNE_EPILOGUE ${epilogue}  // 1: the kernel has parameters for a bias, a factor of C and an amax
using Bias = ${bias_type};
constexpr int has_bias = ${has_bias};
constexpr int scales_c = ${scales_c};      // an fp8 C is multiplied by a factor
constexpr int keeps_amax = ${keeps_amax};  // amax_d is raised to the largest magnitude of C
constexpr int reads_c = ${reads_c};        // 0: beta is known to be 0; reading C is compiled out
constexpr int block_m = ${block_m};
constexpr int block_n = ${block_n};
constexpr int block_k = ${block_k};
constexpr int warps_m = ${warps_m};
constexpr int warps_n = ${warps_n};
constexpr int stages = ${stages};
// ---- end of parameters ----
#include "common/dependent_launch.cuh"
#include "common/hopper.cuh"

namespace {

static_assert(block_k == 64 || block_k == 128);
static_assert(!promotes || block_k == 128, "products of 128 k are promoted");
static_assert(scale_mode != 3 || promotes, "scales of blocks are factors of promoted products");
static_assert(block_m % (16 * warps_m) == 0 && block_n % (16 * warps_n) == 0 && stages >= 2);

constexpr int swap_ab = 0, cluster_m = 1, cluster_n = 1, cluster_k = 1, sharing_blocks = 1, cluster_blocks = 1;
constexpr int threads = 32 * warps_m * warps_n;
constexpr int tiles_m = block_m / warps_m / 16, tiles_n = block_n / warps_n / 8;  // m16n8 multiplications of a warp
constexpr int bytes_a = block_m * block_k, stage_bytes = (block_m + block_n) * block_k;
constexpr bool converts_pairs = true;
using Register = float;
using Sums = float[tiles_m][tiles_n][4];

}  // namespace

#include "gemm/device/pairs.cuh"
#include "gemm/device/hopper/hopper_schedule.cuh"
#include "gemm/device/pair_store.cuh"
#include "gemm/device/fp8_scales.cuh"
#include "gemm/device/fp8_epilogue.cuh"

namespace {

// An operand as lines along K.
struct Lines {
    const u8* data;  // lines of this batch
    i64 ld;
    int first, count, k;
};

template <int bytes>
__device__ __forceinline__ void copy_async(u32 to, const u8* from, int valid) {
    if constexpr (bytes == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(bytes), "r"(valid) : "memory");
}

// Copies sixteen bytes from `from` on; only the first `valid` belong to the operand, the others become zero. `base` must be
// readable.
template <int align>
__device__ __forceinline__ void copy_chunk(u32 to, const u8* from, const u8* base, int valid) {
    if constexpr (align >= 4) {
        constexpr int bytes = align;
#pragma unroll
        for (int i = 0; i < 16; i += bytes) {
            const int left = min(max(valid - i, 0), bytes);
            copy_async<bytes>(to + i, left > 0 ? from + i : base, left);
        }
    } else {
        u32 words[4];
#pragma unroll
        for (int word = 0; word < 4; ++word) {
            words[word] = 0;
#pragma unroll
            for (int i = 0; i < 4; ++i)
                if (word * 4 + i < valid) words[word] |= static_cast<u32>(from[word * 4 + i]) << (8 * i);
        }
        asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3]) : "memory");
    }
}

// The position of 16 bytes of a line in a tile. Chunks are permuted by the line's number, so that the same chunks of eight lines
// are in different banks.
__device__ __forceinline__ u32 place(int line, int chunk) {
    constexpr int chunks = block_k / 16, shift = block_k == 128 ? 0 : 1;
    return line * block_k + (chunk ^ (line >> shift & (chunks - 1))) * 16;
}

template <int extent, int align>
__device__ __forceinline__ void copy_lines(u32 to, const Lines& from, int k) {
    constexpr int chunks = block_k / 16, at_once = align == 16 ? 4 : 1;
#pragma unroll at_once
    for (int i = threadIdx.x; i < extent * chunks; i += threads) {
        const int line = i / chunks, chunk = i % chunks, at = from.first + line, column = k + chunk * 16;
        const int valid = at < from.count ? min(max(from.k - column, 0), 16) : 0;
        copy_chunk<align>(to + place(line, chunk), valid > 0 ? from.data + at * from.ld + column : from.data, from.data, valid);
    }
}

__device__ __forceinline__ void load_matrices(u32 address, u32* r) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address));
}

#define AT_MMA_FP8(types)                                                                                             \
    asm volatile("mma.sync.aligned.m16n8k32.row.col.f32." types ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, " \
                 "{%0, %1, %2, %3};"                                                                                  \
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                     \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
__device__ __forceinline__ void multiply_add(float* d, const u32* a, const u32* b) {
    if constexpr (is_same<A, e4m3> && is_same<B, e4m3>)
        AT_MMA_FP8("e4m3.e4m3");
    else if constexpr (is_same<A, e4m3>)
        AT_MMA_FP8("e4m3.e5m2");
    else if constexpr (is_same<B, e4m3>)
        AT_MMA_FP8("e5m2.e4m3");
    else
        AT_MMA_FP8("e5m2.e5m2");
}
#undef AT_MMA_FP8

// The start of a warp's part of a tile.
struct WarpPlace {
    int row, column, lane;
};

// sums += A B for one stage. ldmatrix treats 16 fp8 bytes of a line as 8 numbers of 16 bits, which gives the fragments the order
// that mma requires.
__device__ __forceinline__ void multiply_stage(Sums& sums, u32 stage, const WarpPlace& warp) {
#pragma unroll
    for (int kk = 0; kk < block_k / 32; ++kk) {
        u32 a[tiles_m][4], b[tiles_n][2];
#pragma unroll
        for (int i = 0; i < tiles_m; ++i)
            load_matrices(stage + place(warp.row + i * 16 + warp.lane % 16, kk * 2 + warp.lane / 16), a[i]);
#pragma unroll
        for (int j = 0; j < tiles_n; j += 2)
            load_matrices(stage + bytes_a + place(warp.column + j * 8 + warp.lane % 8 + warp.lane / 16 * 8, kk * 2 + (warp.lane / 8 & 1)), b[j]);
#pragma unroll
        for (int i = 0; i < tiles_m; ++i) {
#pragma unroll
            for (int j = 0; j < tiles_n; ++j) multiply_add(sums[i][j], a[i], b[j]);
        }
    }
}

__device__ __forceinline__ void clear(Sums& sums) {
#pragma unroll
    for (int i = 0; i < tiles_m * tiles_n * 4; ++i) sums[i / (tiles_n * 4)][i / 4 % tiles_n][i % 4] = 0.0f;
}

// Adds the products of one step of 128 k, times their scales, to the sums.
__device__ __forceinline__ void promote(Sums& sums, const Sums& products, const Scales& scales, const Extents& s, const Tile& tile,
                                        const WarpPlace& warp, int step) {
    float of_rows[tiles_m][2];
    if constexpr (scale_mode == 3) {
#pragma unroll
        for (int i = 0; i < 2 * tiles_m; ++i) {
            const int row = min(tile.m0 + warp.row + i / 2 * 16 + i % 2 * 8 + warp.lane / 4, s.m - 1);
            of_rows[i / 2][i % 2] = load_scale(scales.x + tile.batch * scales.of_x.batch + row * scales.of_x.line + step * scales.of_x.k);
        }
    }
#pragma unroll
    for (int j = 0; j < tiles_n; ++j) {
        float of_columns = 1.0f;
        if constexpr (scale_mode == 3) {
            const int block = min(tile.n0 + warp.column + j * 8, s.n - 1) / scale_block;
            of_columns = load_scale(scales.y + tile.batch * scales.of_y.batch + block * scales.of_y.line + step * scales.of_y.k);
        }
#pragma unroll
        for (int i = 0; i < tiles_m; ++i) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                if constexpr (scale_mode == 3)
                    sums[i][j][e] += products[i][j][e] * (of_rows[i][e / 2] * of_columns);
                else
                    sums[i][j][e] += products[i][j][e];
            }
        }
    }
}

__device__ __forceinline__ void store_tile(const Output& out, const Scales& scales, const Extents& s, const Tile& tile, const WarpPlace& warp,
                                           Epilogue& epilogue, const Sums& sums) {
#pragma unroll
    for (int i = 0; i < tiles_m; ++i) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = tile.m0 + warp.row + i * 16 + half * 8 + warp.lane / 4;
#pragma unroll
            for (int j = 0; j < tiles_n; ++j) {
                const int column = tile.n0 + warp.column + j * 8 + warp.lane % 4 * 2;
                epilogue.store_sums(out, s, tile, row, column, scales.applied(s, tile, row, column, out.alpha, pair_of(sums[i][j], half)));
            }
        }
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(threads)
    AUTOTUNE_ENTRY()(const u8* a, const u8* b, Out* c, float alpha, float beta, int m, int n, int k, i64 lda, i64 ldb, i64 ldc, int batch,
                     i64 stride_a, i64 stride_b, i64 stride_c, int count_m, int count_n, int group, int raster, const float* scale_a,
                     const float* scale_b, i64 scale_a_batch, i64 scale_a_line, i64 scale_a_k, i64 scale_b_batch, i64 scale_b_line,
                     i64 scale_b_k AUTOTUNE_EPILOGUE_PARAMETERS) {
    extern __shared__ __align__(1024) unsigned char shared[];
    const u32 ring = hopper::smem_address(shared);
    dependent_launch::wait_for_earlier_grids();
    dependent_launch::let_next_grid_start();
    const Scales scales{scale_a, scale_b, {scale_a_batch, scale_a_line, scale_a_k}, {scale_b_batch, scale_b_line, scale_b_k}};
    const Output out{c, nullptr, hopper::policy_normal, scales.of_tensors(alpha), beta, ldc, stride_c, nullptr, nullptr};
    Epilogue epilogue(AUTOTUNE_EPILOGUE_ADDRESSES);
    const Extents shape{m, n, k, batch, count_m, count_n, count_m * count_n * batch, 1, group, raster};
    const int warp = threadIdx.x / 32;
    const WarpPlace place_of_warp{warp % warps_m * (block_m / warps_m), warp / warps_m * (block_n / warps_n), static_cast<int>(threadIdx.x % 32)};
    Schedule schedule(shape, 0);
    Work work;
    while (schedule.next(work)) {
        const Tile tile = schedule.tile(work);
        const Lines lines_a{a + tile.batch * stride_a, lda, tile.m0, m, k}, lines_b{b + tile.batch * stride_b, ldb, tile.n0, n, k};
        const auto load = [&](int step) {
            if (step < work.steps) {
                const u32 stage = ring + step % stages * stage_bytes;
                copy_lines<block_m, align_a>(stage, lines_a, step * block_k);
                copy_lines<block_n, align_b>(stage + bytes_a, lines_b, step * block_k);
            }
            asm volatile("cp.async.commit_group;" ::: "memory");
        };
        Sums sums;
        clear(sums);
#pragma unroll
        for (int step = 0; step < stages - 1; ++step) load(step);
#pragma unroll 1
        for (int step = 0; step < work.steps; ++step) {
            asm volatile("cp.async.wait_group %0;" ::"n"(stages - 2) : "memory");
            __syncthreads();
            load(step + stages - 1);
            const u32 stage = ring + step % stages * stage_bytes;
            if constexpr (promotes) {
                Sums products;
                clear(products);
                multiply_stage(products, stage, place_of_warp);
                promote(sums, products, scales, shape, tile, place_of_warp, step);
            } else {
                multiply_stage(sums, stage, place_of_warp);
            }
        }
        asm volatile("cp.async.wait_group 0;" ::: "memory");
        __syncthreads();  // all warps have finished with the last stages
        store_tile(out, scales, shape, tile, place_of_warp, epilogue, sums);
    }
    epilogue.raise_amax();
}
