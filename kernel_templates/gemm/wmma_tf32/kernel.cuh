// C = alpha A B + beta C with f32 operands on wmma.mma m16n16k8 of tf32, for sm_80 and later. A block computes block_m x block_n
// of C. Its warps_m x warps_n warps, each with a grid of wmma tiles, read tiles of A and B from shared memory, where they have
// the layout of global memory, through `stages` buffers that cp.async fills.
#include "common/ptx.cuh"
#include "common/types.cuh"
// clang-format off
#define AUTOTUNE_KERNEL ${symbol}
using In = ${in_type};
using Out = ${out_type};
constexpr bool trans_a = ${trans_a};  // A is stored [K, M]
constexpr bool trans_b = ${trans_b};  // B is stored [N, K]
constexpr int align_a = ${align_a};   // bytes; divides every row's address
constexpr int align_b = ${align_b};
constexpr int align_c = ${align_c};
constexpr int reads_c = ${reads_c};  // 0: beta is known to be 0; reading C is compiled out
constexpr int block_m = ${block_m};
constexpr int block_n = ${block_n};
constexpr int block_k = ${block_k};
constexpr int warps_m = ${warps_m};
constexpr int warps_n = ${warps_n};
constexpr int stages = ${stages};
constexpr int smem_pad = ${smem_pad};
constexpr bool dsmem = ${dsmem};
// clang-format on
// ---- end of parameters ----
#include "gemm/device/block_order.cuh"
#include "gemm/device/store_run.cuh"

namespace {

static_assert(is_same<In, f32> && is_same<Out, f32>, "operands and results are f32");
constexpr int threads = 32 * warps_m * warps_n;
constexpr int warp_m = block_m / warps_m;
constexpr int warp_n = block_n / warps_n;
constexpr int tiles_m = warp_m / 16;  // wmma tiles of a warp
constexpr int tiles_n = warp_n / 16;
static_assert(block_m % (16 * warps_m) == 0 && block_n % (16 * warps_n) == 0, "a warp's tile is whole wmma tiles");
static_assert(block_k % 8 == 0 && smem_pad % 4 == 0, "whole wmma steps, rows of whole 16 bytes");

// ---- global memory to shared memory ----

// Copies the tiles along K one after another: `extent` lines by block_k, or block_k by `extent`, in the operand's own order.
// Elements outside the operand are never read; zeros replace them.
template <int extent, bool k_contiguous, int access>
struct Copier {
    static constexpr int rows = k_contiguous ? extent : block_k;
    static constexpr int cols = k_contiguous ? block_k : extent;
    static constexpr int ld_tile = cols + smem_pad;
    static constexpr int bytes = rows * ld_tile * 4;
    static constexpr int chunks = cols / 4;
    static constexpr int passes = (rows * chunks + threads - 1) / threads;

    const f32* source;  // the tile's first element
    i64 ld;
    int rows_left, cols_left;

    __device__ __forceinline__ Copier(const f32* base, i64 stride, int first, int count, int k)
        : source(base + (k_contiguous ? first * stride : first)),
          ld(stride),
          rows_left(k_contiguous ? count - first : k),
          cols_left(k_contiguous ? k : count - first) {}

    __device__ __forceinline__ void start(u32 stage) {
#pragma unroll
        for (int pass = 0; pass < passes; ++pass) {
            const int at = static_cast<int>(threadIdx.x) + pass * threads;
            if (rows * chunks % threads != 0 && at >= rows * chunks) break;
            const int row = at / chunks, col = at % chunks * 4;
            const int valid = row < rows_left ? 4 * max(0, min(4, cols_left - col)) : 0;
#pragma unroll
            for (int byte = 0; byte < 16; byte += access)
                ptx::cp_async<access>(stage + (row * ld_tile + col) * 4 + byte, source + row * ld + col + byte / 4,
                                      max(0, min(access, valid - byte)));
        }
        source += k_contiguous ? block_k : ld * block_k;
        (k_contiguous ? cols_left : rows_left) -= block_k;
    }
};
using CopyA = Copier<block_m, !trans_a, align_a>;
using CopyB = Copier<block_n, trans_b, align_b>;
constexpr int stage_bytes = CopyA::bytes + CopyB::bytes;

// C is stored by rows of tiles, each warp through its own slab, which reuses the buffers' memory.
constexpr int slab_ld = warp_n + 4;
constexpr int slab_bytes = 16 * slab_ld * 4;
constexpr int slabs_bytes = warps_m * warps_n * slab_bytes;
constexpr int smem_bytes = stages * stage_bytes > slabs_bytes ? stages * stage_bytes : slabs_bytes;

// ---- wmma m16n16k8 ----

#define AT_LOAD(operand, layout)                                                                                      \
    asm volatile("wmma.load." operand ".sync.aligned." layout ".m16n16k8.shared.tf32 {%0, %1, %2, %3}, [%4], %5;"     \
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])                                                 \
                 : "r"(address), "r"(stride)                                                                          \
                 : "memory")
__device__ __forceinline__ void load_a(u32 (&to)[4], u32 address, int stride) {
    if constexpr (trans_a)
        AT_LOAD("a", "col");
    else
        AT_LOAD("a", "row");
}
__device__ __forceinline__ void load_b(u32 (&to)[4], u32 address, int stride) {
    if constexpr (trans_b)
        AT_LOAD("b", "col");
    else
        AT_LOAD("b", "row");
}

#define AT_MULTIPLY(layouts)                                                                                                    \
    asm("wmma.mma.sync.aligned." layouts ".m16n16k8.f32.tf32.tf32.f32 {%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9, %10, %11}, "   \
        "{%12, %13, %14, %15}, {%0, %1, %2, %3, %4, %5, %6, %7};"                                                               \
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7]) \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]))
__device__ __forceinline__ void multiply_add(float (&sums)[8], const u32 (&a)[4], const u32 (&b)[4]) {
    if constexpr (trans_a && trans_b)
        AT_MULTIPLY("col.col");
    else if constexpr (trans_a)
        AT_MULTIPLY("col.row");
    else if constexpr (trans_b)
        AT_MULTIPLY("row.col");
    else
        AT_MULTIPLY("row.row");
}

__device__ __forceinline__ void store(u32 address, const float (&sums)[8], int stride) {
    asm volatile("wmma.store.d.sync.aligned.row.m16n16k8.shared.f32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8}, %9;" ::"r"(address),
                 "f"(sums[0]), "f"(sums[1]), "f"(sums[2]), "f"(sums[3]), "f"(sums[4]), "f"(sums[5]), "f"(sums[6]), "f"(sums[7]),
                 "r"(stride)
                 : "memory");
}

// ---- a tile's products ----

struct WarpTile {
    float sums[tiles_m][tiles_n][8] = {};
    u32 first_a, first_b;  // the offset in bytes of this warp's part of A and B in a stage

    __device__ __forceinline__ WarpTile() {
        const int row = static_cast<int>(threadIdx.x) / 32 / warps_n * warp_m;
        const int col = static_cast<int>(threadIdx.x) / 32 % warps_n * warp_n;
        first_a = (trans_a ? row : row * CopyA::ld_tile) * 4;
        first_b = CopyA::bytes + (trans_b ? col * CopyB::ld_tile : col) * 4;
    }

    __device__ __forceinline__ void multiply(u32 stage) {
#pragma unroll
        for (int k = 0; k < block_k; k += 8) {
            u32 a[tiles_m][4], b[tiles_n][4];
#pragma unroll
            for (int i = 0; i < tiles_m; ++i) {
                const int at = trans_a ? k * CopyA::ld_tile + i * 16 : i * 16 * CopyA::ld_tile + k;
                load_a(a[i], stage + first_a + at * 4, CopyA::ld_tile);
            }
#pragma unroll
            for (int j = 0; j < tiles_n; ++j) {
                const int at = trans_b ? j * 16 * CopyB::ld_tile + k : k * CopyB::ld_tile + j * 16;
                load_b(b[j], stage + first_b + at * 4, CopyB::ld_tile);
            }
#pragma unroll
            for (int i = 0; i < tiles_m; ++i) {
#pragma unroll
                for (int j = 0; j < tiles_n; ++j) multiply_add(sums[i][j], a[i], b[j]);
            }
        }
    }
};

// ---- the main loop ----

// With one buffer nothing overlaps. In a ring of several, tile t has arrived after the barrier, and no warp reads tile t - 1,
// which the next copies overwrite. Copies past the end of K write zeros that are never read.
__device__ __forceinline__ void run(WarpTile& tile, CopyA& copy_a, CopyB& copy_b, u32 buffers, int count) {
    u32 write = 0, read = 0;
    const auto start = [&] {
        copy_a.start(buffers + write);
        copy_b.start(buffers + write + CopyA::bytes);
        ptx::cp_async_commit();
        write = write == (stages - 1) * stage_bytes ? 0 : write + stage_bytes;
    };
#pragma unroll 1
    for (int stage = 0; stage + 1 < stages; ++stage) start();
#pragma unroll 1
    for (; count > 0; --count) {
        if constexpr (stages == 1) {
            __syncthreads();
            start();
        }
        ptx::cp_async_wait<stages == 1 ? 0 : stages - 2>();
        __syncthreads();
        if constexpr (stages > 1) start();
        tile.multiply(buffers + read);
        read = read == (stages - 1) * stage_bytes ? 0 : read + stage_bytes;
    }
    ptx::cp_async_wait<0>();
}

// ---- results ----

// `c` is the corner of this warp's tile; `rows` x `cols` of C begin there.
__device__ __forceinline__ void store_tile(const WarpTile& tile, f32* slab, f32* c, i64 ldc, f32 alpha, f32 beta, int rows, int cols) {
    constexpr int width = align_c / 4;
    constexpr int runs = warp_n / width;
#pragma unroll
    for (int i = 0; i < tiles_m; ++i) {
#pragma unroll
        for (int j = 0; j < tiles_n; ++j) store(ptx::shared_address(slab + j * 16), tile.sums[i][j], slab_ld);
        __syncwarp();
#pragma unroll 2
        for (int at = static_cast<int>(threadIdx.x) % 32; at < 16 * runs; at += 32) {
            const int row = at / runs;
            const int col = at % runs * width;
            if (i * 16 + row < rows)
                store_run<width>(slab + row * slab_ld + col, c + (i * 16 + row) * ldc + col, alpha, beta, cols - col);
        }
        __syncwarp();
    }
}

__device__ __forceinline__ char* shared_memory() {
    if constexpr (dsmem) {
        extern __shared__ __align__(128) char dynamic_memory[];
        return dynamic_memory;
    } else {
        __shared__ __align__(128) char static_memory[smem_bytes];
        return static_memory;
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(threads)
    AUTOTUNE_ENTRY()(const f32* a, const f32* b, f32* c, float alpha, float beta, int m, int n, int k, i64 lda, i64 ldb, i64 ldc,
                     int batch, i64 stride_a, i64 stride_b, i64 stride_c, void* workspace, int raster, int group) {
    char* const shared = shared_memory();
    if constexpr (!reads_c) beta = 0;
    const BlockTile at = block_tile<block_m, block_n>(m, n, {raster, group});
    WarpTile tile;
    CopyA copy_a(a + at.slice * stride_a, lda, at.row, m, k);
    CopyB copy_b(b + at.slice * stride_b, ldb, at.col, n, k);
    run(tile, copy_a, copy_b, ptx::shared_address(shared), (k + block_k - 1) / block_k);

    __syncthreads();  // the slabs overwrite the buffers
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int row = at.row + warp / warps_n * warp_m;
    const int col = at.col + warp % warps_n * warp_n;
    f32* const slab = reinterpret_cast<f32*>(shared + warp * slab_bytes);
    store_tile(tile, slab, c + at.slice * stride_c + row * ldc + col, ldc, alpha, beta, m - row, n - col);
}
