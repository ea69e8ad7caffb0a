// C = alpha A B + beta C on Hopper: TMA loads into an mbarrier ring, wgmma multiplies from shared memory; one producer warpgroup
// and `consumer_warpgroups` consumer warpgroups, persistent blocks.
// Cooperative: the consumer warpgroups share a tile, each has a band of its rows. Ping-pong: each consumer warpgroup has its own
// tiles, so that one's epilogue overlaps another's multiplications.
// X is the operand on wgmma's M side, Y the one on its N side: A and B, or with swap_ab B^T and A^T (C^T = B^T A^T), so that in a
// problem with few rows the other operand fills the 64 rows of a multiplication.
// K is divided among blocks by split-K (split_k parts of every tile) or stream-K (split_k = 0: whole waves of tiles, then the
// rest in equal runs of K steps). All parts are added in order, by the part that finishes last or, with reduce_kernel, by a
// second kernel: the result does not depend on timing. Or the `cluster_k` blocks of a cluster divide K, and each adds its share
// of the tile from what its peers send to its shared memory.
// The C that beta multiplies is loaded by TMA while the tile is multiplied, to the buffers where its sums will be staged; if sums
// are stored directly, many elements of C are loaded before the first store.
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
constexpr int reads_c = ${reads_c};  // 0: beta is known to be 0; reading C is compiled out
constexpr int swap_ab = ${swap_ab};
constexpr int block_m = ${block_m};
constexpr int block_n = ${block_n};
constexpr int block_k = ${block_k};
constexpr int consumer_warpgroups = ${consumer_warpgroups};
constexpr int pingpong = ${pingpong};
constexpr int serpentine_k = ${serpentine_k};  // 1: every other tile of a cluster begins with its last K step
constexpr int cluster_m = ${cluster_m};  // blocks along M that share a tile of Y
constexpr int cluster_n = ${cluster_n};  // blocks along N that share a tile of X
constexpr int cluster_k = ${cluster_k};  // blocks that divide the K steps of one tile
constexpr int tma_store = ${tma_store};
constexpr int epilogue_stages = ${epilogue_stages};  // buffers for spans of C that are being stored
constexpr int tma_swizzle = ${tma_swizzle};  // largest width of a swizzle pattern along an operand's row, in bytes
// 1: the next descriptors and tiles are computed by additions, C is staged in rounds
constexpr int advance_descriptors = ${advance_descriptors};
constexpr int overlap_epilogue = ${overlap_epilogue};  // 1: K is whole; a cooperative tile is stored during the next multiplications
#define AUTOTUNE_REDUCE_KERNEL ${reduce_kernel}
// ---- end of parameters ----
#include "common/dependent_launch.cuh"
#include "common/hopper.cuh"
#include "common/ptx.cuh"
#include "gemm/device/pack.cuh"

namespace {

using namespace hopper;

constexpr int x_mn_major = swap_ab ? 1 - trans_b : trans_a;
constexpr int y_k_major = swap_ab ? 1 - trans_a : trans_b;

static_assert(sizeof(In) == 2 && sizeof(Out) == 2 && (is_same<Acc, f32> || (is_same<Acc, f16> && is_same<In, f16>)));
constexpr int element_bytes = 2;
constexpr bool converts_pairs = false;

}  // namespace

#include "gemm/device/hopper/hopper_tile.cuh"
#include "gemm/device/hopper/hopper_schedule.cuh"
#include "gemm/device/hopper/hopper_ring.cuh"
#include "gemm/device/hopper/hopper_whole_tiles.cuh"
#include "gemm/device/hopper/hopper_producer.cuh"
#include "gemm/device/pair_store.cuh"
#include "gemm/device/hopper/hopper_parts.cuh"
#include "gemm/device/pair_load.cuh"
#include "gemm/device/prefetch_c.cuh"

namespace {

constexpr int spans = block_n / span_c;
constexpr int spans_each = spans < cluster_k ? 1 : spans / cluster_k;  // spans that a block stores
constexpr bool loads_c = reads_c && tma_store;  // by TMA
constexpr u32 c_barrier_bytes = loads_c ? consumer_warpgroups * epilogue_stages * 8 : 0;

// The matrix descriptors of a consumer warpgroup's operands in stage 0, for advance_descriptors. Those of other stages and steps
// differ only in the low word, by a sixteenth of their distance in bytes. That is one addition in uniform registers, because
// shuffles tell the compiler that all threads of a warp have the same value. Computed anew for each multiplication, they took
// half of all instructions and 2 % of a launch's energy (8192x6144x4096, H200).
struct Descriptors {
    u32 x, y;
};
// The upper word of a descriptor, which describes eight rows and their swizzle.
__device__ constexpr u64 upper_word(int span) { return static_cast<u64>(span | (span == 64 ? 1u : span == 32 ? 2u : 3u) << 30) << 32; }
constexpr u64 upper_x = upper_word(span_x), upper_y = upper_word(span_y);

__device__ __forceinline__ int uniform(int value) { return __shfl_sync(0xffffffffu, value, 0); }

__device__ __forceinline__ Descriptors first_descriptors(const Ring& ring, int row0) {
    const u32 x = ring.x(0) + (x_mn_major ? row0 / span_x * (block_k * span_x * 2) : row0 * span_x * 2);
    const u64 desc_x = matrix_descriptor(x, x_mn_major ? block_k * span_x * 2 : 16, 8 * span_x * 2, span_x * 2);
    const u64 desc_y = matrix_descriptor(ring.y(0), y_k_major ? 16 : block_k * span_y * 2, 8 * span_y * 2, span_y * 2);
    return {static_cast<u32>(uniform(static_cast<int>(desc_x))), static_cast<u32>(uniform(static_cast<int>(desc_y)))};
}

// The multiplications of one stage, issued and committed as one group.
__device__ __forceinline__ void multiply(Sums& acc, const Descriptors& first, int stage, bool fresh) {
    const u32 x = first.x + stage * (stage_bytes / 16), y = first.y + stage * (stage_bytes / 16);
    wgmma_fence();
#pragma unroll
    for (int kk = 0; kk < block_k / 16; ++kk) {
        const u32 slab = kk * 16 / widest_span, in_slab = kk * 16 % widest_span * 2;  // position in a K-major tile
        const u32 to_y = y_k_major ? slab * (block_n * span_y * 2) + in_slab : kk * 16 * span_y * 2;
#pragma unroll
        for (int band = 0; band < bands; ++band) {
            const u32 to_x = x_mn_major ? band * (64 / span_x) * (block_k * span_x * 2) + kk * 16 * span_x * 2
                                        : slab * (block_m * span_x * 2) + band * 64 * span_x * 2 + in_slab;
            Wgmma<block_n, In, Acc, x_mn_major, 1 - y_k_major>::run(acc[band], upper_x | (x + to_x / 16), upper_y | (y + to_y / 16),
                                                                    fresh && kk == 0 ? 0 : 1);
        }
    }
    wgmma_commit();
}

// Multiplies with descriptors computed from the tiles' addresses.
__device__ __forceinline__ void multiply(Sums& acc, u32 tile_x, u32 tile_y, int row0, bool fresh) {
    wgmma_fence();
#pragma unroll
    for (int kk = 0; kk < block_k / 16; ++kk) {
        const int slab = kk * 16 / widest_span, in_slab = kk * 16 % widest_span * 2;  // position in a K-major tile
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

// Stores a quad, which is two neighbouring columns at (row, col) and at the row eight below.
__device__ __forceinline__ void store_quad_of_c(const Output& out, const Extents& s, const Tile& tile, int row, int col, const Pair& upper,
                                                const Pair& lower) {
    store_pair<false>(out, s, tile, row, col, upper);
    store_pair<false>(out, s, tile, row + 8, col, lower);
}
__device__ __forceinline__ void add_quad_to_c(const Output& out, const Extents& s, const Tile& tile, int row, int col, const QuadOfC& before,
                                              const Pair& upper, const Pair& lower) {
    Output rest = out;  // a copy that stores pairs unscaled
    rest.alpha = 1.0f;
    rest.beta = 0.0f;
    store_quad_of_c(rest, s, tile, row, col, with_pair_of_c(out, upper, before.upper), with_pair_of_c(out, lower, before.lower));
}

// Row and column of quad j of a band for a thread.
__device__ __forceinline__ int row_of_quad(const Tile& tile, int row0, int band) {
    return tile.m0 + row0 + band * 64 + threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
}
__device__ __forceinline__ int col_of_quad(const Tile& tile, int j) { return tile.n0 + j * 8 + threadIdx.x % 4 * 2; }

__device__ __forceinline__ void store_direct(const Output& out, const Extents& s, const Tile& tile, int row0, int rank,
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

// The same, with C added: many quads of C are loaded before the first is used. Goes through all bands of one column before the
// next column, so that conditions do not occupy registers for long.
__device__ __forceinline__ void add_direct(const Output& out, const Extents& s, const Tile& tile, int row0, int rank, const Sums& acc) {
    constexpr int sums = bands * accumulators;
    constexpr int most = sums > 128 ? 4 : sums > 96 ? 8 / sums_each : 16;  // quads for which the sums leave enough registers
    constexpr int at_once = quads < most ? quads : most;
#pragma unroll
    for (int first = 0; first < quads; first += at_once) {
        QuadOfC before[at_once];
#pragma unroll
        for (int q = first; q < first + at_once && q < quads; ++q) {
            const int band = q % bands, j = q / bands;
            if (cluster_k > 1 && owner_of(band, j) != rank) continue;
            before[q - first] = quad_of_c(out, s, tile, row_of_quad(tile, row0, band), col_of_quad(tile, j));
        }
#pragma unroll
        for (int q = first; q < first + at_once && q < quads; ++q) {
            const int band = q % bands, j = q / bands;
            if (cluster_k > 1 && owner_of(band, j) != rank) continue;
            add_quad_to_c(out, s, tile, row_of_quad(tile, row0, band), col_of_quad(tile, j), before[q - first],
                          pair_of(acc[band], 2 * j), pair_of(acc[band], 2 * j + 1));
        }
    }
}

// Fetches the C that beta multiplies for a block's first tiles: one, or one for each ping-pong group.
__device__ __forceinline__ void prefetch_first_tiles_of_c(const Out* c, long long ldc, long long stride_c, const Extents& s, Schedule schedule,
                                                          int thread, int threads) {
    constexpr int rows = swap_ab ? block_n : block_m, cols = swap_ab ? block_m : block_n;
    Work work;
#pragma unroll 1
    for (int i = 0; i < (pingpong ? consumer_warpgroups : 1) && schedule.next(work); ++i) {
        const Tile tile = schedule.tile(work);
        const int row = swap_ab ? tile.n0 : tile.m0, col = swap_ab ? tile.m0 : tile.n0;
        prefetch_c<cols>(c + tile.batch * stride_c + row * ldc + col, ldc, min(rows, (swap_ab ? s.n : s.m) - row),
                         min(cols, (swap_ab ? s.m : s.n) - col), thread, threads);
    }
}

// The spans of C that TMA loads for a consumer warpgroup into the buffers in which their sums will be staged. Each buffer has a bit: the
// parity of its next phase.
struct SpansOfC {
    u32 full;
    u32 parities = 0;
    __device__ __forceinline__ void wait(int buffer) {
        barrier_wait(full + buffer * 8, parities >> buffer & 1);
        parities ^= 1u << buffer;
    }
};

// Calls `visit` for the boxes of a span. There is one for the group's rows, or with swap_ab one for each band.
template <typename Visit>
__device__ __forceinline__ void for_each_box_of_c(const Tile& tile, int row0, int part, Visit visit) {
    const int column = tile.n0 + part * span_c, first_row = tile.m0 + row0;
    if constexpr (swap_ab) {
#pragma unroll
        for (int band = 0; band < bands; ++band) visit(band * (64 * span_c * 2), first_row + band * 64, column);
    } else {
        visit(0, column, first_row);
    }
}

__device__ __forceinline__ void load_span_of_c(const Output& out, const Tile& tile, int row0, int part, u32 staging, u32 full) {
    const int buffer = part % epilogue_stages;
    barrier_expect(full + buffer * 8, staging_bytes);
    for_each_box_of_c(tile, row0, part, [&](u32 offset, int x, int y) {
        load_box(staging + buffer * staging_bytes + offset, out.map, full + buffer * 8, x, y, tile.batch, policy_normal);
    });
}

// Loads as many spans as have buffers, and fetches the others into L2. The storing thread calls this.
__device__ __forceinline__ void load_first_spans_of_c(const Output& out, const Tile& tile, int row0, int rank, u32 staging, u32 full) {
    store_wait_read<0>();  // waits until the previous tile's stores have read the buffer
#pragma unroll
    for (int part = 0; part < spans; ++part) {
        if (cluster_k > 1 && owner_of(0, part * span_c / 8) != rank) continue;
        if (part % spans_each < epilogue_stages)
            load_span_of_c(out, tile, row0, part, staging, full);
        else
            for_each_box_of_c(tile, row0, part, [&](u32, int x, int y) { prefetch_box(out.map, x, y, tile.batch); });
    }
}

// The number of spans of C that are staged between two barriers: all if each has a buffer, otherwise half as many as there are
// buffers. The other half then holds the previous round's spans, which are still being stored.
constexpr int spans_in_round = spans_each <= epilogue_stages ? spans_each : (epilogue_stages + 1) / 2;
constexpr int rounds_on_their_way = epilogue_stages / spans_in_round;

// Afterwards the buffers of a round are free. Only the thread that committed a store can wait for it, so that thread waits, and a
// barrier then releases the others. A tile's first round always uses the first buffers.
template <bool is_first>
__device__ __forceinline__ void wait_for_buffers(int group) {
    constexpr bool last_was_elsewhere = spans_each % (spans_in_round * rounds_on_their_way) == 0;
    constexpr int on_their_way = is_first && !last_was_elsewhere ? 0 : rounds_on_their_way - 1;
    if (threadIdx.x % 128 == 0) store_wait_read<on_their_way>();
    named_barrier(1 + group, 128);
}

// Two neighbouring elements of C, of pair i of a band's sums.
__device__ __forceinline__ u32 pair_of_c(const Output& out, const Register* sums, int i) {
    const Pair pair = pair_of(sums, i);
    return pack2<Out>(out.alpha * pair.low, out.alpha * pair.high);
}

// Writes a span to its buffer. The buffer has a row of span_c columns for each of the group's rows; with swap_ab it has a row of 64 rows
// for each column, band after band. elements(band, i) returns what pair_of_c() does.
template <class Elements>
__device__ __forceinline__ void stage_span(u32 buffer, int part, Elements elements) {
    const int thread = threadIdx.x % 128, lane = thread % 32, warp = thread / 32;
    const int row_in_band = warp * 16 + lane % 8 + (lane / 8 & 1) * 8;
    constexpr int row_shift = span_c == 64 ? 0 : span_c == 32 ? 1 : 2;  // which bits of the row the swizzle uses
    constexpr int chunk_mask = span_c / 8 - 1;
#pragma unroll
    for (int band = 0; band < bands; ++band) {
        const int row = band * 64 + row_in_band;
#pragma unroll
        for (int j = 0; j < span_c / 8; j += 2) {
            const u32 at = buffer + (swap_ab ? band * (64 * span_c * 2) + ((j + lane / 16) * 8 + lane % 8) * 128 +
                                                   ((warp * 2 + (lane / 8 & 1)) ^ (lane % 8)) * 16
                                             : row * span_c * 2 + ((j + lane / 16) ^ (row >> row_shift & chunk_mask)) * 16);
            u32 r[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) r[i] = elements(band, 2 * (part * span_c / 8 + j) + i);
            if constexpr (swap_ab)
                store_matrices_transposed(at, r[0], r[1], r[2], r[3]);
            else
                store_matrices(at, r[0], r[1], r[2], r[3]);
        }
    }
}

// Called by one thread: begins to store a staged span to memory.
__device__ __forceinline__ void send_span(const Output& out, const Tile& tile, int row0, u32 buffer, int part) {
    for_each_box_of_c(tile, row0, part, [&](u32 offset, int x, int y) {
        store_box(out.map, buffer + offset, x, y, tile.batch);
    });
}

// Stores the accumulators through the staging buffers by TMA, round by round; the stores run during the next tile's
// multiplications. REQUIRES wait_for_buffers<true>() since the previous tile, preferably during this one's multiplications, where
// it costs nothing.
__device__ __forceinline__ void store_staged(const Output& out, const Tile& tile, int row0, int rank, u32 staging, int group,
                                             const Sums& acc) {
    const int own = cluster_k > 1 ? rank * spans_each : 0;  // the first span that this block stores
#pragma unroll
    for (int first = 0; first < spans; ++first) {
        if (cluster_k > 1 && owner_of(0, first * span_c / 8) != rank) continue;
        const int nth = cluster_k > 1 ? first % spans_each : first;
        if (nth > 0 && nth % spans_in_round == 0) wait_for_buffers<false>(group);
        stage_span(staging + nth % (spans_in_round * rounds_on_their_way) * staging_bytes, first,
                   [&](int band, int i) { return pair_of_c(out, acc[band], i); });
        if (nth % spans_in_round != spans_in_round - 1 && nth != spans_each - 1) continue;
        fence_async_proxy();
        named_barrier(1 + group, 128);
        if (threadIdx.x % 128 != 0) continue;
#pragma unroll
        for (int i = nth / spans_in_round * spans_in_round; i <= nth; ++i)
            send_span(out, tile, row0, staging + i % (spans_in_round * rounds_on_their_way) * staging_bytes, own + i);
        store_commit();
    }
}

// Stores span by span, for configs without advance_descriptors, and for those in which C of the next span is loaded into the buffer
// of the previous span.
template <bool adds_c>
__device__ __forceinline__ void store_by_spans(const Output& out, const Tile& tile, int row0, int rank, u32 staging, int group,
                                             const Sums& acc, SpansOfC& c) {
    const int thread = threadIdx.x % 128, lane = thread % 32, warp = thread / 32;
    const int row_in_band = warp * 16 + lane % 8 + (lane / 8 & 1) * 8;
    constexpr int row_shift = span_c == 64 ? 0 : span_c == 32 ? 1 : 2;  // which bits of the row the swizzle uses
    constexpr int chunk_mask = span_c / 8 - 1;
#pragma unroll
    for (int part = 0; part < block_n / span_c; ++part) {
        if (cluster_k > 1 && owner_of(0, part * span_c / 8) != rank) continue;
        const u32 buffer = staging + part % epilogue_stages * staging_bytes;
        if constexpr (adds_c) {
            const int stored = part % spans_each;
            if (stored > 0 && stored - 1 + epilogue_stages < spans_each && thread == 0) {
                store_wait_read<0>();
                load_span_of_c(out, tile, row0, part - 1 + epilogue_stages, staging, c.full);
            }
            c.wait(part % epilogue_stages);
        } else {
            // Only the thread that committed a store can wait for it, so that thread waits, and a barrier then releases the
            // others.
            if (thread == 0) store_wait_read<epilogue_stages - 1>();
            named_barrier(1 + group, 128);
        }
#pragma unroll
        for (int band = 0; band < bands; ++band) {
            const int row = band * 64 + row_in_band;
#pragma unroll
            for (int j = 0; j < span_c / 8; j += 2) {
                const u32 at = buffer + (swap_ab ? band * (64 * span_c * 2) + ((j + lane / 16) * 8 + lane % 8) * 128 +
                                                       ((warp * 2 + (lane / 8 & 1)) ^ (lane % 8)) * 16
                                                 : row * span_c * 2 + ((j + lane / 16) ^ (row >> row_shift & chunk_mask)) * 16);
                u32 r[4];
                if constexpr (adds_c && swap_ab) ptx::ldmatrix_x4_trans(r, at);
                if constexpr (adds_c && !swap_ab) ptx::ldmatrix_x4(r, at);
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    const Pair sums = pair_of(acc[band], 2 * (part * span_c / 8 + j) + i);
                    if constexpr (adds_c) {
                        const Pair before = unpack2<Out>(r[i]);
                        r[i] = pack2<Out>(out.alpha * sums.low + out.beta * before.low, out.alpha * sums.high + out.beta * before.high);
                    } else {
                        r[i] = pack2<Out>(out.alpha * sums.low, out.alpha * sums.high);
                    }
                }
                if constexpr (swap_ab)
                    store_matrices_transposed(at, r[0], r[1], r[2], r[3]);
                else
                    store_matrices(at, r[0], r[1], r[2], r[3]);
            }
        }
        fence_async_proxy();
        named_barrier(1 + group, 128);
        if (thread == 0) {
            for_each_box_of_c(tile, row0, part, [&](u32 offset, int x, int y) {
                store_box(out.map, buffer + offset, x, y, tile.batch);
            });
            store_commit();
        }
    }
    // The next tile begins with buffer 0. If C is loaded, the loading thread waits instead.
    if (!adds_c && block_n / span_c % epilogue_stages != 0 && thread == 0) store_wait_read<0>();
}

struct Areas {
    u32 staging, flag;       // addresses that belong to this consumer warpgroup
    u32 received, exchange;  // sums from the cluster's peers, and the barrier that counts them
    u32 c_full;              // the barriers of this consumer warpgroup's spans of C
};

template <int>
struct OrderOf {
    using Type = Schedule;
};
template <>
struct OrderOf<1> {
    using Type = AnyTiles;
};

template <class Order>
__device__ __forceinline__ void consume(const Ring& ring, const Extents& s, const Output& out, const Areas& areas, int group, int rank) {
    const int lane = threadIdx.x % 32;
    const int row0 = pingpong || consumer_warpgroups == 1 ? 0 : group * group_rows;
    const bool notifies = shares_with(lane, rank);
    Descriptors first;
    if constexpr (advance_descriptors) first = first_descriptors(ring, row0);
    Sums acc;
    Order schedule(s, rank);
    Position at;
    Work work;
    int turn = 0;
    u32 order_parity = group == 0 ? 1 : 0;  // the first turn of group 0 needs no wait
    SpansOfC c_spans{areas.c_full};
    const bool adds_c = reads_c && out.beta != 0.0f;
    while (schedule.next(work)) {
        if (pingpong) {
            const bool mine = turn == group;
            turn = turn + 1 == consumer_warpgroups ? 0 : turn + 1;
            if (!mine) {
                at.skip(work.steps, ring.stages);
                continue;
            }
            // Groups take turns in order. Otherwise a group that is ahead by a whole lap of the ring could mistake an old phase's
            // parity for its own.
            barrier_wait(ring.order + group * 8, order_parity);
            order_parity ^= 1;
        }
        const bool is_divided = cluster_k == 1 && work.parts > 1;
        if (loads_c && adds_c && !is_divided && threadIdx.x % 128 == 0)
            load_first_spans_of_c(out, schedule.tile(work), row0, rank, areas.staging, areas.c_full);
        int previous = 0;
        if (cluster_k > 1 && work.steps == 0) {  // fewer K steps than blocks
#pragma unroll
            for (int i = 0; i < bands * accumulators; ++i) acc[i / accumulators][i % accumulators] = Register{};
            if (advance_descriptors && tma_store && !adds_c) wait_for_buffers<true>(group);
        }
        for (int step = 0; step < work.steps; ++step) {
            const int stage = advance_descriptors ? uniform(at.stage) : warp_uniform(at.stage);
            barrier_wait(ring.full + at.stage * 8, at.parity);
            if constexpr (advance_descriptors)
                multiply(acc, first, stage, step == 0);
            else
                multiply(acc, ring.x(stage), ring.y(stage), row0, step == 0);
            if (step > 0) {
                wgmma_wait<1>();
                release(ring, previous, lane, notifies);
            } else if (advance_descriptors && tma_store && !adds_c) {
                wait_for_buffers<true>(group);
            }
            previous = at.stage;
            at.next(ring.stages);
        }
        if (pingpong && lane == 0) barrier_arrive(ring.order + (group + 1 == consumer_warpgroups ? 0 : group + 1) * 8);
        const Tile tile = schedule.tile(work);  // its divisions overlap the last multiplications
        wgmma_wait<0>();
        if (cluster_k == 1 || work.steps > 0) release(ring, previous, lane, notifies);
        const Schedule* general;
        if constexpr (advance_descriptors)
            general = &schedule.general;
        else
            general = &schedule;
        if constexpr (reduce_kernel) {
            leave_part(out, *general, work, group, acc);
            continue;
        }
        if constexpr (cluster_k > 1)
            exchange(areas.received, areas.exchange, rank, acc);
        else if (work.parts > 1 && !combine(out, *general, work, tile.number, group, areas.flag, acc)) continue;
        if constexpr (!tma_store && reads_c) {
            add_direct(out, s, tile, row0, rank, acc);
        } else if constexpr (!tma_store) {
            store_direct(out, s, tile, row0, rank, acc);
        } else if (loads_c && adds_c) {
            if (is_divided && threadIdx.x % 128 == 0)
                load_first_spans_of_c(out, tile, row0, rank, areas.staging, areas.c_full);
            store_by_spans<true>(out, tile, row0, rank, areas.staging, group, acc, c_spans);
        } else if constexpr (advance_descriptors) {
            store_staged(out, tile, row0, rank, areas.staging, group, acc);
        } else {
            store_by_spans<false>(out, tile, row0, rank, areas.staging, group, acc, c_spans);
        }
    }
    if (tma_store && threadIdx.x % 128 == 0) store_wait_read<0>();
}

}  // namespace

#include "gemm/wgmma/whole_loop.cuh"

extern "C" __global__ void __launch_bounds__(math_threads + 128, 1)
    AUTOTUNE_KERNEL(const __grid_constant__ TensorMap map_x, const __grid_constant__ TensorMap map_y,
                    const __grid_constant__ TensorMap map_c, Out* c, float alpha, float beta, int m, int n, int k, long long ldc,
                    int batch, long long stride_c, u32* counters, Register* partial, int stages, int tiles_m, int tiles_n, int whole,
                    int group, int raster, int split_k, int evict_first, int prefetch_steps, int early_blocks) {
    extern __shared__ unsigned char shared[];
    const u32 base = (smem_address(shared) + 1023) & ~1023u;
    const Extents shape{swap_ab ? n : m, swap_ab ? m : n, k, batch, tiles_m, tiles_n, whole, split_k, group, raster};
    const u32 staging = base + stages * stage_bytes;
    const u32 received = staging + consumer_warpgroups * epilogue_stages * staging_bytes;
    const u32 barriers = received + received_bytes;
    const Ring ring{base, barriers, barriers + stages * 8, barriers + stages * 16, stages};
    const u32 exchanged = ring.order + consumer_warpgroups * 8;
    const u32 c_full = exchanged + 8;
    const u32 flags = c_full + c_barrier_bytes;
    const u32 turn = flags + consumer_warpgroups * 4;
    const int rank = cluster_blocks > 1 ? static_cast<int>(cluster_rank()) : 0;
    if (threadIdx.x == 0) {
        for (u32 i = 0; i < c_barrier_bytes; i += 8) barrier_init(c_full + i, 1);
        if constexpr (tma_store)
            prepare(ring, 1, exchanged, turn, &map_x, &map_y, &map_c);
        else
            prepare(ring, 1, exchanged, turn, &map_x, &map_y);
    }
    meet();
    const int warpgroup = threadIdx.x / 128;
    if (warpgroup == 0) {
        // A warp that is idle until the kernel's turn runs this, before the warpgroup gives up all but 40 registers, with which
        // it would spill.
        if (threadIdx.x == 32 && prefetch_steps > 0) {
            const EarlyFetch fetch{prefetch_steps, early_blocks, turn};
            if (early_blocks == 0)
                fetch_own(fetch, Schedule(shape, rank), &map_x, &map_y, cluster_k > 1 ? 0 : rank);
            else if (blockIdx.x < early_blocks)
                fetch_for_all(fetch, shape, &map_x, &map_y);
        }
        if (reads_c && !tma_store && beta != 0.0f && threadIdx.x >= 64)
            prefetch_first_tiles_of_c(c, ldc, stride_c, shape, Schedule(shape, rank), threadIdx.x - 64, 64);
        __syncwarp();
        give_to_consumers();
        if (threadIdx.x == 0) {
            const Operand x{&map_x, evict_first == 1 ? policy_evict_first : policy_normal};
            const Operand y{&map_y, evict_first == 2 ? policy_evict_first : policy_normal};
            produce<serpentine_k>(ring, Schedule(shape, rank), x, y, cluster_k > 1 ? 0 : rank, turn);
        }
    } else {
        take_from_producer();
        begin_turn();
        const Output out{c, &map_c, policy_normal, alpha, beta, ldc, stride_c, partial, counters};
        const int consumer = warpgroup - 1;
        const Areas areas{staging + consumer * epilogue_stages * staging_bytes, flags + consumer * 4, received, exchanged,
                          c_full + consumer * epilogue_stages * 8};
        if constexpr (overlap_epilogue)
            consume_whole_tiles(ring, shape, out, areas.staging, consumer, rank);
        else
            consume<OrderOf<advance_descriptors>::Type>(ring, shape, out, areas, consumer, rank);
    }
}

#if AUTOTUNE_REDUCE_KERNEL
// Adds the parts that split-K wrote to the workspace, in order, in f32. A block of 128 threads adds two quads for every thread of a
// consumer warpgroup.
extern "C" __global__ void __launch_bounds__(128)
    AUTOTUNE_ENTRY(_reduce)(Out* c, float alpha, float beta, int m, int n, long long ldc, int batch, long long stride_c,
                            const Register* partial, int tiles_m, int tiles_n, int group, int raster, int split_k) {
    dependent_launch::let_next_grid_start();
    const Extents shape{swap_ab ? n : m, swap_ab ? m : n, 0, batch, tiles_m, tiles_n, 0, split_k, group, raster};
    const TwoQuads at = quads_of_thread(partial, shape);
    float sums[8] = {};
    dependent_launch::wait_for_earlier_grids();
    const Output out{c, nullptr, policy_normal, alpha, beta, ldc, stride_c, nullptr, nullptr};
    QuadOfC before[2];
    if constexpr (reads_c) {
#pragma unroll
        for (int q = 0; q < 2; ++q) before[q] = quad_of_c(out, shape, at.tile, at.row, at.col + q * 8);
    }
    add_quads(at.first_part, split_k, sums);
#pragma unroll
    for (int q = 0; q < 2; ++q) {
        const Pair upper = pair_of(&sums[q * 4], 0), lower = pair_of(&sums[q * 4], 1);
        if constexpr (reads_c)
            add_quad_to_c(out, shape, at.tile, at.row, at.col + q * 8, before[q], upper, lower);
        else
            store_quad_of_c(out, shape, at.tile, at.row, at.col + q * 8, upper, lower);
    }
}
#endif

// Copies an operand with rows of any alignment to the workspace, with rows padded to 16 bytes.
extern "C" __global__ void __launch_bounds__(256)
    AUTOTUNE_ENTRY(_pack)(const In* from, In* to, int rows, int cols, long long ld, long long ld_packed, int batch, long long stride) {
    pack_rows(from, to, rows, cols, ld, ld_packed, batch, stride);
}
