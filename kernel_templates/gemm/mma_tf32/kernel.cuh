// C = alpha A B + beta C with f32 operands on mma.sync m16n8k8 of tf32, for sm_80 and later. terms = 1: each operand is truncated
// to tf32. terms = 3: each is split into two tf32 parts, and three of their four products are summed. Sums over `promote_k` of K
// are then added, with rounding, to sums on CUDA cores, because tensor cores truncate theirs. A block computes block_m x block_n
// of C: cp.async fills a ring of tiles in the operands' own order. Fragments are loaded by ldmatrix from lines that are
// contiguous along K, and otherwise by loads of two rows or one column, so that they have the registers that mma requires.
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
constexpr int reads_c = ${reads_c};   // 0: beta is known to be 0; reading C is compiled out
constexpr int terms = ${terms};
constexpr int block_m = ${block_m};
constexpr int block_n = ${block_n};
constexpr int block_k = ${block_k};
constexpr int warps_m = ${warps_m};
constexpr int warps_n = ${warps_n};
constexpr int stages = ${stages};
constexpr int promote_k = ${promote_k};
constexpr int min_blocks = ${min_blocks};
// clang-format on
// ---- end of parameters ----
static_assert(is_same<In, f32> && is_same<Out, f32>, "operands and results are f32");
#include "gemm/device/block_order.cuh"
#include "gemm/device/f32_split.cuh"
#include "gemm/device/store_run.cuh"

namespace {

constexpr int threads = 32 * warps_m * warps_n;
constexpr int warp_m = block_m / warps_m;
constexpr int warp_n = block_n / warps_n;
constexpr int tiles_m = warp_m / 16;  // mma tiles of a warp
constexpr int tiles_n = warp_n / 8;
constexpr int steps_k = block_k / 8;
constexpr int chunk = 4;  // elements of 16 bytes
static_assert(warp_m % 32 == 0 && warp_n % 32 == 0, "a warp's tile is a multiple of 32x32");
static_assert((block_k == 16 || block_k == 32) && stages >= 2, "whole steps, a ring of at least two tiles");
static_assert(promote_k % 8 == 0 && block_k % promote_k == 0, "sums are promoted within a tile");

// ---- an operand's tile in shared memory ----

// A tile of `extent` lines (rows of A, columns of B) by block_k of K, stored in the operand's own order. Chunks are XORed so that
// lanes that read or write together use all banks: eight rows of 16 bytes for ldmatrix, and four rows of 32 bytes for other
// accesses.
template <int extent, bool k_contiguous>
struct Tile {
    static constexpr int rows = k_contiguous ? extent : block_k;
    static constexpr int cols = k_contiguous ? block_k : extent;
    static constexpr int chunks = cols / chunk;
    static constexpr int row_bytes = cols * 4;
    static constexpr int bytes = rows * row_bytes;

    static __device__ __forceinline__ constexpr int flip(int row) {
        if (!k_contiguous) return row % 4 * 2;
        return block_k == 32 ? row % 8 : row / 2 % 4;
    }
    static __device__ __forceinline__ int offset(int row, int at) { return row * row_bytes + (at ^ flip(row)) * 16; }
};
using TileA = Tile<block_m, !trans_a>;
using TileB = Tile<block_n, trans_b>;
constexpr int stage_bytes = TileA::bytes + TileB::bytes;

// ---- global memory to shared memory ----

// Copies the tiles along K one after another. Elements outside the operand are never read; zeros replace them.
template <int extent, bool k_contiguous, int access>
struct Copier {
    using T = Tile<extent, k_contiguous>;
    static_assert(threads % T::chunks == 0, "a pass is whole rows");
    static constexpr int rows_a_pass = threads / T::chunks;
    static constexpr int passes = (T::rows + rows_a_pass - 1) / rows_a_pass;
    static constexpr bool is_even = T::rows % rows_a_pass == 0;

    // The address of this thread's chunk in the next pass; only one is kept, because there are not enough registers.
    const f32* source;
    i64 row_step;       // the distance from pass to pass, in elements
    i64 tile_step;      // the distance from the last pass to the next tile's first
    int row, at;        // in the tile
    int rows_left;      // rows of the operand from this thread's first row to the end
    int cols_left;      // elements of a row from this thread's chunk to the end

    __device__ __forceinline__ Copier(const f32* base, i64 ld, int first, int count, int k)
        : row(static_cast<int>(threadIdx.x) / T::chunks), at(static_cast<int>(threadIdx.x) % T::chunks) {
        source = base + ((k_contiguous ? first : 0) + row) * ld + (k_contiguous ? 0 : first) + at * chunk;
        row_step = ld * rows_a_pass;
        tile_step = (k_contiguous ? block_k : ld * block_k) - row_step * (passes - 1);
        rows_left = (k_contiguous ? count - first : k) - row;
        cols_left = (k_contiguous ? k : count - first) - at * chunk;
    }

    __device__ __forceinline__ void copy_tile(u32 stage) {
#pragma unroll
        for (int pass = 0; pass < passes; ++pass) {
            const int valid = pass * rows_a_pass < rows_left ? 4 * max(0, min(chunk, cols_left)) : 0;
            if (is_even || pass * rows_a_pass + row < T::rows) {
                const u32 to = stage + T::offset(row + pass * rows_a_pass, at);
#pragma unroll
                for (int byte = 0; byte < 16; byte += access)
                    ptx::cp_async<access>(to + byte, source + byte / 4, max(0, min(access, valid - byte)));
            }
            source += pass + 1 < passes ? row_step : tile_step;
        }
        (k_contiguous ? cols_left : rows_left) -= block_k;
    }
};
using CopierA = Copier<block_m, !trans_a, align_a>;
using CopierB = Copier<block_n, trans_b, align_b>;

// ---- shared memory to registers ----

// Lane 4 r + t has rows r and r + 8 of an mma's A, column r of its B, and of both k = t and t + 4. If A's rows are contiguous in
// memory, rows r and r + 8 of an mma are rows 2 r and 2 r + 1 of the 16.
__device__ __forceinline__ int lane_r() { return static_cast<int>(threadIdx.x) % 32 / 4; }
__device__ __forceinline__ int lane_t() { return static_cast<int>(threadIdx.x) % 4; }

// The elements of a warp's lines for one mma step: quads of 16 lines for A, and of two times 8 for B.
template <int extent, bool k_contiguous, int lines, bool is_a>
struct Fragments {
    using T = Tile<extent, k_contiguous>;
    static constexpr int quads = lines / 16;
    static constexpr int distinct = k_contiguous ? steps_k : 1;

    u32 base;  // the address of this lane's first element in a stage

    // For ldmatrix each lane gives the address of one row of a quad's four matrices.
    __device__ __forceinline__ explicit Fragments(int first_line) {
        const int lane = static_cast<int>(threadIdx.x) % 32;
        if constexpr (k_contiguous) {
            const int row = first_line + (is_a ? lane % 16 : lane % 8 + lane / 16 * 8);
            base = row * T::row_bytes + ((is_a ? lane / 16 : lane / 8 % 2) ^ T::flip(row)) * 16;
        } else {
            const int line = first_line + (is_a ? 2 * lane_r() : lane_r());
            base = lane_t() * T::row_bytes + ((line / chunk) ^ T::flip(lane_t())) * 16 + line % chunk * 4;
        }
    }

    __device__ __forceinline__ void load(u32 (&to)[quads][4], u32 tile, int step) const {
#pragma unroll
        for (int i = 0; i < quads; ++i) {
            if constexpr (k_contiguous) {
                // The step only changes bits of the chunk's number above the lane's own, so XOR with the row's bits works as for
                // any other step.
                ptx::ldmatrix_x4(to[i], tile + i * 16 * T::row_bytes + (base ^ step * 32));
            } else {
                // Sixteen lines are four chunks. The XOR changes two bits: the bit of the second eight lines and the bit of the
                // next sixteen lines.
                const u32 first = tile + step * 8 * T::row_bytes + i / 2 * 128;
                const u32 at = base ^ i % 2 * 64;
                if constexpr (is_a) {
                    load_two(to[i][0], to[i][1], first + at);
                    load_two(to[i][2], to[i][3], first + at + 4 * T::row_bytes);
                } else {
#pragma unroll
                    for (int half = 0; half < 2; ++half) {
                        load_one(to[i][2 * half], first + (at ^ half * 32));
                        load_one(to[i][2 * half + 1], first + (at ^ half * 32) + 4 * T::row_bytes);
                    }
                }
            }
        }
    }

    static __device__ __forceinline__ void load_two(u32& a, u32& b, u32 address) {
        asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(a), "=r"(b) : "r"(address) : "memory");
    }
    static __device__ __forceinline__ void load_one(u32& a, u32 address) {
        asm volatile("ld.shared.u32 %0, [%1];" : "=r"(a) : "r"(address) : "memory");
    }
};
using FragmentsA = Fragments<block_m, !trans_a, warp_m, true>;
using FragmentsB = Fragments<block_n, trans_b, warp_n, false>;

// The positions of an accumulator's elements in the warp's tile.
__device__ __forceinline__ int row_of(int i, int upper) { return i * 16 + (trans_a ? 2 * lane_r() + upper : lane_r() + 8 * upper); }
__device__ __forceinline__ int col_of(int j, int odd) { return j * 8 + 2 * lane_t() + odd; }

// ---- sums ----

// Buffers of fragments: with parts of f32 there are not enough registers for a second
constexpr int buffers = terms == 1 ? 2 : 1;

struct WarpTile {
    float acc[tiles_m][tiles_n][4];
    u32 a[buffers][tiles_m][4];
    u32 b[buffers][tiles_n / 2][4];

    __device__ __forceinline__ WarpTile() {
#pragma unroll
        for (int i = 0; i < tiles_m * tiles_n * 4; ++i) acc[i / 4 / tiles_n][i / 4 % tiles_n][i % 4] = 0.0F;
    }

    __device__ __forceinline__ void load(int buffer, const FragmentsA& from_a, const FragmentsB& from_b, u32 stage, int step) {
        from_b.load(b[buffer], stage + TileA::bytes, step);
        from_a.load(a[buffer], stage, step);
    }

    // Visits columns back and forth, so that consecutive mma share an operand.
    __device__ __forceinline__ void multiply(int buffer) {
#pragma unroll
        for (int i = 0; i < tiles_m; ++i) {
#pragma unroll
            for (int n = 0; n < tiles_n; ++n) {
                const int j = i % 2 == 0 ? n : tiles_n - 1 - n;
                mma_m16n8k8_tf32(acc[i][j], a[buffer][i], b[buffer][j / 2][j % 2 * 2], b[buffer][j / 2][j % 2 * 2 + 1]);
            }
        }
    }

    // Small products first. Each round of mma covers all columns, so that none waits for the previous mma of the same sum. The
    // sums of one step, or of two if promote_k is 16, are added to the final ones.
    __device__ __forceinline__ void multiply_parts(float (&sums)[tiles_m][tiles_n][4], bool begins, bool ends) {
        u32 high_b[tiles_n][2], low_b[tiles_n][2];
#pragma unroll
        for (int j = 0; j < tiles_n * 2; ++j) {
            const TwoParts parts = split_in_two(b[0][j / 4][j % 4]);
            high_b[j / 2][j % 2] = parts.high;
            low_b[j / 2][j % 2] = parts.low;
        }
#pragma unroll
        for (int i = 0; i < tiles_m; ++i) {
            u32 high[4], low[4];
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const TwoParts parts = split_in_two(a[0][i][e]);
                high[e] = parts.high;
                low[e] = parts.low;
            }
#pragma unroll
            for (int j = 0; j < tiles_n; ++j) {
                if (begins) sums[i][j][0] = sums[i][j][1] = sums[i][j][2] = sums[i][j][3] = 0.0F;
                mma_m16n8k8_tf32(sums[i][j], low, high_b[j][0], high_b[j][1]);
            }
#pragma unroll
            for (int j = 0; j < tiles_n; ++j) mma_m16n8k8_tf32(sums[i][j], high, low_b[j][0], low_b[j][1]);
#pragma unroll
            for (int j = 0; j < tiles_n; ++j) mma_m16n8k8_tf32(sums[i][j], high, high_b[j][0], high_b[j][1]);
            if (!ends) continue;
#pragma unroll
            for (int j = 0; j < tiles_n * 4; ++j) acc[i][j / 4][j % 4] += sums[i][j / 4][j % 4];
        }
    }
};

// ---- the main loop ----

struct Pipeline {
    u32 ring, write = 0, read = 0;
    CopierA a;
    CopierB b;

    __device__ __forceinline__ static u32 next(u32 at) { return at + stage_bytes == stages * stage_bytes ? 0 : at + stage_bytes; }
    // Copies past the end of K write zeros, which costs less than a branch.
    __device__ __forceinline__ void copy() {
        a.copy_tile(ring + write);
        b.copy_tile(ring + write + TileA::bytes);
        ptx::cp_async_commit();
        write = next(write);
    }
    // Afterwards the next tile has arrived, and no warp reads the previous one, which the next copies overwrite.
    __device__ __forceinline__ void meet() {
        ptx::cp_async_wait<stages - 2>();
        __syncthreads();
    }

    // The next step's fragments, which may be the next tile's first, are loaded before the mma of this one.
    __device__ __forceinline__ void run(WarpTile& tile, const FragmentsA& from_a, const FragmentsB& from_b, int tiles) {
        meet();
        tile.load(0, from_a, from_b, ring + read, 0);
#pragma unroll 1
        for (; tiles > 0; --tiles) {
#pragma unroll
            for (int step = 0; step < steps_k; ++step) {
                if (step + 1 == steps_k) {
                    meet();
                    read = next(read);
                }
                tile.load((step + 1) % buffers, from_a, from_b, ring + read, (step + 1) % steps_k);
                if (step == 0) copy();
                tile.multiply(step % buffers);
            }
        }
    }
    __device__ __forceinline__ void run_parts(WarpTile& tile, const FragmentsA& from_a, const FragmentsB& from_b, int tiles) {
        float sums[tiles_m][tiles_n][4];
#pragma unroll 1
        for (; tiles > 0; --tiles) {
            meet();
            copy();
#pragma unroll
            for (int step = 0; step < steps_k; ++step) {
                tile.load(0, from_a, from_b, ring + read, step);
                constexpr int deep = promote_k / 8;
                tile.multiply_parts(sums, step % deep == 0, step % deep + 1 == deep);
            }
            read = next(read);
        }
    }
};

// ---- results ----

struct Output {
    f32* c;  // the warp's first element
    i64 ldc;
    f32 alpha, beta;
    int rows, cols;  // the rows and columns of C from there on
};

__device__ __forceinline__ void store_tile(const WarpTile& tile, const Output& out) {
    constexpr int width = smaller(2, align_c / 4);
#pragma unroll
    for (int i = 0; i < 2 * tiles_m; ++i) {
        const int row = row_of(i / 2, i % 2);
        if (row >= out.rows) continue;
        f32* const to = out.c + row * out.ldc;
#pragma unroll
        for (int j = 0; j < tiles_n; ++j) {
            const f32* const values = &tile.acc[i / 2][j][i % 2 * 2];
            const int col = col_of(j, 0);
#pragma unroll
            for (int e = 0; e < 2; e += width) store_run<width>(values + e, to + col + e, out.alpha, out.beta, out.cols - col - e);
        }
    }
}

// The start of the warp's operands in memory.
struct Operands {
    const f32 *a, *b;
    i64 step_a, step_b;  // the distance from one k to the next
    i64 line_a, line_b;  // the distance from one row of A, or column of B, to the next
    int k;
};

__device__ __forceinline__ bool is_finite(const WarpTile& tile) {
    bool all = true;
#pragma unroll
    for (int i = 0; i < tiles_m * tiles_n * 4; ++i) all = all && is_finite(tile.acc[i / 4 / tiles_n][i / 4 % tiles_n][i % 4]);
    return all;
}

// Stores all of a thread's elements, summed on CUDA cores.
__device__ __forceinline__ void store_exact_sums(const Operands& from, const Output& out) {
#pragma unroll 1
    for (int i = 0; i < tiles_m * tiles_n * 4; ++i) {
        const int row = row_of(i / 4 / tiles_n, i / 2 % 2), col = col_of(i / 4 % tiles_n, i % 2);
        if (row >= out.rows || col >= out.cols) continue;
        const f32 sum = exact_sum(from.a + row * from.line_a, from.step_a, from.b + col * from.line_b, from.step_b, from.k);
        store_run<1>(&sum, out.c + row * out.ldc + col, out.alpha, out.beta, 1);
    }
}

}  // namespace

// With split_k > 1 the blocks of a `split` sum k_per_split of K, and _reduce adds the parts to C.
extern "C" __global__ void __launch_bounds__(threads, min_blocks)
    AUTOTUNE_ENTRY()(const f32* a, const f32* b, f32* c, float alpha, float beta, int m, int n, int k, i64 lda, i64 ldb, i64 ldc,
                     int batch, i64 stride_a, i64 stride_b, i64 stride_c, f32* workspace, int raster, int group, int split_k,
                     int k_per_split) {
    if constexpr (!reads_c) beta = 0;
    extern __shared__ uint4 shared[];
    const BlockTile at = block_tile<block_m, block_n>(m, n, {raster, group});
    const int split = at.slice % split_k, which = at.slice / split_k;
    const int k_first = split * k_per_split;
    const int k_count = min(k - k_first, k_per_split);
    const f32* const first_a = a + which * stride_a + (trans_a ? k_first * lda : k_first);
    const f32* const first_b = b + which * stride_b + (trans_b ? k_first : k_first * ldb);
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int warp_row = warp / warps_n * warp_m, warp_col = warp % warps_n * warp_n;

    WarpTile tile;
    {
        Pipeline pipeline = {ptx::shared_address(shared), 0, 0, {first_a, lda, at.row, m, k_count}, {first_b, ldb, at.col, n, k_count}};
        for (int i = 0; i + 1 < stages; ++i) pipeline.copy();
        const FragmentsA from_a(warp_row);
        const FragmentsB from_b(warp_col);
        const int tiles = (k_count + block_k - 1) / block_k;
        if constexpr (terms == 1)
            pipeline.run(tile, from_a, from_b, tiles);
        else
            pipeline.run_parts(tile, from_a, from_b, tiles);
        ptx::cp_async_wait<0>();
    }

    const int row = at.row + warp_row, col = at.col + warp_col;
    const i64 padded = (n + 3) / 4 * 4;
    const i64 part = (static_cast<i64>(split) * batch + which) * m;
    const Output whole = {c + which * stride_c + row * ldc + col, ldc, alpha, beta, m - row, n - col};
    const Output partial = {workspace + (part + row) * padded + col, padded, 1.0F, 0.0F, m - row, n - col};
    const Output out = split_k > 1 ? partial : whole;
    if (terms == 3 && !is_finite(tile)) {
        const i64 line_a = trans_a ? 1 : lda, line_b = trans_b ? ldb : 1;
        store_exact_sums({first_a + row * line_a, first_b + col * line_b, trans_a ? lda : 1, trans_b ? 1 : ldb, line_a, line_b, k_count},
                         out);
    } else {
        store_tile(tile, out);
    }
}

#include "gemm/device/add_parts.cuh"
