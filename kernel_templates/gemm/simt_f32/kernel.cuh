// C = alpha A B + beta C in f32 on CUDA cores, every product and sum rounded once. smem = 0: one element per thread, straight
// from global memory. smem = 1: slices of A and B along K go through shared memory as tiles, and a thread keeps thread_m x
// thread_n sums in registers.
#include "common/ptx.cuh"
#include "common/types.cuh"
// clang-format off
#define AUTOTUNE_KERNEL ${symbol}
using In = ${in_type};
using Out = ${out_type};
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
constexpr int lanes_m = ${lanes_m};     // lanes of a warp along M; 0: threads go through the block's tile row by row
constexpr int vec = ${vec};             // elements per access
constexpr bool bcf = ${bcf};            // a thread's rows and columns are separate runs of four
constexpr int smem_pad = ${smem_pad};
constexpr int stages = ${stages};
constexpr bool cp_async = ${cp_async};
constexpr bool reg_transpose = ${reg_transpose};  // operands stored along K are transposed in registers
constexpr int reg_buffers = ${reg_buffers};  // 2: operands for the next k are read during the products for this k
constexpr int min_blocks = ${min_blocks};
// clang-format on
// ---- end of parameters ----
static_assert(is_same<In, f32> && is_same<Out, f32>, "operands and results are f32");
#include "gemm/device/block_order.cuh"
#include "gemm/device/store_run.cuh"

namespace {

constexpr int threads_n = block_n / thread_n;
constexpr int threads = block_m / thread_m * threads_n;
static_assert(block_m % thread_m == 0 && block_n % thread_n == 0, "thread tiles fill the block tile");
static_assert(threads >= 32 && threads <= 1024 && threads % 32 == 0, "whole warps, at most 1024 threads");
static_assert(smem || (thread_m == 1 && thread_n == 1), "without shared memory a thread computes one element");
static_assert(block_k % vec == 0 && block_m % vec == 0 && block_n % vec == 0 && smem_pad % 4 == 0, "accesses stay aligned");
static_assert(stages >= 1 && (stages <= 2 || cp_async), "registers hold one tile ahead, cp.async several");

constexpr int width_a = smaller(vec, align_a / 4);
constexpr int width_b = smaller(vec, align_b / 4);
static_assert(!reg_transpose || (!trans_a && trans_b && width_a == 4 && width_b == 4), "both operands have runs of four along K");
static_assert(!reg_transpose || (stages == 2 && !cp_async && reg_buffers == 2), "stores lie between the products of an unrolled tile");

// ---- which elements of C a thread has ----

// The number of lanes along a warp's rows or columns; without warp tiles, of threads along those of the block.
constexpr int lanes_n = lanes_m == 0 ? 0 : 32 / (lanes_m == 0 ? 1 : lanes_m);
constexpr int span_m = lanes_m == 0 ? block_m : lanes_m * thread_m;
constexpr int span_n = lanes_m == 0 ? block_n : lanes_n * thread_n;
static_assert(block_m % span_m == 0 && block_n % span_n == 0, "warp tiles fill the block tile");
constexpr int warps_n = block_n / span_n;

// A thread's elements in a direction are adjacent runs, spread evenly over the span.
constexpr int run_m = bcf ? smaller(thread_m, 4) : thread_m;
constexpr int run_n = bcf ? smaller(thread_n, 4) : thread_n;
template <int run, int count, int span>
__device__ __forceinline__ constexpr int spread(int i) {
    return i / run * (span / (count / run)) + i % run;
}
__device__ __forceinline__ int thread_row() {
    const int thread = static_cast<int>(threadIdx.x);
    if (lanes_m == 0) return thread / threads_n * run_m;
    return thread / 32 / warps_n * span_m + thread % 32 / smaller(32, lanes_n > 0 ? lanes_n : 1) * run_m;
}
__device__ __forceinline__ int thread_col() {
    const int thread = static_cast<int>(threadIdx.x);
    if (lanes_m == 0) return thread % threads_n * run_n;
    return thread / 32 % warps_n * span_n + thread % 32 % (lanes_n > 0 ? lanes_n : 1) * run_n;
}

// ---- global memory to shared memory ----

// The operand from which tiles are filled. Its lines are rows of A or columns of B.
struct Source {
    const f32* data;
    i64 ld;
    int first_line, lines, k;
};

template <int lines>
using Tile = f32[block_k][lines + smem_pad];

// Loads chunks of neighbouring elements: the first `count` exist, the others become zeros.
template <int chunk, int width>
__device__ __forceinline__ void fetch(f32* to, const f32* source, int count) {
    if (count >= chunk) {
#pragma unroll
        for (int i = 0; i < chunk; i += width) {
            const Pack<f32, width> part = load_pack<f32, width>(source + i);
#pragma unroll
            for (int j = 0; j < width; ++j) to[i + j] = part.at[j];
        }
    } else {
#pragma unroll
        for (int i = 0; i < chunk; ++i) to[i] = i < count ? source[i] : 0.0F;
    }
}

// Fills tile[k][line], tile after tile along K, between begin() and end(). The operand is contiguous along k or along its lines.
// Tiles that lie entirely within the operand are copied without checks, which took a tenth of the main loop's instructions. To
// transpose, cp.async moves elements of four bytes separately: eight along k of four lines, which lie in different banks. The
// step from one of a thread's chunks to the next is constant, so a thread keeps only one pointer.
template <bool k_is_contiguous, int width, int lines>
struct Filler {
    static constexpr bool scatters = k_is_contiguous && cp_async;
    static constexpr bool by_lines = k_is_contiguous && !cp_async && bcf && threads % lines == 0;  // neighbours write neighbouring words
    static constexpr int chunk = scatters ? 1 : vec;
    static constexpr int chunks = block_k * lines / chunk;
    static constexpr int passes = (chunks + threads - 1) / threads;
    static constexpr bool is_even = chunks % threads == 0;

    struct Place {
        int line, k;
    };
    static __device__ __forceinline__ constexpr Place place(int i) {
        if (scatters) return {i / (4 * block_k) * 4 + i / 8 % 4, i % 8 + i / 32 % (block_k / 8) * 8};
        if (!k_is_contiguous) return {i % (lines / chunk) * chunk, i / (lines / chunk)};
        if (by_lines) return {i % lines, i / lines * chunk};
        return {i / (block_k / chunk), i % (block_k / chunk) * chunk};
    }
    static constexpr int line_step = place(threads).line;
    static constexpr int k_step = place(threads).k;
    static_assert(threads % (scatters                             ? 4 * block_k
                             : !k_is_contiguous                   ? lines / chunk
                             : by_lines                           ? lines
                                                                  : block_k / chunk) == 0,
                  "chunks of a thread are a constant step apart");

    const f32* from;     // the address of this thread's chunk in the first pass
    i64 pass_step;       // the distance from pass to pass, in elements
    i64 tile_step;       // the distance from tile to tile
    int lines_left;      // the number of lines from the chunk on
    int k_left;          // the number of k from the first tile's chunk on
    Place at;            // in the tile
    u32 to;              // the place of the chunk in shared memory, in the ring's first tile
    f32 held[cp_async ? 1 : passes * chunk];

    __device__ __forceinline__ Filler(const Source& source, Tile<lines>& first)
        : at(place(static_cast<int>(threadIdx.x))), to(ptx::shared_address(&first[at.k][at.line])) {
        const i64 line = source.first_line + at.line;
        from = source.data + (k_is_contiguous ? line * source.ld + at.k : at.k * source.ld + line);
        pass_step = k_is_contiguous ? line_step * source.ld + k_step : k_step * source.ld + line_step;
        tile_step = k_is_contiguous ? block_k : block_k * source.ld;
        lines_left = source.lines - source.first_line - at.line;
        k_left = source.k - at.k;
    }

    __device__ __forceinline__ static bool takes_part(int pass) {
        return is_even || static_cast<int>(threadIdx.x) + pass * threads < chunks;
    }
    // How many elements of the chunk exist in the operand, in a tile that begins at k_first.
    __device__ __forceinline__ int valid(int pass, int k_first) const {
        const int in_lines = lines_left - pass * line_step, in_k = k_left - k_first - pass * k_step;
        const int across = k_is_contiguous ? in_lines : in_k;
        return across > 0 ? (k_is_contiguous ? in_k : in_lines) : 0;
    }

    // `stage` is the offset of the tile in the ring, in bytes.
    template <bool is_whole>
    __device__ __forceinline__ void begin(u32 stage, int k_first) {
        const f32* source = from;
#pragma unroll
        for (int pass = 0; pass < passes; ++pass) {
            if (takes_part(pass)) {
                const u32 place = to + stage + (pass * k_step * (lines + smem_pad) + pass * line_step) * 4;
                if constexpr (!cp_async) {
                    fetch<chunk, width>(&held[pass * chunk], source, is_whole ? chunk : valid(pass, k_first));
                } else if constexpr (is_whole) {
                    start_whole(place, source);
                } else {
                    start(place, source, valid(pass, k_first));
                }
            }
            source += pass_step;
        }
        from += tile_step;
    }

    static constexpr int each = scatters ? 1 : width;  // elements of a copy
    static __device__ __forceinline__ void start_whole(u32 place, const f32* source) {
#pragma unroll
        for (int j = 0; j < chunk; j += each) ptx::cp_async<each * 4>(place + j * 4, source + j, each * 4);
    }

    static __device__ __forceinline__ void start(u32 place, const f32* source, int count) {
#pragma unroll
        for (int j = 0; j < chunk; j += each) {
            const int bytes = smaller(each, count - j) * 4;
            ptx::cp_async<each * 4>(place + j * 4, source + j, bytes > 0 ? bytes : 0);
        }
    }

    __device__ __forceinline__ void end(Tile<lines>& tile) const {
        if constexpr (cp_async) return;
#pragma unroll
        for (int pass = 0; pass < passes; ++pass) {
            if (!takes_part(pass)) continue;
            const int k = at.k + pass * k_step, line = at.line + pass * line_step;
            if constexpr (k_is_contiguous) {
#pragma unroll
                for (int j = 0; j < chunk; ++j) tile[k + j][line] = held[pass * chunk + j];
            } else {
                Pack<f32, chunk> pack;
#pragma unroll
                for (int j = 0; j < chunk; ++j) pack.at[j] = held[pass * chunk + j];
                store_pack<f32, chunk>(&tile[k][line], pack);
            }
        }
    }
};
using FillerA = Filler<!trans_a, width_a, block_m>;
using FillerB = Filler<trans_b, width_b, block_n>;

struct Stage {
    Tile<block_m> a;
    Tile<block_n> b;
};

// ---- global memory to registers to shared memory ----

// Fills tile[k][line] from operands stored along K, in patches of four lines by four k: a thread loads 16 bytes of each line, and
// one tile later stores 16 bytes of each k. Two lanes load a sector of 32 bytes. Eight lanes store at once, to different banks:
// they have 8 k of four groups of four lines, and padded rows begin four banks apart. The patches of B come first, then those of
// A.
struct Transposer {
    static constexpr int of_a = block_m * block_k / 16, of_b = block_n * block_k / 16, patches = of_a + of_b;
    static constexpr int passes = (patches + threads - 1) / threads;
    static_assert(!reg_transpose || (block_k == 8 && smem_pad == 4), "eight lanes store to different banks");
    static_assert(!reg_transpose || (of_a % 32 == 0 && of_b % 32 == 0), "a warp has patches of one operand");

    struct Patch {
        const f32* from;
        i64 ld;
        u32 to;         // the address in shared memory, in the ring's first tile
        u32 row_bytes;  // from k to k there
        int lines_left, k_left;
        f32 held[4][4];
    };
    Patch all[passes];

    __device__ __forceinline__ static bool takes_part(int pass) {
        return (pass + 1) * threads <= patches || static_cast<int>(threadIdx.x) + pass * threads < patches;
    }

    __device__ __forceinline__ Transposer(const Source& a, const Source& b, Stage& first) {
#pragma unroll
        for (int pass = 0; pass < passes; ++pass) {
            const int thread = static_cast<int>(threadIdx.x) + pass * threads;
            const bool is_b = thread < of_b;
            const int i = is_b ? thread : thread - of_b;
            const int line = i / 2 * 4, k = i % 2 * 4;
            const Source& source = is_b ? b : a;
            Patch& patch = all[pass];
            patch.ld = source.ld;
            patch.from = source.data + (source.first_line + line) * source.ld + k;
            patch.row_bytes = is_b ? sizeof(first.b[0]) : sizeof(first.a[0]);
            patch.to = ptx::shared_address(is_b ? &first.b[0][0] : &first.a[0][0]) + k * patch.row_bytes + line * 4;
            patch.lines_left = source.lines - source.first_line - line;
            patch.k_left = source.k - k;
        }
    }

    template <bool is_whole>
    __device__ __forceinline__ void load(int k_first) {
#pragma unroll
        for (int pass = 0; pass < passes; ++pass) {
            if (!takes_part(pass)) continue;
            Patch& patch = all[pass];
#pragma unroll
            for (int line = 0; line < 4; ++line) {
                const f32* const from = patch.from + line * patch.ld + k_first;
                if constexpr (is_whole) {
                    load_early(patch.held[line], from);
                } else {
                    fetch<4, 4>(patch.held[line], from, line < patch.lines_left ? patch.k_left - k_first : 0);
                }
            }
        }
    }

    // Without `volatile` ptxas would move the load down to the end of the tile.
    static __device__ __forceinline__ void load_early(f32 (&to)[4], const f32* from) {
        asm volatile("ld.volatile.global.v4.f32 {%0, %1, %2, %3}, [%4];"
                     : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
                     : "l"(from)
                     : "memory");
    }

    // `stage` is the offset of the tile in the ring, in bytes.
    __device__ __forceinline__ void store(u32 stage) const {
#pragma unroll
        for (int pass = 0; pass < passes; ++pass) {
            if (!takes_part(pass)) continue;
            const Patch& patch = all[pass];
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                Pack<f32, 4> lines;
#pragma unroll
                for (int line = 0; line < 4; ++line) lines.at[line] = patch.held[line][k];
                ptx::st_shared(patch.to + stage + k * patch.row_bytes, lines.raw);
            }
        }
    }
};

// ---- sums ----

// A thread's operands for one k: its rows of A and its columns of B.
struct Operands {
    f32 left[thread_m];
    f32 right[thread_n];

    template <int count, int run, int span>
    static __device__ __forceinline__ void read(f32 (&to)[count], const f32* from) {
        constexpr int step = smaller(run, 4);
#pragma unroll
        for (int i = 0; i < count; i += step) {
            if constexpr (reg_buffers == 2 && step == 4) {
                // Without `volatile` ptxas would move the load to the use of its values, and the warp would wait for them.
                const u32 at = ptx::shared_address(from + spread<run, count, span>(i));
                asm volatile("ld.volatile.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                             : "=f"(to[i]), "=f"(to[i + 1]), "=f"(to[i + 2]), "=f"(to[i + 3])
                             : "r"(at)
                             : "memory");
            } else {
                const Pack<f32, step> pack = load_pack<f32, step>(from + spread<run, count, span>(i));
#pragma unroll
                for (int j = 0; j < step; ++j) to[i + j] = pack.at[j];
            }
        }
    }
    __device__ __forceinline__ void load(const Stage& stage, int k, int row, int col) {
        read<thread_m, run_m, span_m>(left, &stage.a[k][row]);
        read<thread_n, run_n, span_n>(right, &stage.b[k][col]);
    }
};

struct Sums {
    f32 at[thread_m][thread_n];

    __device__ __forceinline__ Sums() {
#pragma unroll
        for (int i = 0; i < thread_m * thread_n; ++i) at[i / thread_n][i % thread_n] = 0.0F;
    }
    // Goes back and forth over the rows, for a pair of columns at a time. So ptxas places instructions that share the operand of
    // a row or of a column one after the other. The register file's cache keeps the shared operand, so each instruction reads
    // only two registers. docs/results/f32.md has the costs of other orders.
    __device__ __forceinline__ void add(const Operands& operands) {
        if constexpr (thread_n % 2 != 0) {
            at[0][0] = __fmaf_rn(operands.left[0], operands.right[0], at[0][0]);
        } else {
#pragma unroll
            for (int j = 0; j < thread_n; j += 2) {
#pragma unroll
                for (int n = 0; n < thread_m; ++n) {
                    const int i = j / 2 % 2 == 0 ? n : thread_m - 1 - n;
                    at[i][j] = __fmaf_rn(operands.left[i], operands.right[j], at[i][j]);
                    at[i][j + 1] = __fmaf_rn(operands.left[i], operands.right[j + 1], at[i][j + 1]);
                }
            }
        }
    }
};

// With one buffer a tile is read between two barriers, and the next tile is written after the second. With two buffers, copies
// through registers load the next tile during the products. With cp.async, `stages` - 1 tiles are loaded ahead, and one barrier
// per tile is enough.
__device__ __forceinline__ void sum_tiled(Sums& sums, const Source& a, const Source& b, Stage* ring) {
    FillerA fill_a(a, ring->a);
    FillerB fill_b(b, ring->b);
    const int row = thread_row(), col = thread_col();
    const int tiles = (a.k + block_k - 1) / block_k;
    const bool is_inside = a.first_line + block_m <= a.lines && b.first_line + block_n <= b.lines;
    const int inner_tiles = is_inside ? a.k / block_k : 0;
    const auto begin = [&](int tile, int place, bool copies_whole) {
        const u32 stage = place * sizeof(Stage);
        if (copies_whole || tile < inner_tiles) {
            fill_a.template begin<true>(stage, tile * block_k);
            fill_b.template begin<true>(stage, tile * block_k);
        } else {
            fill_a.template begin<false>(stage, tile * block_k);
            fill_b.template begin<false>(stage, tile * block_k);
        }
        ptx::cp_async_commit();
    };
    const auto end = [&](Stage& stage) {
        fill_a.end(stage.a);
        fill_b.end(stage.b);
    };
    Operands operands[reg_buffers];
    constexpr int ahead = cp_async && stages > 1 ? stages - 1 : 1;  // tiles that are being loaded
#pragma unroll
    for (int i = 0; i < ahead; ++i) begin(i, i, false);
    if constexpr (!cp_async) end(ring[0]);
    ptx::cp_async_wait<ahead - 1>();
    __syncthreads();
    if constexpr (reg_buffers == 2) operands[0].load(ring[0], 0, row, col);
    int read = 0, write = ahead % stages;
    int tile = 1;
    // Sums a tile while the one `ahead` of it is copied; copies past the end of K write zeros, which costs less than a branch.
    const auto sum_one = [&](bool copies_whole) {
        const bool is_last = tile == tiles;
        if constexpr (stages > 1) begin(tile - 1 + ahead, write, copies_whole);
        const int next = stages == 1 ? 0 : read + 1 == stages ? 0 : read + 1;
        const auto turn = [&] {
            if constexpr (stages == 1) {
                __syncthreads();
                if (!is_last) begin(tile, 0, copies_whole);
            }
            if constexpr (!cp_async) {
                if (stages > 1 || !is_last) end(ring[next]);
            }
            ptx::cp_async_wait<ahead - 1>();
            __syncthreads();
        };
        if constexpr (reg_buffers == 2) {
#pragma unroll
            for (int k = 0; k < block_k; ++k) {
                if (k + 1 == block_k) turn();
                operands[(k + 1) % 2].load(ring[k + 1 == block_k ? next : read], (k + 1) % block_k, row, col);
                sums.add(operands[k % 2]);
            }
        } else {
#pragma unroll 4
            for (int k = 0; k < block_k; ++k) {
                operands[0].load(ring[read], k, row, col);
                sums.add(operands[0]);
            }
            turn();
        }
        read = next;
        if constexpr (stages > 1) write = write + 1 == stages ? 0 : write + 1;
    };
    // Two loops, because a single loop for whole and partial copies was 3 % slower.
#pragma unroll 1
    for (; tile - 1 + ahead < inner_tiles; ++tile) sum_one(true);
#pragma unroll 1
    for (; tile <= tiles; ++tile) sum_one(false);
    ptx::cp_async_wait<0>();
}

// For operands that are both transposed in registers. Early in a tile's products it stores the next tile and loads the tile after
// that.
__device__ __forceinline__ void sum_transposed(Sums& sums, const Source& a, const Source& b, Stage* ring) {
    Transposer transposer(a, b, *ring);
    const int row = thread_row(), col = thread_col();
    const int tiles = (a.k + block_k - 1) / block_k;
    const bool is_inside = a.first_line + block_m <= a.lines && b.first_line + block_n <= b.lines;
    const int inner_tiles = is_inside ? a.k / block_k : 0;
    const auto load = [&](int tile, bool is_whole) {
        if (is_whole || tile < inner_tiles) {
            transposer.template load<true>(tile * block_k);
        } else {
            transposer.template load<false>(tile * block_k);
        }
    };
    Operands operands[2];
    load(0, false);
    transposer.store(0);
    load(1, false);
    __syncthreads();
    operands[0].load(ring[0], 0, row, col);
    int read = 0;
    int tile = 1;
    const auto sum_one = [&](bool is_whole) {
        // Computed as in sum_tiled, because with `1 - read` ptxas would order the loop differently.
        const int next = read + 1 == stages ? 0 : read + 1;
#pragma unroll
        for (int k = 0; k < block_k; ++k) {
            if (k + 1 == block_k) __syncthreads();
            operands[(k + 1) % 2].load(ring[k + 1 == block_k ? next : read], (k + 1) % block_k, row, col);
            if (k == 0) transposer.store(next * sizeof(Stage));
            if (k == 1) load(tile + 1, is_whole);
            sums.add(operands[k % 2]);
        }
        read = next;
    };
#pragma unroll 1
    for (; tile + 1 < inner_tiles; ++tile) sum_one(true);
#pragma unroll 1
    for (; tile <= tiles; ++tile) sum_one(false);
}

__device__ __forceinline__ void sum_direct(Sums& sums, const Source& a, const Source& b) {
    const i64 row = a.first_line + thread_row();
    const i64 col = b.first_line + thread_col();
    if (row >= a.lines || col >= b.lines) return;
    const f32* left = a.data + (trans_a ? row : row * a.ld);
    const f32* right = b.data + (trans_b ? col * b.ld : col);
    const i64 step_a = trans_a ? a.ld : 1;
    const i64 step_b = trans_b ? 1 : b.ld;
    for (int k = 0; k < a.k; ++k) sums.at[0][0] = __fmaf_rn(left[k * step_a], right[k * step_b], sums.at[0][0]);
}

// ---- results ----

struct Output {
    f32* c;
    i64 ldc;
    f32 alpha, beta;
    int rows, cols;  // the rows and columns of C from the block's tile on
};

__device__ __forceinline__ void store(const Sums& sums, const Output& out) {
    constexpr int width = smaller(smaller(vec, run_n), align_c / 4);
    const int row0 = thread_row(), col0 = thread_col();
#pragma unroll
    for (int i = 0; i < thread_m; ++i) {
        const int row = row0 + spread<run_m, thread_m, span_m>(i);
        if (row >= out.rows) continue;
#pragma unroll
        for (int j = 0; j < thread_n; j += width) {
            const int col = col0 + spread<run_n, thread_n, span_n>(j);
            store_run<width>(sums.at[i] + j, out.c + row * out.ldc + col, out.alpha, out.beta, out.cols - col);
        }
    }
}

}  // namespace

// With split_k > 1 the blocks of a `split` sum k_per_split of K, and _reduce adds the parts to C.
extern "C" __global__ void __launch_bounds__(threads, min_blocks)
    AUTOTUNE_ENTRY()(const f32* a, const f32* b, f32* c, float alpha, float beta, int m, int n, int k, i64 lda, i64 ldb, i64 ldc,
                     int batch, i64 stride_a, i64 stride_b, i64 stride_c, f32* workspace, int raster, int group, int split_k,
                     int k_per_split) {
    if constexpr (!reads_c) beta = 0;
    const BlockTile at = block_tile<block_m, block_n>(m, n, {raster, group});
    const int split = at.slice % split_k, which = at.slice / split_k;
    const int k_first = split * k_per_split;
    const int k_count = min(k - k_first, k_per_split);
    const i64 from_a = which * stride_a + (trans_a ? k_first * lda : k_first);
    const i64 from_b = which * stride_b + (trans_b ? k_first : k_first * ldb);
    const Source left = {a + from_a, lda, at.row, m, k_count};
    const Source right = {b + from_b, ldb, at.col, n, k_count};
    Sums sums;
    if constexpr (smem) {
        extern __shared__ uint4 shared[];
        Stage* const ring = reinterpret_cast<Stage*>(shared);
        if constexpr (reg_transpose) {
            sum_transposed(sums, left, right, ring);
        } else {
            sum_tiled(sums, left, right, ring);
        }
    } else {
        sum_direct(sums, left, right);
    }
    if (split_k > 1) {
        // Rows of the parts are whole and aligned, so they are stored like those of an aligned C.
        const i64 ld = (n + 3) / 4 * 4;
        f32* const part = workspace + (static_cast<i64>(split) * batch + which) * m * ld;
        store(sums, {part + at.row * ld + at.col, ld, 1.0F, 0.0F, m - at.row, n - at.col});
        return;
    }
    store(sums, {c + which * stride_c + at.row * ldc + at.col, ldc, alpha, beta, m - at.row, n - at.col});
}

#include "gemm/device/add_parts.cuh"
