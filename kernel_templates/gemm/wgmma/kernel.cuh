// C = alpha A B + beta C on Hopper: TMA loads into an mbarrier ring, wgmma from shared memory, one producer warpgroup and
// `math_groups` math warpgroups, persistent blocks. Cooperative: the math groups share a tile, each has a band of its rows.
// Ping-pong: each math group has tiles of its own, so that one's epilogue runs under another's multiplications.
// X is the operand on wgmma's M side, Y the one on its N side: A and B, or with swap_ab B^T and A^T (C^T = B^T A^T), so that a problem
// of few rows fills the 64 rows of a multiplication with the other operand.
// K is divided among blocks by split-K (split_k parts of every tile) or stream-K (split_k = 0: whole waves of tiles, then the rest cut
// into equal runs of K steps). The part that finishes last adds all parts in their order, or with reduce_kernel a second kernel does:
// the result does not depend on timing. Or the `cluster_k` blocks of a cluster divide K, and each adds its share of the tile from what
// its peers send to its shared memory.
#define AUTOTUNE_KERNEL ${symbol}
#include "common/types.cuh"
using In = ${in_type};
using Out = ${out_type};
using Acc = ${acc_type};
constexpr int trans_a = ${trans_a};  // 1: A is stored [K, M]
constexpr int trans_b = ${trans_b};  // 1: B is stored [N, K]
constexpr int align_a = ${align_a};  // bytes; below 16 the operand is packed into the workspace first
constexpr int align_b = ${align_b};
constexpr int align_c = ${align_c};
constexpr int reads_c = ${reads_c};  // 0: beta is 0, and nothing is compiled for another
constexpr int swap_ab = ${swap_ab};
constexpr int block_m = ${block_m};
constexpr int block_n = ${block_n};
constexpr int block_k = ${block_k};
constexpr int math_groups = ${math_groups};
constexpr int pingpong = ${pingpong};
constexpr int cluster_m = ${cluster_m};  // blocks along M that share a tile of Y
constexpr int cluster_n = ${cluster_n};  // blocks along N that share a tile of X
constexpr int cluster_k = ${cluster_k};  // blocks that divide the K steps of one tile
constexpr int tma_store = ${tma_store};
constexpr int store_buffers = ${store_buffers};  // spans of C that may be on their way
constexpr int tma_swizzle = ${tma_swizzle};  // bytes of an operand's row that a swizzle pattern spans, at most
#define AUTOTUNE_REDUCE_KERNEL ${reduce_kernel}
// ---- end of parameters ----
#include "common/dependent_launch.cuh"
#include "common/hopper.cuh"
#include "gemm/pack.cuh"

namespace {

using namespace hopper;

constexpr int x_mn_major = swap_ab ? 1 - trans_b : trans_a;
constexpr int y_k_major = swap_ab ? 1 - trans_a : trans_b;

static_assert(sizeof(In) == 2 && sizeof(Out) == 2 && (is_same<Acc, f32> || (is_same<Acc, f16> && is_same<In, f16>)));
static_assert(!tma_store || align_c == 16, "a TMA store takes rows of a multiple of 16 bytes");
static_assert(block_k % (tma_swizzle / 2) == 0 && block_n % 16 == 0 && block_n <= 256);
static_assert(block_m % (pingpong ? 64 : 64 * math_groups) == 0 && block_m <= 256);

constexpr bool reduce_kernel = AUTOTUNE_REDUCE_KERNEL != 0;  // a kernel of its own adds the parts of K
constexpr int groups_per_tile = pingpong ? 1 : math_groups;
constexpr int bands = block_m / (64 * groups_per_tile);  // m64 multiplications per math group
constexpr int group_rows = 64 * bands;
constexpr int sums_each = is_same<Acc, f16> ? 2 : 1;     // in a register
constexpr int accumulators = block_n / 2 / sums_each;    // registers of one band
constexpr int sharing_blocks = cluster_m * cluster_n;
constexpr int notified_blocks = cluster_m + cluster_n - 1;  // in a block's row or column of the cluster: those that load for it
constexpr int cluster_blocks = sharing_blocks * cluster_k;
constexpr int math_threads = 128 * math_groups;
static_assert(cluster_k == 1 || (sharing_blocks == 1 && !pingpong), "blocks either share tiles or divide the K of one");
static_assert(cluster_k == 1 || !reduce_kernel, "blocks that divide K in a cluster add it there");

// Operand tiles, in slabs one swizzle span wide. K-major: slabs of rows along K. MN-major: slabs of block_k rows.
constexpr int widest_span = tma_swizzle / 2;
__device__ constexpr int span_of(int extent) { return extent % widest_span == 0 ? widest_span : extent % 32 == 0 && widest_span > 32 ? 32 : 16; }
constexpr int span_x = x_mn_major ? span_of(64) : widest_span;
constexpr int span_y = y_k_major ? widest_span : span_of(block_n);
constexpr u32 bytes_x = block_m * block_k * 2;
constexpr u32 bytes_y = block_n * block_k * 2;
constexpr u32 stage_bytes = bytes_x + bytes_y;
static_assert(stage_bytes % 1024 == 0, "swizzled tiles start at multiples of 1024 bytes");

// Output tiles go to memory through staging buffers of each math group, one swizzle span of columns at a time.
constexpr int span_c = block_n % 64 == 0 ? 64 : block_n % 32 == 0 ? 32 : 16;
constexpr u32 staging_bytes = tma_store ? group_rows * span_c * 2 : 0;

// With cluster_k, a tile's accumulators are divided among the blocks in quads, a thread's four sums of eight columns, and each block
// receives its peers'.
constexpr int quad_registers = 4 / sums_each;
constexpr int quads = bands * block_n / 8;
constexpr int quads_each = quads / cluster_k;
constexpr u32 received_bytes = (cluster_k - 1) * quads_each * math_threads * quad_registers * 4;
static_assert(quads % cluster_k == 0);
static_assert(cluster_k == 1 || !tma_store || (bands == 1 && block_n / span_c % cluster_k == 0), "a block stores whole spans");
// The block of the cluster that adds and stores the accumulators of column group j of a band.
__device__ __forceinline__ constexpr int owner_of(int band, int j) { return (band * (block_n / 8) + j) / quads_each; }

// A register of sums: an f32, or the f16 of two neighbouring columns.
template <typename Sum>
struct RegisterOf {
    using Type = float;
};
template <>
struct RegisterOf<f16> {
    using Type = u32;
};
using Register = RegisterOf<Acc>::Type;
using Sums = Register[bands][accumulators];

// Two neighbouring columns: pair `i` of a run of registers.
struct Pair {
    float low, high;
};
__device__ __forceinline__ Pair pair_of(const float* registers, int i) { return {registers[2 * i], registers[2 * i + 1]}; }
__device__ __forceinline__ Pair pair_of(const u32* registers, int i) {
    return {to_f32(f16{static_cast<u16>(registers[i])}), to_f32(f16{static_cast<u16>(registers[i] >> 16)})};
}
template <typename To>
__device__ __forceinline__ u32 pack2(float low, float high) {
    return static_cast<u32>(from_f32<To>(low).bits) | static_cast<u32>(from_f32<To>(high).bits) << 16;
}

// M and N as the multiplication sees them (exchanged with swap_ab), and the tiles of a whole cluster. The first `whole` tiles are not
// cut by stream-K.
struct Shape {
    int m, n, k, batch, tiles_m, tiles_n, whole, split_k, group, raster;
    __device__ __forceinline__ int steps() const { return (k + block_k - 1) / block_k; }
    __device__ __forceinline__ int tiles() const { return tiles_m * tiles_n * batch; }
};

// A run of K steps of one tile.
struct Work {
    int index;         // of the tile in the order of work
    int first, steps;  // of the K loop
    int part, parts;   // this run among those of its tile
    int unit;          // stream-K: the cluster that has part 0
};

// Where a block's part of a tile lies.
struct Tile {
    int m0, n0, batch, number;
};

__device__ __forceinline__ int cluster_count() { return static_cast<int>(gridDim.x) / cluster_blocks; }
__device__ __forceinline__ int cluster_index() { return static_cast<int>(blockIdx.x) / cluster_blocks; }

// Walks a cluster's work. Producer and math groups each walk the same sequence. What follows from the launch's constants is computed
// where it is needed: next to the accumulators there are no registers to keep it.
class Schedule {
  public:
    __device__ __forceinline__ Schedule(const Shape& shape, int rank) : s(shape), rank_(rank), next_(cluster_index()) {}

    __device__ __forceinline__ bool next(Work& work) {
        const int steps = s.steps();
        if constexpr (cluster_k > 1) {
            if (next_ >= s.tiles()) return false;
            divide(work, steps, next_, rank_, cluster_k);
            next_ += cluster_count();
            return true;
        }
        const int parts = max(s.split_k, 1);
        if (next_ < s.whole * parts) {
            const int index = parts == 1 ? next_ : next_ / parts;
            divide(work, steps, index, next_ - index * parts, parts);
            next_ += cluster_count();
            return true;
        }
        return s.split_k == 0 && next_streamed(work, steps);
    }

    // Groups of `group` tiles along one direction keep the operands of concurrent blocks in L2.
    __device__ __forceinline__ Tile tile(const Work& work) const {
        const int rank = cluster_k > 1 ? 0 : rank_;
        const int plane = s.tiles_m * s.tiles_n;
        const int batch = s.batch == 1 ? 0 : work.index / plane;
        const int in_plane = work.index - batch * plane;
        const int fast_count = s.raster == 1 ? s.tiles_n : s.tiles_m;
        const int slow_count = s.raster == 1 ? s.tiles_m : s.tiles_n;
        const int strip = in_plane / (s.group * slow_count);
        const int in_strip = in_plane - strip * s.group * slow_count;
        const int width = min(s.group, fast_count - strip * s.group);
        int slow = in_strip / width;
        int in_width = in_strip - slow * width;
        if (s.raster == 2 && width == s.group && slow / s.group < slow_count / s.group) along_hilbert_curve(in_strip, slow, in_width);
        const int fast = strip * s.group + in_width;
        return {((s.raster == 1 ? slow : fast) * cluster_m + rank % cluster_m) * block_m,
                ((s.raster == 1 ? fast : slow) * cluster_n + rank / cluster_m) * block_n, batch, work.index * sharing_blocks + rank};
    }

    // Number of the workspace slot that holds part `part` of the tile.
    __device__ __forceinline__ long long slot(const Work& work, int part) const {
        if (s.split_k != 0) return static_cast<long long>(work.index * sharing_blocks + rank_) * s.split_k + part;
        const int tile_start = (work.index - s.whole) * s.steps();
        const int unit = work.unit + part;
        return static_cast<long long>(unit * 2 + (run_start(unit) > tile_start ? 0 : 1)) * cluster_blocks + rank_;
    }

  private:
    __device__ __forceinline__ static void divide(Work& work, int steps, int index, int part, int parts) {
        work.index = index;
        work.part = part;
        work.parts = parts;
        work.first = parts == 1 ? 0 : steps * part / parts;
        work.steps = parts == 1 ? steps : steps * (part + 1) / parts - work.first;
    }

    // Stream-K over the last, incomplete wave and the one before: each cluster has an equal run of their K steps. Products of steps
    // and clusters fit 32 bits: the host sees to it.
    __device__ __forceinline__ bool next_streamed(Work& work, int steps) {
        const int cluster = cluster_index();
        const int run = run_start(cluster) + streamed_;
        const int run_end = run_start(cluster + 1);
        if (run >= run_end) return false;
        const int index = run / steps;
        const int tile_start = index * steps;
        work.index = s.whole + index;
        work.first = run - tile_start;
        work.steps = min(run_end, tile_start + steps) - run;
        work.unit = owner(tile_start);
        work.part = cluster - work.unit;
        work.parts = owner(tile_start + steps - 1) - work.unit + 1;
        streamed_ += work.steps;
        return true;
    }
    __device__ __forceinline__ int streamed_steps() const { return (s.tiles() - s.whole) * s.steps(); }
    __device__ __forceinline__ int run_start(int unit) const { return streamed_steps() * unit / cluster_count(); }
    // The cluster whose run contains that step of the streamed tiles.
    __device__ __forceinline__ int owner(int step) const { return ((step + 1) * cluster_count() - 1) / streamed_steps(); }

    // Squares of group x group tiles, group a power of two, each walked along Hilbert's curve, which ends beside the next square.
    __device__ __forceinline__ void along_hilbert_curve(int in_strip, int& slow, int& fast) const {
        int rest = in_strip % (s.group * s.group), x = 0, y = 0;
        for (int side = 1; side < s.group; side *= 2) {
            const int right = rest / 2 & 1, up = (rest ^ right) & 1;
            if (up == 0) {
                const int old_x = right ? side - 1 - x : x;
                x = right ? side - 1 - y : y;
                y = old_x;
            }
            x += side * right;
            y += side * up;
            rest /= 4;
        }
        slow = slow / s.group * s.group + x;
        fast = y;
    }

    const Shape& s;
    int rank_, next_;
    int streamed_ = 0;
};

// A place in the ring: which stage, and the parity of the barrier phase there.
struct Position {
    int stage = 0;
    u32 parity = 0;
    __device__ __forceinline__ void next(int stages) {
        if (++stage == stages) {
            stage = 0;
            parity ^= 1;
        }
    }
    __device__ __forceinline__ void skip(int count, int stages) {
        const int sum = stage + count;
        const int laps = sum / stages;
        stage = sum - laps * stages;
        parity ^= laps & 1;
    }
};

struct Ring {
    u32 tiles, full, empty, order;
    int stages;
    __device__ __forceinline__ u32 x(int stage) const { return tiles + stage * stage_bytes; }
    __device__ __forceinline__ u32 y(int stage) const { return tiles + stage * stage_bytes + bytes_x; }
};

struct Operand {
    const TensorMap* map;
    u64 policy;
};

// All that other grids may have written is read, and all that they may read is written, after this. The next grid's blocks may start
// from then on.
__device__ __forceinline__ void begin_turn() {
    dependent_launch::wait_for_earlier_grids();
    dependent_launch::let_next_grid_start();
}

// One operand's part of a stage, of which each of `shares` blocks takes one: `visit` gets each box's offset in the tile and its place.
template <bool k_major, int extent, int span, int shares, typename Visit>
__device__ __forceinline__ void for_each_box(int mn, int k, int share, Visit visit) {
    constexpr int rows = (k_major ? extent : block_k) / shares;
    constexpr int row_bytes = span * 2;
    constexpr int slabs = (k_major ? block_k : extent) / span;
    constexpr int slab_bytes = (k_major ? extent : block_k) * row_bytes;
#pragma unroll
    for (int slab = 0; slab < slabs; ++slab) {
        const u32 offset = slab * slab_bytes + share * rows * row_bytes;
        const int column = (k_major ? k : mn) + slab * span;
        const int row = (k_major ? mn : k) + share * rows;
        visit(offset, column, row);
    }
}

// Multicast to the blocks of `mask` where they share.
template <bool k_major, int extent, int span, int shares>
__device__ __forceinline__ void load_operand(u32 destination, const Operand& from, u32 barrier, int mn, int k, int batch, int share,
                                             unsigned short mask) {
    for_each_box<k_major, extent, span, shares>(mn, k, share, [&](u32 offset, int column, int row) {
        if constexpr (shares > 1)
            load_box_multicast(destination + offset, from.map, barrier, column, row, batch, from.policy, mask);
        else
            load_box(destination + offset, from.map, barrier, column, row, batch, from.policy);
    });
}

// What a block fetches into L2, which is where all writes meet, before the kernel's turn.
struct EarlyFetch {
    int steps;   // of the K loop
    int blocks;  // that fetch for all, the first of the grid; 0: every block for itself
    u32 turn;    // shared memory: not 0 once the turn has come
    __device__ __forceinline__ bool too_late() const {
        u32 come;
        asm volatile("ld.volatile.shared.u32 %0, [%1];" : "=r"(come) : "r"(turn) : "memory");
        return come != 0;
    }
};

template <bool k_major, int extent, int span, int shares>
__device__ __forceinline__ void fetch_share(const TensorMap* from, int mn, int k, int batch, int share) {
    for_each_box<k_major, extent, span, shares>(mn, k, share, [&](u32, int column, int row) { prefetch_box(from, column, row, batch); });
}

// A block's share of its first tile.
__device__ __forceinline__ void fetch_own(const EarlyFetch& fetch, Schedule schedule, const TensorMap* x, const TensorMap* y, int rank) {
    Work work;
    if (!schedule.next(work)) return;
    const Tile tile = schedule.tile(work);
#pragma unroll 1
    for (int step = work.first; step < work.first + min(fetch.steps, work.steps) && !fetch.too_late(); ++step) {
        fetch_share<!x_mn_major, block_m, span_x, cluster_n>(x, tile.m0, step * block_k, tile.batch, rank / cluster_m);
        fetch_share<y_k_major, block_n, span_y, cluster_m>(y, tile.n0, step * block_k, tile.batch, rank % cluster_m);
    }
}

// All tiles, the first steps first: for the blocks that start early because the grid leaves SMs idle.
__device__ __forceinline__ void fetch_for_all(const EarlyFetch& fetch, const Shape& s, const TensorMap* x, const TensorMap* y) {
    const int rows_x = s.tiles_m * cluster_m;
    const int rows = rows_x + s.tiles_n * cluster_n;
    const int parts = cluster_k > 1 ? cluster_k : s.split_k;
    const int steps = s.steps();
#pragma unroll 1
    for (int step = 0; step < fetch.steps; ++step) {
#pragma unroll 1
        for (int i = static_cast<int>(blockIdx.x); i < rows * parts * s.batch; i += fetch.blocks) {
            if (fetch.too_late()) return;
            const int row = i % rows, part = i / rows % parts, batch = i / rows / parts;
            const int at = steps * part / parts + step;
            if (at >= steps * (part + 1) / parts) continue;
#pragma unroll
            for (int share = 0; share < cluster_n && row < rows_x; ++share)
                fetch_share<!x_mn_major, block_m, span_x, cluster_n>(x, row * block_m, at * block_k, batch, share);
#pragma unroll
            for (int share = 0; share < cluster_m && row >= rows_x; ++share)
                fetch_share<y_k_major, block_n, span_y, cluster_m>(y, (row - rows_x) * block_n, at * block_k, batch, share);
        }
    }
}

__device__ __forceinline__ void produce(const Ring& ring, Schedule schedule, const Operand& x, const Operand& y, int rank, u32 turn) {
    const int share_x = rank / cluster_m;  // blocks along N share X
    const int share_y = rank % cluster_m;
    unsigned mask_x = 0;
#pragma unroll
    for (int i = 0; i < cluster_n; ++i) mask_x |= 1u << (i * cluster_m + rank % cluster_m);
    const unsigned mask_y = ((1u << cluster_m) - 1) << (rank / cluster_m * cluster_m);
    Position at;
    Work work;
    for (bool is_first = true; schedule.next(work); is_first = false) {
        const Tile tile = schedule.tile(work);
        if (is_first) {
            begin_turn();
            asm volatile("st.volatile.shared.u32 [%0], 1;" ::"r"(turn) : "memory");
        }
#pragma unroll 1
        for (int step = work.first; step < work.first + work.steps; ++step) {
            const u32 full = ring.full + at.stage * 8;
            barrier_wait(ring.empty + at.stage * 8, at.parity ^ 1);
            barrier_expect(full, stage_bytes);
            load_operand<!x_mn_major, block_m, span_x, cluster_n>(ring.x(at.stage), x, full, tile.m0, step * block_k, tile.batch,
                                                                  share_x, static_cast<unsigned short>(mask_x));
            load_operand<y_k_major, block_n, span_y, cluster_m>(ring.y(at.stage), y, full, tile.n0, step * block_k, tile.batch,
                                                                share_y, static_cast<unsigned short>(mask_y));
            at.next(ring.stages);
        }
    }
    // A block must not leave while a peer may still arrive on its barriers: all have when its ring is empty.
    if constexpr (sharing_blocks > 1) {
        for (int stage = 0; stage < ring.stages; ++stage) {
            barrier_wait(ring.empty + at.stage * 8, at.parity ^ 1);
            at.next(ring.stages);
        }
    }
}

// Whether that block of the cluster loads tiles for this one, and this one for it.
__device__ __forceinline__ bool shares_with(int block, int rank) {
    return block < sharing_blocks && (block % cluster_m == rank % cluster_m || block / cluster_m == rank / cluster_m);
}

__device__ __forceinline__ void release(const Ring& ring, int stage, int lane, bool notifies) {
    if constexpr (sharing_blocks > 1) {
        if (notifies) barrier_arrive_remote(ring.empty + stage * 8, lane);
    } else {
        if (lane == 0) barrier_arrive(ring.empty + stage * 8);
    }
}

// A value that is the same in all threads of a warp, from a shuffle: so the compiler knows that it is, and computes descriptors once a
// warp, in uniform registers. Where one group's addresses are computed under another's multiplications, the shuffle costs more.
__device__ __forceinline__ int warp_uniform(int value) {
    if constexpr (math_groups == 1) return __shfl_sync(0xffffffffu, value, 0);
    return value;
}

// The multiplications of one stage, issued and committed as one group.
__device__ __forceinline__ void multiply(Sums& acc, u32 tile_x, u32 tile_y, int row0, bool fresh) {
    wgmma_fence();
#pragma unroll
    for (int kk = 0; kk < block_k / 16; ++kk) {
        const int slab = kk * 16 / widest_span, in_slab = kk * 16 % widest_span * 2;  // of a K-major tile
        const u32 y = y_k_major ? tile_y + slab * (block_n * span_y * 2) + in_slab : tile_y + kk * 16 * span_y * 2;
        const u64 desc_y = matrix_descriptor(y, y_k_major ? 16 : block_k * span_y * 2, 8 * span_y * 2, span_y * 2);
#pragma unroll
        for (int band = 0; band < bands; ++band) {
            const int row = row0 + band * 64;
            const u32 x = x_mn_major ? tile_x + row / span_x * (block_k * span_x * 2) + kk * 16 * span_x * 2
                                     : tile_x + slab * (block_m * span_x * 2) + row * span_x * 2 + in_slab;
            const u64 desc_x = matrix_descriptor(x, x_mn_major ? block_k * span_x * 2 : 16, 8 * span_x * 2, span_x * 2);
            Wgmma<block_n, In, Acc, x_mn_major, 1 - y_k_major>::run(acc[band], desc_x, desc_y, fresh && kk == 0 ? 0 : 1);
        }
    }
    wgmma_commit();
}

struct Output {
    Out* c;
    const TensorMap* map;
    float alpha, beta;
    long long ldc, stride_c;
    Register* partial;  // slots of block_m * block_n sums
    u32* counters;      // parts finished, one per tile and math group; zero between launches
};

__device__ __forceinline__ float scaled(const Output& out, const Out* c, float sum) {
    return !reads_c || out.beta == 0.0f ? out.alpha * sum : out.alpha * sum + out.beta * to_f32(*c);
}

__device__ __forceinline__ void store_one(const Output& out, const Shape& s, const Tile& tile, int row, int col, float value) {
    if (row >= s.m || col >= s.n) return;
    Out* to = out.c + tile.batch * out.stride_c + (swap_ab ? col * out.ldc + row : row * out.ldc + col);
    *to = from_f32<Out>(scaled(out, to, value));
}

// Two neighbouring columns at (row, col), scaled, with bounds.
__device__ __forceinline__ void store_pair(const Output& out, const Shape& s, const Tile& tile, int row, int col, const Pair& sums) {
    if (!swap_ab && align_c >= 4 && row < s.m && col + 1 < s.n) {
        Out* to = out.c + tile.batch * out.stride_c + row * out.ldc + col;
        const float first = scaled(out, to, sums.low);
        const float second = scaled(out, to + 1, sums.high);
        *reinterpret_cast<u32*>(to) = pack2<Out>(first, second);
    } else {
        store_one(out, s, tile, row, col, sums.low);
        store_one(out, s, tile, row, col + 1, sums.high);
    }
}

// A quad: two neighbouring columns at (row, col), and at the row eight below.
__device__ __forceinline__ void store_quad_of_c(const Output& out, const Shape& s, const Tile& tile, int row, int col, const Pair& upper,
                                                const Pair& lower) {
    store_pair(out, s, tile, row, col, upper);
    store_pair(out, s, tile, row + 8, col, lower);
}

__device__ __forceinline__ void store_direct(const Output& out, const Shape& s, const Tile& tile, int row0, int rank,
                                             const Sums& acc) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
#pragma unroll
    for (int band = 0; band < bands; ++band) {
        const int row = tile.m0 + row0 + band * 64 + warp * 16 + lane / 4;
#pragma unroll
        for (int j = 0; j < block_n / 8; ++j) {
            if (cluster_k > 1 && owner_of(band, j) != rank) continue;
            const int col = tile.n0 + j * 8 + lane % 4 * 2;
            store_quad_of_c(out, s, tile, row, col, pair_of(acc[band], 2 * j), pair_of(acc[band], 2 * j + 1));
        }
    }
}

// Accumulators -> staging buffer -> TMA store, span by span; the stores run under the next tile's multiplications. A buffer has a row of
// span_c columns for each of the group's rows, or with swap_ab for each column a row of 64 rows, band after band.
__device__ __forceinline__ void store_staged(const Output& out, const Tile& tile, int row0, int rank, u32 staging, int group,
                                             const Sums& acc) {
    const int thread = threadIdx.x % 128, lane = thread % 32, warp = thread / 32;
    const int row_in_band = warp * 16 + lane % 8 + (lane / 8 & 1) * 8;
    constexpr int row_shift = span_c == 64 ? 0 : span_c == 32 ? 1 : 2;  // how the swizzle reads the row
    constexpr int chunk_mask = span_c / 8 - 1;
#pragma unroll
    for (int part = 0; part < block_n / span_c; ++part) {
        if (cluster_k > 1 && owner_of(0, part * span_c / 8) != rank) continue;
        const u32 buffer = staging + part % store_buffers * staging_bytes;
        // Only the thread that committed a store can wait for it, so it waits and then the barrier frees the others.
        if (thread == 0) store_wait_read<store_buffers - 1>();
        named_barrier(1 + group, 128);
#pragma unroll
        for (int band = 0; band < bands; ++band) {
            const int row = band * 64 + row_in_band;
#pragma unroll
            for (int j = 0; j < span_c / 8; j += 2) {
                u32 r[4];
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const Pair sums = pair_of(acc[band], 2 * (part * span_c / 8 + j) + i);
                    r[i] = pack2<Out>(out.alpha * sums.low, out.alpha * sums.high);
                }
                if constexpr (swap_ab) {
                    const int column = (j + lane / 16) * 8 + lane % 8;
                    const int chunk = (warp * 2 + (lane / 8 & 1)) ^ (lane % 8);
                    store_matrices_transposed(buffer + band * (64 * span_c * 2) + column * 128 + chunk * 16, r[0], r[1], r[2], r[3]);
                } else {
                    const int chunk = (j + lane / 16) ^ (row >> row_shift & chunk_mask);
                    store_matrices(buffer + row * span_c * 2 + chunk * 16, r[0], r[1], r[2], r[3]);
                }
            }
        }
        fence_async_proxy();
        named_barrier(1 + group, 128);
        if (thread == 0) {
            const int column = tile.n0 + part * span_c, first_row = tile.m0 + row0;
            if constexpr (swap_ab) {
#pragma unroll
                for (int band = 0; band < bands; ++band)
                    store_box(out.map, buffer + band * (64 * span_c * 2), first_row + band * 64, column, tile.batch);
            } else {
                store_box(out.map, buffer, column, first_row, tile.batch);
            }
            store_commit();
        }
    }
    if (block_n / span_c % store_buffers != 0 && thread == 0) store_wait_read<0>();  // the next tile starts at buffer 0 again
}

// Parts of a sum are added in f32, whatever they are kept in, and rounded once: a register at a time.
__device__ __forceinline__ void add_to(float* sum, float part) { sum[0] += part; }
__device__ __forceinline__ void add_to(float* sum, u32 part) {
    const Pair pair = pair_of(&part, 0);
    sum[0] += pair.low;
    sum[1] += pair.high;
}
__device__ __forceinline__ void round_to(float& to, const float* sum) { to = sum[0]; }
__device__ __forceinline__ void round_to(u32& to, const float* sum) { to = pack2<f16>(sum[0], sum[1]); }

// Sends each peer in the cluster its share of this block's sums, and adds to the own share what the peers sent, in the order of the blocks.
__device__ __forceinline__ void exchange(u32 received, u32 barrier, int rank, Sums& acc) {
    const int thread = threadIdx.x - 128;
    if (thread == 0) barrier_expect(barrier, received_bytes);
#pragma unroll
    for (int q = 0; q < quads; ++q) {
        const int owner = q / quads_each;
        if (owner == rank) continue;
        const int slot = rank < owner ? rank : rank - 1;
        const u32 to = received + ((slot * quads_each + q % quads_each) * math_threads + thread) * (quad_registers * 4);
        send_remote(to, barrier, owner, &acc[q / (block_n / 8)][q % (block_n / 8) * quad_registers]);
    }
    barrier_wait_cluster(barrier, 0);
#pragma unroll
    for (int q = 0; q < quads; ++q) {
        if (q / quads_each != rank) continue;
        Register* own = &acc[q / (block_n / 8)][q % (block_n / 8) * quad_registers];
        float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
        for (int block = 0; block < cluster_k; ++block) {
            Register from[quad_registers];
#pragma unroll
            for (int i = 0; i < quad_registers; ++i) from[i] = own[i];
            const int slot = block < rank ? block : block - 1;
            if (block != rank)
                load_shared(received + ((slot * quads_each + q % quads_each) * math_threads + thread) * (quad_registers * 4), from);
#pragma unroll
            for (int i = 0; i < quad_registers; ++i) add_to(&sum[i * sums_each], from[i]);
        }
#pragma unroll
        for (int i = 0; i < quad_registers; ++i) round_to(own[i], &sum[i * sums_each]);
    }
}

constexpr int slot_registers = block_m * block_n / sums_each;

// Where a thread's quad of a math group lies in a slot that a second kernel reads: all threads' side by side.
__device__ __forceinline__ int quad_in_slot(int group_in_tile, int quad, int thread) {
    return ((group_in_tile * quads + quad) * 128 + thread) * quad_registers;
}
__device__ __forceinline__ void store_quad(float* to, const float* r) {
    __stcg(reinterpret_cast<float4*>(to), make_float4(r[0], r[1], r[2], r[3]));
}
__device__ __forceinline__ void store_quad(u32* to, const u32* r) { __stcg(reinterpret_cast<uint2*>(to), make_uint2(r[0], r[1])); }
__device__ __forceinline__ void load_quad(const float* from, float* r) {
    const float4 quad = __ldcg(reinterpret_cast<const float4*>(from));
    r[0] = quad.x, r[1] = quad.y, r[2] = quad.z, r[3] = quad.w;
}
__device__ __forceinline__ void load_quad(const u32* from, u32* r) {
    const uint2 quad = __ldcg(reinterpret_cast<const uint2*>(from));
    r[0] = quad.x, r[1] = quad.y;
}

// Leaves this part in the workspace for the second kernel.
__device__ __forceinline__ void leave_part(const Output& out, const Schedule& schedule, const Work& work, int group, const Sums& acc) {
    const int thread = threadIdx.x % 128;
    Register* slot = out.partial + schedule.slot(work, work.part) * slot_registers;
#pragma unroll
    for (int q = 0; q < quads; ++q)
        store_quad(slot + quad_in_slot(pingpong ? 0 : group, q, thread), &acc[q / (block_n / 8)][q % (block_n / 8) * quad_registers]);
}

// The sum of all parts, in their order, of `count` registers from place `at` of a slot on.
template <int count>
__device__ __forceinline__ void add_parts(const Output& out, const Schedule& schedule, const Work& work, int at, Register* to) {
    float sum[count * sums_each];
#pragma unroll
    for (int i = 0; i < count * sums_each; ++i) sum[i] = 0.0f;
    for (int part = 0; part < work.parts; ++part) {
        const Register* from = out.partial + schedule.slot(work, part) * slot_registers + at;
#pragma unroll
        for (int i = 0; i < count; ++i) add_to(&sum[i * sums_each], __ldcg(from + i * 128));
    }
#pragma unroll
    for (int i = 0; i < count; ++i) round_to(to[i], &sum[i * sums_each]);
}

// Leaves this part in the workspace. True in the group that finds all parts there: its `acc` is then their sum, in order.
__device__ __forceinline__ bool combine(const Output& out, const Schedule& schedule, const Work& work, int number, int group, u32 flag,
                                        Sums& acc) {
    const int thread = threadIdx.x % 128;
    const int group_in_tile = pingpong ? 0 : group;
    const int mine = group_in_tile * bands * accumulators * 128 + thread;
    Register* own = out.partial + schedule.slot(work, work.part) * slot_registers + mine;
#pragma unroll
    for (int i = 0; i < bands * accumulators; ++i) __stcg(own + i * 128, acc[i / accumulators][i % accumulators]);
    __threadfence();
    named_barrier(1 + group, 128);
    if (thread == 0) {
        u32* counter = out.counters + number * groups_per_tile + group_in_tile;
        // Wraps to 0 with the last part, whatever it held before: a counter cannot stick.
        const u32 last_before = static_cast<u32>(work.parts) - 1;
        const bool last = atomicInc(counter, last_before) == last_before;
        __threadfence();
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(flag), "r"(last ? 1u : 0u) : "memory");
    }
    named_barrier(1 + group, 128);
    u32 last;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(last) : "r"(flag) : "memory");
    if (last == 0) return false;
    if constexpr (sums_each == 1) {
        add_parts<bands * accumulators>(out, schedule, work, mine, &acc[0][0]);
    } else {  // so many at a time that their sums in f32 find registers
        constexpr int at_once = accumulators / (accumulators > 32 ? 4 : accumulators > 16 ? 2 : 1);
#pragma unroll
        for (int first = 0; first < bands * accumulators; first += at_once)
            add_parts<at_once>(out, schedule, work, mine + first * 128, &acc[first / accumulators][first % accumulators]);
    }
    return true;
}

struct Areas {
    u32 staging, flag;       // of this math group
    u32 received, exchange;  // what peers of the cluster send, and the barrier that counts it
};

__device__ __forceinline__ void consume(const Ring& ring, const Shape& s, const Output& out, const Areas& areas, int group, int rank) {
    const int lane = threadIdx.x % 32;
    const int row0 = pingpong || math_groups == 1 ? 0 : group * group_rows;
    const bool notifies = shares_with(lane, rank);
    Sums acc;
    Schedule schedule(s, rank);
    Position at;
    Work work;
    int turn = 0;
    u32 order_parity = group == 0 ? 1 : 0;  // the first turn of group 0 waits for nobody
    while (schedule.next(work)) {
        if (pingpong) {
            const bool mine = turn == group;
            turn = turn + 1 == math_groups ? 0 : turn + 1;
            if (!mine) {
                at.skip(work.steps, ring.stages);
                continue;
            }
            // Turns in order: a group that ran ahead by a whole lap of the ring would take an old phase's parity for its own.
            barrier_wait(ring.order + group * 8, order_parity);
            order_parity ^= 1;
        }
        int previous = 0;
        if (cluster_k > 1 && work.steps == 0) {  // fewer K steps than blocks
#pragma unroll
            for (int i = 0; i < bands * accumulators; ++i) acc[i / accumulators][i % accumulators] = Register{};
        }
        for (int step = 0; step < work.steps; ++step) {
            const int stage = warp_uniform(at.stage);
            barrier_wait(ring.full + at.stage * 8, at.parity);
            multiply(acc, ring.x(stage), ring.y(stage), row0, step == 0);
            if (step > 0) {
                wgmma_wait<1>();
                release(ring, previous, lane, notifies);
            }
            previous = at.stage;
            at.next(ring.stages);
        }
        if (pingpong && lane == 0) barrier_arrive(ring.order + (group + 1 == math_groups ? 0 : group + 1) * 8);
        const Tile tile = schedule.tile(work);  // its divisions run under the last multiplications
        wgmma_wait<0>();
        if (cluster_k == 1 || work.steps > 0) release(ring, previous, lane, notifies);
        if constexpr (reduce_kernel) {
            leave_part(out, schedule, work, group, acc);
            continue;
        }
        if constexpr (cluster_k > 1)
            exchange(areas.received, areas.exchange, rank, acc);
        else if (work.parts > 1 && !combine(out, schedule, work, tile.number, group, areas.flag, acc)) continue;
        if (tma_store && (!reads_c || out.beta == 0.0f))
            store_staged(out, tile, row0, rank, areas.staging, group, acc);
        else
            store_direct(out, s, tile, row0, rank, acc);
    }
    if (tma_store && threadIdx.x % 128 == 0) store_wait_read<0>();
}

}  // namespace

extern "C" __global__ void __launch_bounds__(math_threads + 128, 1)
    AUTOTUNE_KERNEL(const __grid_constant__ TensorMap map_x, const __grid_constant__ TensorMap map_y,
                    const __grid_constant__ TensorMap map_c, Out* c, float alpha, float beta, int m, int n, int k, long long ldc,
                    int batch, long long stride_c, u32* counters, Register* partial, int stages, int tiles_m, int tiles_n, int whole,
                    int group, int raster, int split_k, int evict_first, int prefetch_steps, int early_blocks) {
    extern __shared__ unsigned char shared[];
    const u32 base = (smem_address(shared) + 1023) & ~1023u;
    const Shape shape{swap_ab ? n : m, swap_ab ? m : n, k, batch, tiles_m, tiles_n, whole, split_k, group, raster};
    const u32 staging = base + stages * stage_bytes;
    const u32 received = staging + math_groups * store_buffers * staging_bytes;
    const u32 barriers = received + received_bytes;
    const Ring ring{base, barriers, barriers + stages * 8, barriers + stages * 16, stages};
    const u32 exchanged = ring.order + math_groups * 8;
    const u32 flags = exchanged + 8;
    const u32 turn = flags + math_groups * 4;
    const int rank = cluster_blocks > 1 ? static_cast<int>(cluster_rank()) : 0;
    if (threadIdx.x == 0) {
        prefetch_map(&map_x);
        prefetch_map(&map_y);
        if constexpr (tma_store) prefetch_map(&map_c);
        for (int stage = 0; stage < stages; ++stage) {
            barrier_init(ring.full + stage * 8, 1);
            barrier_init(ring.empty + stage * 8, 4 * groups_per_tile * notified_blocks);  // one arrival per math warp
        }
        barrier_init(exchanged, 1);
        for (int i = 0; i < math_groups; ++i) barrier_init(ring.order + i * 8, 4);
        asm volatile("st.volatile.shared.u32 [%0], 0;" ::"r"(turn) : "memory");
        fence_barrier_init();
    }
    if constexpr (cluster_blocks > 1)
        cluster_sync();
    else
        __syncthreads();

    // What the groups hold may not exceed what the block was given: 3 x 168 or 4 x 128 registers for each of 128 threads.
    constexpr bool reallocate = math_groups > 1;  // one math group has all the registers it needs
    const int warpgroup = threadIdx.x / 128;
    if (warpgroup == 0) {
        // By a warp that has nothing else to do, until the turn comes; before the warpgroup keeps but 40 registers, beside which it spills.
        if (threadIdx.x == 32 && prefetch_steps > 0) {
            const EarlyFetch fetch{prefetch_steps, early_blocks, turn};
            if (early_blocks == 0)
                fetch_own(fetch, Schedule(shape, rank), &map_x, &map_y, cluster_k > 1 ? 0 : rank);
            else if (blockIdx.x < early_blocks)
                fetch_for_all(fetch, shape, &map_x, &map_y);
        }
        __syncwarp();
        if constexpr (reallocate) give_registers<math_groups == 2 ? 40 : 56>();
        if (threadIdx.x == 0) {
            const Operand x{&map_x, evict_first == 1 ? policy_evict_first : policy_normal};
            const Operand y{&map_y, evict_first == 2 ? policy_evict_first : policy_normal};
            produce(ring, Schedule(shape, rank), x, y, cluster_k > 1 ? 0 : rank, turn);
        }
    } else {
        if constexpr (reallocate) take_registers<math_groups == 2 ? 232 : 152>();
        begin_turn();
        const Output out{c, &map_c, alpha, beta, ldc, stride_c, partial, counters};
        const int math_group = warpgroup - 1;
        const Areas areas{staging + math_group * store_buffers * staging_bytes, flags + math_group * 4, received, exchanged};
        consume(ring, shape, out, areas, math_group, rank);
    }
}

#if AUTOTUNE_REDUCE_KERNEL
// Adds what split-K left in the workspace, part by part, in f32: a block of 128 threads adds two quads of every thread of a math group.
extern "C" __global__ void __launch_bounds__(128)
    AUTOTUNE_ENTRY(_reduce)(Out* c, float alpha, float beta, int m, int n, long long ldc, int batch, long long stride_c,
                            const Register* partial, int tiles_m, int tiles_n, int group, int raster, int split_k) {
    dependent_launch::let_next_grid_start();
    const Shape shape{swap_ab ? n : m, swap_ab ? m : n, 0, batch, tiles_m, tiles_n, 0, split_k, group, raster};
    const int pair = static_cast<int>(blockIdx.x) % (quads / 2);
    const int group_of_all = static_cast<int>(blockIdx.x) / (quads / 2);
    const int number = group_of_all / groups_per_tile, group_in_tile = group_of_all % groups_per_tile;
    const int thread = threadIdx.x, lane = thread % 32, warp = thread / 32;
    const Schedule schedule(shape, number % sharing_blocks);
    Work work{};
    work.index = number / sharing_blocks;
    const Tile tile = schedule.tile(work);
    const int row = tile.m0 + group_in_tile * group_rows + 2 * pair / (block_n / 8) * 64 + warp * 16 + lane / 4;
    const int col = tile.n0 + 2 * pair % (block_n / 8) * 8 + lane % 4 * 2;
    const Register* from = partial + schedule.slot(work, 0) * slot_registers + quad_in_slot(group_in_tile, 2 * pair, thread);
    float sums[8] = {};
    dependent_launch::wait_for_earlier_grids();
#pragma unroll 4
    for (int part = 0; part < split_k; ++part) {
        Register quad[2][quad_registers];
#pragma unroll
        for (int q = 0; q < 2; ++q) {
            load_quad(from + part * static_cast<long long>(slot_registers) + q * (128 * quad_registers), quad[q]);
#pragma unroll
            for (int i = 0; i < quad_registers; ++i) add_to(&sums[q * 4 + i * sums_each], quad[q][i]);
        }
    }
    const Output out{c, nullptr, alpha, beta, ldc, stride_c, nullptr, nullptr};
#pragma unroll
    for (int q = 0; q < 2; ++q)
        store_quad_of_c(out, shape, tile, row, col + q * 8, pair_of(&sums[q * 4], 0), pair_of(&sums[q * 4], 1));
}
#endif

// Copies an operand with rows of any alignment to the workspace, with rows padded to 16 bytes.
extern "C" __global__ void __launch_bounds__(256)
    AUTOTUNE_ENTRY(_pack)(const In* from, In* to, int rows, int cols, long long ld, long long ld_packed, int batch, long long stride) {
    pack_rows(from, to, rows, cols, ld, ld_packed, batch, stride);
}
