// C = alpha A B + beta C on CUDA cores. smem = 0: one element per thread, straight from global memory. smem = 1: slices of A and
// B along K go through shared memory as tiles, and a thread keeps thread_m x thread_n sums in registers.
#include "common/ptx.cuh"
#include "common/types.cuh"
// clang-format off
#define AUTOTUNE_KERNEL ${symbol}
using In = ${in_type};
using Out = ${out_type};
using Acc = ${acc_type};
constexpr bool trans_a = ${trans_a};
constexpr bool trans_b = ${trans_b};
constexpr int align_a = ${align_a};
constexpr int align_b = ${align_b};
constexpr int align_c = ${align_c};
constexpr int reads_c = ${reads_c};  // 0: beta is known to be 0; reading C is compiled out
constexpr bool smem = ${smem};
constexpr int block_m = ${block_m};
constexpr int block_n = ${block_n};
constexpr int block_k = ${block_k};
constexpr int thread_m = ${thread_m};
constexpr int thread_n = ${thread_n};
constexpr int vec = ${vec};
constexpr bool packed = ${packed};      // one access moves a chunk of vec elements, not pairs
constexpr bool bcf = ${bcf};            // the layout that avoids bank conflicts
constexpr int smem_pad = ${smem_pad};
constexpr int stages = ${stages};
constexpr bool cp_async = ${cp_async};
constexpr int min_blocks = ${min_blocks};
// clang-format on
// ---- end of parameters ----
#include "gemm/device/store_run.cuh"

namespace {

constexpr int threads_n = block_n / thread_n;
constexpr int threads = block_m / thread_m * threads_n;
static_assert(block_m % thread_m == 0 && block_n % thread_n == 0, "thread tiles fill the block tile");
static_assert(threads >= 32 && threads <= 1024 && threads % 32 == 0, "whole warps, at most 1024 threads");
static_assert(smem || (thread_m == 1 && thread_n == 1), "without shared memory a thread computes one element");
static_assert(block_k % vec == 0 && block_m % vec == 0 && block_n % vec == 0 && smem_pad % 8 == 0, "accesses stay aligned");
static_assert(!bcf || (thread_m % 2 == 0 && thread_n % 2 == 0), "a thread's tile has two halves each way");
static_assert(stages == 1 || stages == 2, "one buffer or two");

// A thread's rows are adjacent, and so are its columns. With bcf they form two adjacent runs half a block apart, so that a warp
// reads neighbouring words of shared memory.
constexpr int runs = bcf ? 2 : 1;
constexpr int run_m = thread_m / runs;
constexpr int run_n = thread_n / runs;

// The elements of one access are as many as requested, unless the operand's alignment allows fewer.
constexpr int asked = packed ? vec : smaller(vec, 2);
constexpr int width_a = smaller(asked, align_a / static_cast<int>(sizeof(In)));
constexpr int width_b = smaller(asked, align_b / static_cast<int>(sizeof(In)));
constexpr int width_c = smaller(smaller(asked, run_n), align_c / static_cast<int>(sizeof(Out)));

struct Extents {
    i64 m, n, k;
    i64 lda, ldb, ldc;
    f32 alpha, beta;
};

// The operand from which a tile is filled. Its lines are rows of A or columns of B.
struct Source {
    const In* data;
    i64 ld;
    i64 first_line;
    i64 lines;
    i64 k;
};

// ---- global memory to shared memory ----

template <int lines>
using Tile = In[block_k][lines + smem_pad];

// How many of the next elements exist, at most the size of the tile.
__device__ __forceinline__ int clipped(i64 left) {
    return static_cast<int>(smaller<i64>(left, 1024));
}

// Loads the first `valid` of vec elements; the others are zero.
template <int width>
__device__ __forceinline__ Pack<In, vec> fetch(const In* from, int valid) {
    Pack<In, vec> chunk;
    if (valid >= vec) {
#pragma unroll
        for (int i = 0; i < vec; i += width) {
            const Pack<In, width> part = load_pack<In, width>(from + i);
#pragma unroll
            for (int j = 0; j < width; ++j) chunk.at[i + j] = part.at[j];
        }
    } else {
#pragma unroll
        for (int i = 0; i < vec; ++i) chunk.at[i] = i < valid ? from[i] : zero_of<In>();
    }
    return chunk;
}

// Fills tile[k][line] for k0 <= k < k0 + block_k, between begin() and end(). The operand is contiguous along k or along its
// lines. cp.async cannot transpose, so it is used only for operands with contiguous lines whose rows are aligned to 4 bytes.
template <bool k_is_contiguous, int width, int lines>
struct Filler {
    static constexpr bool is_async = cp_async && !k_is_contiguous && width >= 2;
    static constexpr int run = k_is_contiguous ? block_k : lines;
    static constexpr int chunks = block_k * lines / vec;
    static constexpr int chunks_a_thread = (chunks + threads - 1) / threads;

    Pack<In, vec> held[chunks_a_thread];

    // The position of a chunk: its index `across` the contiguous direction, and its index `along` it. The elements of a chunk
    // along K go to different rows of the tile. With bcf neighbouring threads have neighbouring lines, which are in different
    // banks.
    struct Place {
        int across, along;
    };
    static __device__ __forceinline__ Place place(int i) {
        const int chunk = static_cast<int>(threadIdx.x) + i * threads;
        if (bcf && k_is_contiguous) return {chunk % lines, chunk / lines * vec};
        return {chunk / (run / vec), chunk % (run / vec) * vec};
    }
    static __device__ __forceinline__ bool takes_part(int i) {
        return chunks % threads == 0 || static_cast<int>(threadIdx.x) + i * threads < chunks;
    }

    __device__ __forceinline__ void begin(Tile<lines>& tile, const Source& from, i64 k0) {
        const int k_left = clipped(from.k - k0);
        const int lines_left = clipped(from.lines - from.first_line);
        const In* const first =
            k_is_contiguous ? from.data + from.first_line * from.ld + k0 : from.data + k0 * from.ld + from.first_line;
#pragma unroll
        for (int i = 0; i < chunks_a_thread; ++i) {
            if (!takes_part(i)) continue;
            const auto [across, along] = place(i);
            const int valid =
                across < (k_is_contiguous ? lines_left : k_left) ? (k_is_contiguous ? k_left : lines_left) - along : 0;
            const In* const source = first + across * from.ld + along;
            if constexpr (is_async) {
                start(&tile[across][along], source, valid);
            } else {
                held[i] = fetch<width>(source, valid);
            }
        }
    }

    static __device__ __forceinline__ void start(In* to, const In* from, int valid) {
#pragma unroll
        for (int j = 0; j < vec; j += width) {
            const int bytes = smaller(width, valid - j) * static_cast<int>(sizeof(In));
            ptx::cp_async<width * static_cast<int>(sizeof(In))>(ptx::shared_address(to + j), from + j, bytes > 0 ? bytes : 0);
        }
    }

    __device__ __forceinline__ void end(Tile<lines>& tile) const {
        if constexpr (!is_async) {
#pragma unroll
            for (int i = 0; i < chunks_a_thread; ++i) {
                if (!takes_part(i)) continue;
                const auto [across, along] = place(i);
                if constexpr (k_is_contiguous) {
#pragma unroll
                    for (int j = 0; j < vec; ++j) tile[along + j][across] = held[i].at[j];
                } else {
                    write(&tile[across][along], held[i]);
                }
            }
        }
    }

    static __device__ __forceinline__ void write(In* to, const Pack<In, vec>& chunk) {
#pragma unroll
        for (int i = 0; i < vec; i += asked) {
            Pack<In, asked> part;
#pragma unroll
            for (int j = 0; j < asked; ++j) part.at[j] = chunk.at[i + j];
            store_pack<In, asked>(to + i, part);
        }
    }
};
using FillerA = Filler<!trans_a, width_a, block_m>;
using FillerB = Filler<trans_b, width_b, block_n>;

// ---- sums ----

// The distance of a thread's element i from the thread's first element, in one direction.
template <int run, int block>
__device__ __forceinline__ constexpr int spread(int i) {
    return i / run * (block / runs) + i % run;
}
__device__ int thread_row() {
    return static_cast<int>(threadIdx.x) / threads_n * run_m;
}
__device__ int thread_col() {
    return static_cast<int>(threadIdx.x) % threads_n * run_n;
}

// Reads a thread's part of a row of a tile.
template <int count, int run, int block>
__device__ __forceinline__ void read_share(In (&to)[count], const In* from) {
    constexpr int step = smaller(run, 8);
#pragma unroll
    for (int i = 0; i < count; i += step) {
        const Pack<In, step> pack = load_pack<In, step>(from + spread<run, block>(i));
#pragma unroll
        for (int j = 0; j < step; ++j) to[i + j] = pack.at[j];
    }
}

// Neighbouring columns' f16 sums share a register and an instruction.
constexpr bool paired = is_same<Acc, f16> && thread_n % 2 == 0;

template <bool>
struct SumsOf {
    Acc at[thread_m][thread_n];

    __device__ __forceinline__ SumsOf() {
#pragma unroll
        for (int i = 0; i < thread_m * thread_n; ++i) at[i / thread_n][i % thread_n] = zero_of<Acc>();
    }
    __device__ __forceinline__ void add(const In (&left)[thread_m], const In (&right)[thread_n]) {
#pragma unroll
        for (int i = 0; i < thread_m; ++i) {
#pragma unroll
            for (int j = 0; j < thread_n; ++j) at[i][j] = multiply_add(left[i], right[j], at[i][j]);
        }
    }
    __device__ __forceinline__ const Acc* row(int i) const { return at[i]; }
};

template <>
struct SumsOf<true> {
    static constexpr int pairs = (thread_n + 1) / 2;
    union {
        u32 pair[thread_m][pairs];
        Acc at[thread_m][2 * pairs];
    };

    __device__ __forceinline__ SumsOf() {
#pragma unroll
        for (int i = 0; i < thread_m * pairs; ++i) pair[i / pairs][i % pairs] = 0;
    }
    __device__ __forceinline__ void add(const In (&left)[thread_m], const In (&right)[thread_n]) {
#pragma unroll
        for (int i = 0; i < thread_m; ++i) {
            const u32 both = left[i].bits * 0x10001U;
#pragma unroll
            for (int j = 0; j < pairs; ++j) {
                const u32 two = right[2 * j].bits | static_cast<u32>(right[2 * j + 1].bits) << 16;
                asm("fma.rn.f16x2 %0, %1, %2, %0;" : "+r"(pair[i][j]) : "r"(both), "r"(two));
            }
        }
    }
    __device__ __forceinline__ const Acc* row(int i) const { return at[i]; }
};
using Sums = SumsOf<paired>;

__device__ __forceinline__ void sum_tile(Sums& sums, const Tile<block_m>& a_tile, const Tile<block_n>& b_tile) {
#pragma unroll 4
    for (int k = 0; k < block_k; ++k) {
        In left[thread_m];
        In right[thread_n];
        read_share<thread_m, run_m, block_m>(left, &a_tile[k][thread_row()]);
        read_share<thread_n, run_n, block_n>(right, &b_tile[k][thread_col()]);
        sums.add(left, right);
    }
}

// With two buffers the next tile is copied while this one is summed.
__device__ __forceinline__ void sum_tiled(Sums& sums, const Source& a, const Source& b) {
    __shared__ __align__(16) Tile<block_m> a_tiles[stages];
    __shared__ __align__(16) Tile<block_n> b_tiles[stages];
    FillerA fill_a;
    FillerB fill_b;
    const auto begin = [&](int stage, i64 k0) {
        fill_a.begin(a_tiles[stage], a, k0);
        fill_b.begin(b_tiles[stage], b, k0);
        ptx::cp_async_commit();
    };
    const auto end = [&](int stage) {
        fill_a.end(a_tiles[stage]);
        fill_b.end(b_tiles[stage]);
        ptx::cp_async_wait<0>();
        __syncthreads();
    };
    begin(0, 0);
    end(0);
    int stage = 0;
#pragma unroll 1
    for (i64 k0 = block_k;; k0 += block_k) {
        const bool is_last = k0 >= a.k;
        const int next = stages == 2 ? stage ^ 1 : 0;
        if (stages == 2 && !is_last) begin(next, k0);
        sum_tile(sums, a_tiles[stage], b_tiles[stage]);
        if (stages == 1 || is_last) __syncthreads();
        if (is_last) return;
        if (stages == 1) begin(next, k0);
        end(next);
        stage = next;
    }
}

__device__ __forceinline__ void sum_direct(Sums& sums, const Source& a, const Source& b) {
    const i64 row = a.first_line + thread_row();
    const i64 col = b.first_line + thread_col();
    if (row >= a.lines || col >= b.lines) return;
    const In* left = a.data + (trans_a ? row : row * a.ld);
    const In* right = b.data + (trans_b ? col * b.ld : col);
    const i64 step_a = trans_a ? a.ld : 1;
    const i64 step_b = trans_b ? 1 : b.ld;
    for (i64 k = 0; k < a.k; ++k) sums.add({left[k * step_a]}, {right[k * step_b]});
}

// ---- results ----

__device__ __forceinline__ void store(const Sums& sums, Out* c, const Extents& shape, i64 tile_row, i64 tile_col) {
    const int rows = clipped(shape.m - tile_row) - thread_row();
    const int cols = clipped(shape.n - tile_col) - thread_col();
    Out* const first = c + (tile_row + thread_row()) * shape.ldc + tile_col + thread_col();
#pragma unroll
    for (int i = 0; i < thread_m; ++i) {
        const int row = spread<run_m, block_m>(i);
        if (row >= rows) return;
#pragma unroll
        for (int j = 0; j < thread_n; j += width_c) {
            const int col = spread<run_n, block_n>(j);
            store_run<width_c>(sums.row(i) + j, first + row * shape.ldc + col, shape.alpha, shape.beta, cols - col);
        }
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(threads, min_blocks)
    AUTOTUNE_ENTRY()(const In* a, const In* b, Out* c, float alpha, float beta, int m, int n, int k, i64 lda, i64 ldb, i64 ldc,
                     int batch, i64 stride_a, i64 stride_b, i64 stride_c, void*) {
    if constexpr (!reads_c) beta = 0;
    const Extents shape = {m, n, k, lda, ldb, ldc, alpha, beta};
    const i64 tiles_n = (shape.n + block_n - 1) / block_n;
    const i64 tiles = (shape.m + block_m - 1) / block_m * tiles_n;
    for (i64 at = blockIdx.x; at < tiles * batch; at += gridDim.x) {
        const i64 which = at / tiles;
        const i64 row = at % tiles / tiles_n * block_m;
        const i64 col = at % tiles_n * block_n;
        Sums sums;
        const Source left = {a + which * stride_a, lda, row, shape.m, shape.k};
        const Source right = {b + which * stride_b, ldb, col, shape.n, shape.k};
        if constexpr (smem) {
            sum_tiled(sums, left, right);
        } else {
            sum_direct(sums, left, right);
        }
        store(sums, c + which * stride_c, shape, row, col);
    }
}
