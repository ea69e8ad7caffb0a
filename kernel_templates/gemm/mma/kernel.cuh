// gemm/mma: C = alpha * A * B + beta * C on mma.sync m16n8k16, for sm_80 and later.
// A block computes block_m x block_n of C: cp.async fills a ring of `stages` tiles of block_k, ldmatrix feeds the warps.
#include "common/ptx.cuh"
#include "common/types.cuh"
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
constexpr int block_m = ${block_m};
constexpr int block_n = ${block_n};
constexpr int block_k = ${block_k};
constexpr int warps_m = ${warps_m};
constexpr int warps_n = ${warps_n};
constexpr int stages = ${stages};
constexpr int reg_buffers = ${reg_buffers};
constexpr int min_blocks = ${min_blocks};
constexpr bool smem_swizzle = ${smem_swizzle};  // XOR of 16-byte chunks; otherwise rows are padded by one chunk
constexpr bool pack = ${pack};                  // unaligned operands were copied to aligned rows in the workspace by _pack
constexpr bool split_barrier = ${split_barrier};  // warps signal that they have read a tile, one mma step before they wait
// ---- end of parameters ----
// clang-format on
#include "gemm/device/block_order.cuh"
#include "gemm/device/pack.cuh"
#include "gemm/device/prefetch_c.cuh"

constexpr int threads = 32 * warps_m * warps_n;
constexpr int warp_m = block_m / warps_m;
constexpr int warp_n = block_n / warps_n;
constexpr int tiles_m = warp_m / 16;  // mma tiles of a warp
constexpr int tiles_n = warp_n / 8;
constexpr int steps_k = block_k / 16;
constexpr bool acc_is_f16 = is_same<Acc, f16>;
constexpr int chunk_bytes = 16;
constexpr int chunk = chunk_bytes / 2;  // elements
constexpr int access_a = pack ? chunk_bytes : align_a;
constexpr int access_b = pack ? chunk_bytes : align_b;

static_assert(sizeof(In) == 2, "operands are 16-bit");
static_assert(block_m % (16 * warps_m) == 0 && block_n % (16 * warps_n) == 0, "a warp's tile is a multiple of 16x16");
static_assert(block_k % 16 == 0 && stages >= 2, "a ring of at least two tiles, whole mma steps");
static_assert(reg_buffers == 1 || steps_k % 2 == 0, "fragments alternate between two buffers");
static_assert(!split_barrier || reg_buffers == 2, "warps run ahead of the barrier on fragments that they hold already");

// ---- one operand's tile in shared memory ----

// A tile of `Extent` of M or N by block_k, in the order of memory: rows of K (k_rows) or rows of M or N.
template <int Extent, bool KContiguous>
struct Tile {
    static constexpr int rows = KContiguous ? Extent : block_k;
    static constexpr int cols = KContiguous ? block_k : Extent;
    static constexpr int chunks = cols / chunk;
    static constexpr int row_bytes = cols * 2 + (smem_swizzle ? 0 : chunk_bytes);
    static constexpr int bytes = rows * row_bytes;
    // The number of chunks that XOR permutes. 8 consecutive rows need this many to use all 32 banks.
    static constexpr int period = cols * 2 % 128 == 0 ? 8 : cols * 2 % 64 == 0 ? 4 : 2;

    static __device__ __forceinline__ int offset(int row, int at) {
        if constexpr (smem_swizzle) at ^= row / (8 / period) % period;
        return row * row_bytes + at * chunk_bytes;
    }
};
using TileA = Tile<block_m, !trans_a>;
using TileB = Tile<block_n, trans_b>;
constexpr int stage_bytes = TileA::bytes + TileB::bytes;

// ---- global memory to shared memory ----

// A warp-wide load covers `lanes` chunks of a row: as many as give every thread the same number of whole passes, with a row step
// that is a multiple of 8 so that the swizzle is the same in each.
template <typename T>
__device__ constexpr int lanes_along() {
    for (int lanes = 64; lanes >= 2; lanes /= 2) {
        const bool fits = T::chunks % lanes == 0 && (lanes == T::chunks || lanes % T::period == 0);
        if (fits && threads % lanes == 0 && threads / lanes % 8 == 0 && T::rows % (threads / lanes) == 0) return lanes;
    }
    return 0;
}

// Copies the tiles along K one after another. Elements outside the operand are never read and become zeros.
template <int Extent, bool KContiguous, int Access>
struct Copier {
    using T = Tile<Extent, KContiguous>;
    static constexpr int lanes = lanes_along<T>();
    static_assert(lanes > 0, "the tile does not divide evenly among the threads");
    static constexpr int rows_a_pass = threads / lanes;
    static constexpr int passes = T::rows / rows_a_pass;
    static constexpr int pieces = T::chunks / lanes;  // the chunks of a thread in one pass

    const char* source;   // the address of this thread's chunk in the next pass
    long long row_step;   // the bytes from pass to pass
    long long tile_step;  // the bytes from the last pass to the first of the next tile
    int rows_left;        // rows of the operand from this thread's first row to the end
    int cols_left;        // elements of a row from this thread's first chunk to the end
    u32 destination;      // within a stage

    __device__ __forceinline__ Copier(const In* base, long long ld, int extent_first, int extent, int k_first, int k_count) {
        const int row = threadIdx.x / lanes;
        const int at = threadIdx.x % lanes;
        const long long first_row = (KContiguous ? extent_first : k_first) + row;
        const long long first_col = (KContiguous ? k_first : extent_first) + at * chunk;
        source = reinterpret_cast<const char*>(base + first_row * ld + first_col);
        row_step = ld * (2 * rows_a_pass);
        tile_step = (KContiguous ? 2ll * block_k : ld * (2ll * block_k)) - row_step * (passes - 1);
        rows_left = (KContiguous ? extent - extent_first : k_count) - row;
        cols_left = (KContiguous ? k_count : extent - extent_first) - at * chunk;
        destination = T::offset(row, at);
    }

    __device__ __forceinline__ void copy_pass(int pass, u32 stage) {
        const bool row_holds = pass * rows_a_pass < rows_left;
        const u32 to = stage + destination + pass * rows_a_pass * T::row_bytes;
#pragma unroll
        for (int piece = 0; piece < pieces; ++piece) {
            const int skipped = piece * lanes;
            const int valid = row_holds ? 2 * max(0, min(chunk, cols_left - skipped * chunk)) : 0;
            copy_chunk(to + skipped * chunk_bytes, source + skipped * chunk_bytes, valid);
        }
        source += pass + 1 < passes ? row_step : tile_step;
    }

    static __device__ __forceinline__ void copy_chunk(u32 to, const char* from, int valid_bytes) {
        if constexpr (Access == chunk_bytes) {
            ptx::cp_async<chunk_bytes>(to, from, valid_bytes);
        } else if constexpr (Access >= 4) {
#pragma unroll
            for (int at = 0; at < chunk_bytes; at += Access) {
                ptx::cp_async<Access>(to + at, from + at, max(0, min(Access, valid_bytes - at)));
            }
        } else {
            copy_elements(to, from, valid_bytes);
        }
    }

    // cp.async cannot copy 2 bytes, so rows with 2-byte alignment are copied through registers.
    static __device__ __forceinline__ void copy_elements(u32 to, const char* from, int valid_bytes) {
        const unsigned short* elements = reinterpret_cast<const unsigned short*>(from);
        u32 words[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const u32 low = 4 * i < valid_bytes ? elements[2 * i] : 0;
            const u32 high = 4 * i + 2 < valid_bytes ? elements[2 * i + 1] : 0;
            words[i] = low | high << 16;
        }
        ptx::st_shared(to, make_uint4(words[0], words[1], words[2], words[3]));
    }

    // REQUIRES: every pass of the tile was copied.
    __device__ __forceinline__ void next_tile() {
        if constexpr (KContiguous) {
            cols_left -= block_k;
        } else {
            rows_left -= block_k;
        }
    }
};
using CopierA = Copier<block_m, !trans_a, access_a>;
using CopierB = Copier<block_n, trans_b, access_b>;

// ---- shared memory to registers ----

// Addresses of a warp's ldmatrix.x4 loads: 16 (M or N) x 16 (K) elements each. `Crossed`: the second matrix of a load is the next
// chunk of the same rows, not the next 8 rows.
template <int Extent, bool KContiguous, int WarpExtent, bool Crossed>
struct Fragments {
    using T = Tile<Extent, KContiguous>;
    static constexpr int loads = WarpExtent / 16;
    static constexpr int along = KContiguous ? steps_k : loads;  // loads along a row
    // With XOR, the addresses of loads along a row differ by a constant only after a whole period.
    static constexpr bool periodic = KContiguous || WarpExtent / chunk % T::period == 0;
    static constexpr int distinct = !smem_swizzle ? 1 : periodic && T::period / 2 < along ? T::period / 2 : along;

    u32 first[distinct];

    __device__ __forceinline__ explicit Fragments(int extent_first) {
        const int lane = threadIdx.x % 32;
        const int row = Crossed ? lane % 8 + lane / 16 * 8 : lane % 16;
        const int at = Crossed ? lane / 8 % 2 : lane / 16;
#pragma unroll
        for (int i = 0; i < distinct; ++i) {
            first[i] =
                KContiguous ? T::offset(extent_first + row, at + 2 * i) : T::offset(row, extent_first / chunk + at + 2 * i);
        }
    }

    __device__ __forceinline__ void load(u32 (&to)[4], u32 tile, int load, int step) const {
        const int in_row = KContiguous ? step : load;
        const int across = KContiguous ? load : step;
        const u32 address =
            tile + first[in_row % distinct] + in_row / distinct * distinct * 2 * chunk_bytes + across * 16 * T::row_bytes;
        if constexpr (KContiguous) {
            ptx::ldmatrix_x4(to, address);
        } else {
            ptx::ldmatrix_x4_trans(to, address);
        }
    }
};
using FragmentsA = Fragments<block_m, !trans_a, warp_m, trans_a>;
using FragmentsB = Fragments<block_n, trans_b, warp_n, trans_b>;

// ---- accumulators ----

template <bool F16>
struct AccumulatorOf {
    float values[4] = {0, 0, 0, 0};
    // Columns 2t and 2t + 1 of row g (upper 0) or g + 8 (upper 1), where lane = 4g + t.
    __device__ __forceinline__ float2 pair(int upper) const { return make_float2(values[2 * upper], values[2 * upper + 1]); }
};
template <>
struct AccumulatorOf<true> {
    u32 values[2] = {0, 0};
    __device__ __forceinline__ float2 pair(int upper) const { return ptx::unpack_pair<f16>(values[upper]); }
};
using Accumulator = AccumulatorOf<acc_is_f16>;

struct WarpTile {
    Accumulator acc[tiles_m][tiles_n];
    u32 a[reg_buffers][tiles_m][4];
    u32 b[reg_buffers][tiles_n / 2][4];

    __device__ __forceinline__ void load(int buffer, const FragmentsA& from_a, const FragmentsB& from_b, u32 stage, int step) {
#pragma unroll
        for (int j = 0; j < tiles_n / 2; ++j) from_b.load(b[buffer][j], stage + TileA::bytes, j, step);
#pragma unroll
        for (int i = 0; i < tiles_m; ++i) from_a.load(a[buffer][i], stage, i, step);
    }

    // Visits columns back and forth, so that consecutive mma share an operand.
    __device__ __forceinline__ void multiply(int buffer) {
#pragma unroll
        for (int i = 0; i < tiles_m; ++i) {
#pragma unroll
            for (int n = 0; n < tiles_n; ++n) {
                const int j = i % 2 == 0 ? n : tiles_n - 1 - n;
                const u32(&pair)[4] = b[buffer][j / 2];
                ptx::mma_m16n8k16<In>(acc[i][j].values, a[buffer][i], pair[j % 2 * 2], pair[j % 2 * 2 + 1]);
            }
        }
    }
};

// ---- the main loop ----

// The ring's position, as a byte address.
struct Ring {
    u32 first, at;
    __device__ __forceinline__ void next() {
        at += stage_bytes;
        if (at == first + stages * stage_bytes) at = first;
    }
};

// Share `part` of `parts` of a tile's copies, so that they are spread over the mma steps.
__device__ __forceinline__ void copy_part(CopierA& a, CopierB& b, u32 stage, int part, int parts) {
    constexpr int passes = CopierA::passes + CopierB::passes;
#pragma unroll
    for (int pass = 0; pass < passes; ++pass) {
        if (pass < passes * part / parts || pass >= passes * (part + 1) / parts) continue;
        if (pass < CopierA::passes) {
            a.copy_pass(pass, stage);
        } else {
            b.copy_pass(pass - CopierA::passes, stage + TileA::bytes);
        }
    }
    if (part + 1 == parts) {
        a.next_tile();
        b.next_tile();
        ptx::cp_async_commit();
    }
}

__device__ __forceinline__ void fill_ring(CopierA& a, CopierB& b, Ring& write) {
#pragma unroll 1
    for (int stage = 0; stage + 1 < stages; ++stage) {
        copy_part(a, b, write.at, 0, 1);
        write.next();
    }
}

// There is one barrier per tile. After it, tile t has arrived and no warp still reads tile t - 1, which the next copies
// overwrite. Copies past the end of K write zeros; they cost less than a branch among the mma.
__device__ __forceinline__ void run_single_buffered(WarpTile& tile, CopierA& a, CopierB& b, const FragmentsA& from_a,
                                                    const FragmentsB& from_b, Ring read, Ring write, int tiles) {
#pragma unroll 1
    for (; tiles > 0; --tiles) {
        ptx::cp_async_wait<stages - 2>();
        __syncthreads();
#pragma unroll
        for (int step = 0; step < steps_k; ++step) {
            tile.load(0, from_a, from_b, read.at, step);
            copy_part(a, b, write.at, step, steps_k);
            tile.multiply(0);
        }
        read.next();
        write.next();
    }
}

// The mma steps over which the next tile's copies are spread. In a ring of two no other tile lies between a copy and its use, so
// its copies are issued early.
constexpr int copy_steps = stages == 2 && steps_k > 2 ? steps_k / 2 : steps_k - 1;
// With a split barrier, warps arrive in the last step but one, after a tile's last fragments were requested and before that
// step's copies. ptxas moves mma across an arrival, but not copies.
constexpr bool copies_follow_arrival = copy_steps == steps_k - 1;
static_assert(!split_barrier || stages > 2 || !copies_follow_arrival, "the next tile's copies are not yet issued");

// The barrier after which the next tile has arrived and this one has been read.
struct Meeting {
    u32 barrier;  // every warp arrives on this mbarrier; it is used only with split_barrier
    u32 parity = 0;

    // REQUIRES: nothing of this tile remains to be loaded.
    __device__ __forceinline__ void arrive() {
        ptx::cp_async_wait<copies_follow_arrival ? stages - 3 : stages - 2>();
        __syncwarp();
        if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(barrier);
    }
    __device__ __forceinline__ void wait() {
        ptx::mbarrier_wait(barrier, parity);
        parity ^= 1;
    }
};

__device__ __forceinline__ void meet() {
    ptx::cp_async_wait<stages - 2>();
    __syncthreads();
}

// Fragments of the next step, which may be the next tile's first, are loaded before the mma of this one.
__device__ __forceinline__ void run_double_buffered(WarpTile& tile, CopierA& a, CopierB& b, const FragmentsA& from_a,
                                                    const FragmentsB& from_b, Ring read, Ring write, Meeting meeting, int tiles) {
    meet();
    tile.load(0, from_a, from_b, read.at, 0);
#pragma unroll 1
    for (; tiles > 0; --tiles) {
#pragma unroll
        for (int step = 0; step < steps_k; ++step) {
            if (step + 1 == steps_k) {
                if constexpr (split_barrier) {
                    meeting.wait();
                } else {
                    meet();
                }
                read.next();
            }
            tile.load((step + 1) % reg_buffers, from_a, from_b, read.at, (step + 1) % steps_k);
            if constexpr (split_barrier) {
                if (step + 2 == steps_k) meeting.arrive();
            }
            if (step < copy_steps) copy_part(a, b, write.at, step, copy_steps);
            tile.multiply(step % reg_buffers);
        }
        write.next();
    }
}

// ---- results ----

// The position of this block and warp.
struct Place {
    int row, col;  // the first row and column of the warp's tile
    int split, batch;
    int tile_row, tile_col;  // the first row and column of the block's tile
};

__device__ __forceinline__ Place place(int m, int n, int split_k, BlockOrder order) {
    const BlockTile tile = block_tile<block_m, block_n>(m, n, order);
    const int warp = threadIdx.x / 32;
    Place at;
    at.tile_row = tile.row;
    at.tile_col = tile.col;
    at.row = tile.row + warp / warps_n * warp_m;
    at.col = tile.col + warp % warps_n * warp_n;
    at.split = tile.slice % split_k;
    at.batch = tile.slice / split_k;
    return at;
}

// Elements of C in one access.
constexpr int out_bytes = static_cast<int>(sizeof(Out));
constexpr int vector = align_c < out_bytes ? 1 : align_c / out_bytes;
constexpr int slab_ld = warp_n + 8;  // the padding keeps the 8 rows of a fragment in different banks
constexpr int slab_bytes = 16 * slab_ld * out_bytes;

__device__ __forceinline__ void write_pair(Out* at, float2 value) {
    if constexpr (sizeof(Out) == 2) {
        *reinterpret_cast<u32*>(at) = ptx::pack_pair<Out>(value.x, value.y);
    } else {
        *reinterpret_cast<float2*>(at) = value;
    }
}

// Two neighbouring elements of C for the sums of 16 rows. Elements that are read one by one stay in two registers.
struct PairOfC {
    Out low, high;
};
struct BandOfC {
    PairOfC pairs[2 * tiles_n];
};
constexpr bool reads_pairs_of_c = align_c >= 2 * out_bytes;

__device__ __forceinline__ BandOfC read_band(const Out* c, long long ldc, int rows, int cols) {
    const int lane = threadIdx.x % 32;
    BandOfC band;
#pragma unroll
    for (int j = 0; j < 2 * tiles_n; ++j) {
        const int row = j % 2 * 8 + lane / 4, col = j / 2 * 8 + lane % 4 * 2;
        const Out* from = c + row * ldc + col;
        PairOfC& pair = band.pairs[j];
        pair = {};
        if (row >= rows || col >= cols) continue;
        if (reads_pairs_of_c && col + 1 < cols) {
            const Pack<Out, 2> both = load_pack<Out, 2>(from);
            pair = {both.at[0], both.at[1]};
        } else {
            pair.low = from[0];
            if (!reads_pairs_of_c && col + 1 < cols) pair.high = from[1];
        }
    }
    return band;
}

// Stores 16 rows of a warp's tile from a slab of shared memory, in whole vectors where C has them.
__device__ __forceinline__ void store_slab(const Out* slab, Out* c, long long ldc, int rows, int cols) {
    constexpr int vectors = warp_n / vector;
#pragma unroll 4
    for (int i = threadIdx.x % 32; i < 16 * vectors; i += 32) {
        const int row = i / vectors;
        const int col = i % vectors * vector;
        if (row >= rows || col >= cols) continue;
        const Out* inside = slab + row * slab_ld + col;
        Out* outside = c + row * ldc + col;
        if (col + vector <= cols) {
            store_pack(outside, load_pack<Out, vector>(inside));
        } else {
            for (int e = 0; col + e < cols; ++e) outside[e] = inside[e];
        }
    }
    __syncwarp();
}

// Stores through shared memory, 16 rows at a time, so that C is written in whole lines. C is read into registers, and only if
// beta is not 0. The first band is read in advance, and each other band while the band before it is stored, so that no load waits
// for a store.
__device__ __forceinline__ void store_tile(const WarpTile& tile, Out* slab, Out* c, long long ldc, float alpha, float beta,
                                           int rows, int cols, const BandOfC& first) {
    const int lane = threadIdx.x % 32;
    Out* mine = slab + lane / 4 * slab_ld + lane % 4 * 2;
    BandOfC next = first;
#pragma unroll
    for (int i = 0; i < tiles_m; ++i) {
        const BandOfC band = next;
        if (beta != 0 && i + 1 < tiles_m) next = read_band(c + 16 * ldc, ldc, rows - 16 * (i + 1), cols);
#pragma unroll
        for (int j = 0; j < 2 * tiles_n; ++j) {
            const float2 sum = tile.acc[i][j / 2].pair(j % 2);
            float2 value = make_float2(alpha * sum.x, alpha * sum.y);
            if (beta != 0) {
                const float2 old = make_float2(to_f32(band.pairs[j].low), to_f32(band.pairs[j].high));
                value = make_float2(value.x + beta * old.x, value.y + beta * old.y);
            }
            write_pair(mine + j % 2 * 8 * slab_ld + j / 2 * 8, value);
        }
        __syncwarp();
        store_slab(slab, c, ldc, rows - 16 * i, cols);
        c += 16 * ldc;
    }
}

// Rows of partial sums are padded to whole float4.
__device__ __forceinline__ int partial_ld(int n) {
    return (n + 3) / 4 * 4;
}

__device__ __forceinline__ void store_partial(const WarpTile& tile, float* partial, int ld, int rows, int cols) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < 2 * tiles_m; ++i) {
        const int row = i * 8 + lane / 4;
        if (row >= rows) continue;
        float* at = partial + static_cast<long long>(row) * ld + lane % 4 * 2;
#pragma unroll
        for (int j = 0; j < tiles_n; ++j) {
            if (j * 8 + lane % 4 * 2 < cols) *reinterpret_cast<float2*>(at + j * 8) = tile.acc[i / 2][j].pair(i % 2);
        }
    }
}

// ---- entries ----

// The arguments up to `workspace` are those of every gemm family. `packed_*`: the copies that _pack made of operands whose rows are not
// aligned. With split_k > 1, block `split` sums k_per_split of K (a multiple of block_k), and _reduce adds the parts to C.
extern "C" __global__ void __launch_bounds__(threads, min_blocks)
    AUTOTUNE_KERNEL(const In* a, const In* b, Out* c, float alpha, float beta, int m, int n, int k, long long lda, long long ldb,
                    long long ldc, int batch, long long stride_a, long long stride_b, long long stride_c, float* workspace,
                    int raster, int group, int split_k, int k_per_split, const In* packed_a, long long packed_lda,
                    long long packed_stride_a, const In* packed_b, long long packed_ldb, long long packed_stride_b) {
    if constexpr (!reads_c) beta = 0;
    extern __shared__ uint4 shared[];
    const Place at = place(m, n, split_k, {raster, group});
    const int k_first = at.split * k_per_split;
    const int k_count = min(k - k_first, k_per_split);
    constexpr bool packs_a = pack && align_a < chunk_bytes;
    constexpr bool packs_b = pack && align_b < chunk_bytes;
    const In* batch_a = packs_a ? packed_a + at.batch * packed_stride_a : a + at.batch * stride_a;
    const In* batch_b = packs_b ? packed_b + at.batch * packed_stride_b : b + at.batch * stride_b;

    const auto corner = [&] { return c + at.batch * stride_c + at.row * ldc + at.col; };
    if (beta != 0 && split_k == 1)
        prefetch_c<warp_n>(corner(), ldc, min(warp_m, m - at.row), min(warp_n, n - at.col), threadIdx.x % 32, 32);
    const u32 ring = ptx::shared_address(shared);
    WarpTile tile;
    {
        CopierA copier_a(batch_a, packs_a ? packed_lda : lda, at.tile_row, m, k_first, k_count);
        CopierB copier_b(batch_b, packs_b ? packed_ldb : ldb, at.tile_col, n, k_first, k_count);
        const FragmentsA from_a(at.row - at.tile_row);
        const FragmentsB from_b(at.col - at.tile_col);
        const Ring read = {ring, ring};
        Ring write = read;
        fill_ring(copier_a, copier_b, write);
        const int tiles = (k_count + block_k - 1) / block_k;
        if constexpr (reg_buffers == 2) {
            const Meeting meeting = {ring + stages * stage_bytes};
            if (split_barrier && threadIdx.x == 0) ptx::mbarrier_init(meeting.barrier, warps_m * warps_n);
            run_double_buffered(tile, copier_a, copier_b, from_a, from_b, read, write, meeting, tiles);
        } else {
            run_single_buffered(tile, copier_a, copier_b, from_a, from_b, read, write, tiles);
        }
    }

    BandOfC first = {};
    if (beta != 0 && split_k == 1) first = read_band(corner(), ldc, m - at.row, n - at.col);
    ptx::cp_async_wait<0>();
    if (split_k > 1) {
        const int ld = partial_ld(n);
        const long long part = (static_cast<long long>(at.split) * batch + at.batch) * m;
        store_partial(tile, workspace + (part + at.row) * ld + at.col, ld, m - at.row, n - at.col);
        return;
    }
    __syncthreads();  // the slabs overwrite the ring
    Out* slab = reinterpret_cast<Out*>(reinterpret_cast<char*>(shared) + threadIdx.x / 32 * slab_bytes);
    store_tile(tile, slab, corner(), ldc, alpha, beta, m - at.row, n - at.col, first);
}

// Computes C from the partial sums, added in the order of the splits. A thread computes four elements of a row.
extern "C" __global__ void __launch_bounds__(256)
    AUTOTUNE_ENTRY(_reduce)(const float* partial, Out* c, float alpha, float beta, int m, int n, long long ldc, int batch,
                            long long stride_c, int split_k) {
    if constexpr (!reads_c) beta = 0;
    const int quads = partial_ld(n) / 4;
    const long long count = static_cast<long long>(batch) * m * quads;
    const long long index = blockIdx.x * 256ll + threadIdx.x;
    if (index >= count) return;
    const auto element = [&] { return c + index / quads / m * stride_c + index / quads % m * ldc + index % quads * 4; };
    Out before[4] = {};
#pragma unroll
    for (int e = 0; e < 4; ++e) {
        if (beta != 0 && static_cast<int>(index % quads) * 4 + e < n) before[e] = element()[e];
    }
    const float4* from = reinterpret_cast<const float4*>(partial) + index;
    float4 sum = from[0];
    for (int split = 1; split < split_k; ++split) {
        const float4 next = from[split * count];
        sum = make_float4(sum.x + next.x, sum.y + next.y, sum.z + next.z, sum.w + next.w);
    }
    const long long row = index / quads;
    const int col = static_cast<int>(index % quads) * 4;
    Out* to = c + row / m * stride_c + row % m * ldc + col;
    const float values[4] = {alpha * sum.x, alpha * sum.y, alpha * sum.z, alpha * sum.w};
#pragma unroll
    for (int e = 0; e < 4; ++e) {
        if (col + e >= n) break;
        to[e] = from_f32<Out>(beta != 0 ? values[e] + beta * to_f32(before[e]) : values[e]);
    }
}

// Copies an operand with rows of any alignment to the workspace, with rows padded to 16 bytes.
extern "C" __global__ void __launch_bounds__(256)
    AUTOTUNE_ENTRY(_pack)(const In* from, In* to, int rows, int cols, long long ld, long long packed_ld, int batch, long long stride) {
    pack_rows(from, to, rows, cols, ld, packed_ld, batch, stride);
}
