// gemm/wmma: C = alpha * A * B + beta * C on wmma.mma, for sm_80 and later. A block computes block_m x block_n of C. Its warps_m
// x warps_n warps, each with a grid of wmma tiles, read tiles of A and B from shared memory, where they have the layout of global
// memory, through `stages` buffers.
#include "common/ptx.cuh"
#include "common/types.cuh"
#include "common/wmma.cuh"
// clang-format off
#define AUTOTUNE_KERNEL ${symbol}
using In = ${in_type};
using Out = ${out_type};
using Acc = ${acc_type};
constexpr bool trans_a = ${trans_a};  // A is stored [K, M]
constexpr bool trans_b = ${trans_b};  // B is stored [N, K]
constexpr int align_a = ${align_a};   // bytes; divides every row's address
constexpr int align_b = ${align_b};
constexpr int align_c = ${align_c};
constexpr int reads_c = ${reads_c};  // 0: beta is known to be 0; reading C is compiled out
constexpr int wmma_m = ${wmma_m};
constexpr int block_m = ${block_m};
constexpr int block_n = ${block_n};
constexpr int block_k = ${block_k};
constexpr int warps_m = ${warps_m};
constexpr int warps_n = ${warps_n};
constexpr bool cp_async = ${cp_async};
constexpr int stages = ${stages};
constexpr int smem_pad = ${smem_pad};
constexpr bool dsmem = ${dsmem};
constexpr int min_blocks = ${min_blocks};
// ---- end of parameters ----
// clang-format on
#include "gemm/device/block_order.cuh"
#include "gemm/device/prefetch_c.cuh"
#include "gemm/device/store_run.cuh"
#include "gemm/device/tile_copy.cuh"

constexpr int wmma_n = 256 / wmma_m;
constexpr int wmma_k = 16;
constexpr int threads = 32 * warps_m * warps_n;
constexpr int warp_m = block_m / warps_m;
constexpr int warp_n = block_n / warps_n;
constexpr int tiles_m = warp_m / wmma_m;  // wmma tiles of a warp
constexpr int tiles_n = warp_n / wmma_n;

static_assert(block_m % (wmma_m * warps_m) == 0 && block_n % (wmma_n * warps_n) == 0, "a warp's tile is whole wmma tiles");
static_assert(block_k % wmma_k == 0, "a tile is whole wmma steps");
static_assert(cp_async || stages <= 2, "tiles that pass through registers have one buffer or two");

constexpr int ld_a = (trans_a ? block_m : block_k) + smem_pad;
constexpr int ld_b = (trans_b ? block_k : block_n) + smem_pad;
using CopyA = TileCopy<In, block_m, block_k, !trans_a, ld_a, threads, align_a>;
using CopyB = TileCopy<In, block_n, block_k, trans_b, ld_b, threads, align_b>;
constexpr int stage_bytes = CopyA::bytes + CopyB::bytes;

// C is stored by rows of tiles, each warp through its own slab, which reuses the buffers' memory.
constexpr int slab_ld = warp_n + 16 / static_cast<int>(sizeof(Acc));
constexpr int slab_bytes = wmma_m * slab_ld * static_cast<int>(sizeof(Acc));
constexpr int slabs_bytes = warps_m * warps_n * slab_bytes;
constexpr int smem_bytes = stages * stage_bytes > slabs_bytes ? stages * stage_bytes : slabs_bytes;

// ---- a tile's products ----

struct WarpTile {
    wmma::Sums<Acc> sums[tiles_m][tiles_n];
    u32 first_a, first_b;  // the offset in bytes of this warp's part of A and B in a stage

    __device__ __forceinline__ WarpTile() {
        const int row = threadIdx.x / 32 / warps_n * warp_m;
        const int col = threadIdx.x / 32 % warps_n * warp_n;
        first_a = (trans_a ? row : row * ld_a) * 2;
        first_b = CopyA::bytes + (trans_b ? col * ld_b : col) * 2;
    }

    __device__ __forceinline__ void multiply(u32 stage) {
#pragma unroll
        for (int k = 0; k < block_k; k += wmma_k) {
            u32 a[tiles_m][wmma::operand_registers<In>(wmma_m)];
            u32 b[tiles_n][wmma::operand_registers<In>(wmma_n)];
#pragma unroll
            for (int i = 0; i < tiles_m; ++i) {
                const int at = trans_a ? k * ld_a + i * wmma_m : i * wmma_m * ld_a + k;
                wmma::load_a<In, wmma_m, !trans_a>(a[i], stage + first_a + at * 2, ld_a);
            }
#pragma unroll
            for (int j = 0; j < tiles_n; ++j) {
                const int at = trans_b ? j * wmma_n * ld_b + k : k * ld_b + j * wmma_n;
                wmma::load_b<In, wmma_m, !trans_b>(b[j], stage + first_b + at * 2, ld_b);
            }
#pragma unroll
            for (int i = 0; i < tiles_m; ++i) {
#pragma unroll
                for (int j = 0; j < tiles_n; ++j) wmma::multiply<In, wmma_m, !trans_a, !trans_b>(sums[i][j], a[i], b[j]);
            }
        }
    }
};

// ---- the main loop, one version for each way of filling the buffers ----

struct Copies {
    CopyA a;
    CopyB b;

    struct Held {
        CopyA::Held a;
        CopyB::Held b;
    };
    __device__ __forceinline__ void read(Held& held) {
        a.read(held.a);
        b.read(held.b);
    }
    __device__ __forceinline__ void write(const Held& held, u32 stage) const {
        a.write(held.a, stage);
        b.write(held.b, stage + CopyA::bytes);
    }
    __device__ __forceinline__ void start(u32 stage) {
        a.start(stage);
        b.start(stage + CopyA::bytes);
        ptx::cp_async_commit();
    }
};

// Copies each tile and then multiplies it, without overlap.
__device__ __forceinline__ void run_one_buffer(WarpTile& tile, Copies& copies, u32 buffer, int count) {
#pragma unroll 1
    for (; count > 0; --count) {
        if constexpr (cp_async) {
            copies.start(buffer);
            ptx::cp_async_wait<0>();
        } else {
            Copies::Held held;
            copies.read(held);
            copies.write(held, buffer);
        }
        __syncthreads();
        tile.multiply(buffer);
        __syncthreads();
    }
}

// Loads the next tile into registers while this one is multiplied.
__device__ __forceinline__ void run_two_buffers(WarpTile& tile, Copies& copies, u32 buffer, int count) {
    Copies::Held held;
    copies.read(held);
    copies.write(held, buffer);
    __syncthreads();
    u32 other = stage_bytes;
#pragma unroll 1
    for (; count > 0; --count) {
        copies.read(held);
        tile.multiply(buffer);
        copies.write(held, buffer + other);
        __syncthreads();
        buffer += other;
        other = -other;
    }
}

// A ring of cp.async groups. After the barrier tile t has arrived, and no warp reads tile t - 1, which the next copies overwrite.
// Copies past the end of K write zeros that are never read.
__device__ __forceinline__ void run_ring(WarpTile& tile, Copies& copies, u32 ring, int count) {
    u32 write = ring;
#pragma unroll 1
    for (int stage = 0; stage + 1 < stages; ++stage, write += stage_bytes) copies.start(write);
    u32 read = ring;
#pragma unroll 1
    for (; count > 0; --count) {
        ptx::cp_async_wait<stages - 2>();
        __syncthreads();
        copies.start(write);
        tile.multiply(read);
        read = read == ring + (stages - 1) * stage_bytes ? ring : read + stage_bytes;
        write = write == ring + (stages - 1) * stage_bytes ? ring : write + stage_bytes;
    }
    ptx::cp_async_wait<0>();
}

__device__ __forceinline__ void run(WarpTile& tile, Copies& copies, u32 buffers, int count) {
    if constexpr (stages == 1) {
        run_one_buffer(tile, copies, buffers, count);
    } else if constexpr (cp_async) {
        run_ring(tile, copies, buffers, count);
    } else {
        run_two_buffers(tile, copies, buffers, count);
    }
}

// ---- results ----

constexpr int width_c = align_c / static_cast<int>(sizeof(Out));

constexpr int runs = warp_n / width_c;                // runs in a row of a warp's tile
constexpr int lane_runs = (wmma_m * runs + 31) / 32;  // runs per lane in a row of wmma tiles
constexpr int most_held = reads_c ? 8 : 2;
constexpr int held_runs = lane_runs < most_held ? lane_runs : most_held;  // runs of C that a lane reads before it stores the first
using Held = Pack<Out, width_c>[held_runs];

// Reads a lane's runs of C from `at` on. `c` is the corner of a row of wmma tiles; `rows` x `cols` of C begin there.
__device__ __forceinline__ void read_runs(Held& held, int at, const Out* c, i64 ldc, int rows, int cols) {
#pragma unroll
    for (int r = 0; r < held_runs; ++r, at += 32) {
        const int row = at / runs, col = at % runs * width_c;
        if (at < wmma_m * runs && row < rows) held[r] = read_run<width_c>(c + row * ldc + col, cols - col);
    }
}

// `c` is the corner of this warp's tile; `rows` x `cols` of C begin there.
__device__ __forceinline__ void store_tile(const WarpTile& tile, Acc* slab, Out* c, i64 ldc, f32 alpha, f32 beta, int rows, int cols) {
#pragma unroll
    for (int i = 0; i < tiles_m; ++i) {
#pragma unroll
        for (int j = 0; j < tiles_n; ++j)
            wmma::store<wmma_m>(ptx::shared_address(slab + j * wmma_n), tile.sums[i][j], slab_ld);
        __syncwarp();
        Out* const corner = c + i * wmma_m * ldc;
#pragma unroll 1
        for (int from = threadIdx.x % 32; from < wmma_m * runs; from += 32 * held_runs) {
            Held held;
            if (beta != 0.0F) read_runs(held, from, corner, ldc, rows - i * wmma_m, cols);
#pragma unroll
            for (int r = 0; r < held_runs; ++r) {
                const int at = from + r * 32, row = at / runs, col = at % runs * width_c;
                if (at < wmma_m * runs && i * wmma_m + row < rows)
                    store_run<width_c>(slab + row * slab_ld + col, held[r], corner + row * ldc + col, alpha, beta, cols - col);
            }
        }
        __syncwarp();
    }
}

// ---- entry ----

__device__ __forceinline__ char* shared_memory() {
    if constexpr (dsmem) {
        extern __shared__ __align__(128) char dynamic_memory[];
        return dynamic_memory;
    } else {
        __shared__ __align__(128) char static_memory[smem_bytes];
        return static_memory;
    }
}

// The arguments up to `workspace` are the same for every gemm family.
extern "C" __global__ void __launch_bounds__(threads, min_blocks)
    AUTOTUNE_ENTRY()(const In* a, const In* b, Out* c, float alpha, float beta, int m, int n, int k, i64 lda, i64 ldb, i64 ldc,
                     int batch, i64 stride_a, i64 stride_b, i64 stride_c, void* workspace, int raster, int group) {
    char* const shared = shared_memory();
    if constexpr (!reads_c) beta = 0;
    const BlockTile at = block_tile<block_m, block_n>(m, n, {raster, group});
    const int warp = threadIdx.x / 32;
    const int row = at.row + warp / warps_n * warp_m;
    const int col = at.col + warp % warps_n * warp_n;
    Out* const corner = c + at.slice * stride_c + row * ldc + col;
    if (beta != 0.0F) prefetch_c<warp_n>(corner, ldc, min(warp_m, m - row), min(warp_n, n - col), threadIdx.x % 32, 32);
    WarpTile tile;
    Copies copies = {{a + at.slice * stride_a, lda, at.row, m, k}, {b + at.slice * stride_b, ldb, at.col, n, k}};
    run(tile, copies, ptx::shared_address(shared), (k + block_k - 1) / block_k);

    __syncthreads();  // the slabs overwrite the buffers
    Acc* const slab = reinterpret_cast<Acc*>(shared + warp * slab_bytes);
    store_tile(tile, slab, corner, ldc, alpha, beta, m - row, n - col);
}
