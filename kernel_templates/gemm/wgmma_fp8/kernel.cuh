// C = alpha scale_a A B scale_b + beta C of fp8 operands on Hopper: TMA loads into an mbarrier ring, wgmma m64nNk32 multiplies
// from shared memory; one producer warpgroup and `consumer_warpgroups` consumer warpgroups. Blocks share tiles and K as in
// gemm/wgmma. Both operands must lie along K, because wgmma accepts fp8 in no other layout. X is the operand on wgmma's M side, Y
// the one on its N side: A and B, or with swap_ab the other way round.
// The tensor cores of sm_90 keep about 13 fraction bits of a sum. promotes = 0: sums stay there; promotes = 1: the products of
// 128 k each are added to sums in f32. Block scales are factors of those products and need promotion.
#define AUTOTUNE_KERNEL ${symbol}
#include "common/types.cuh"
#include "common/fp8.cuh"
using A = ${a_type};
using B = ${b_type};
using Out = ${out_type};
constexpr int promotes = ${promotes};
// Scales 0: none, 1: per tensor, 2: per row of A and column of B, 3: per 128 k of those
constexpr int scale_mode = ${scale_mode};
constexpr int align_a = ${align_a};  // bytes; below 16 the operand is packed into the workspace first
constexpr int align_b = ${align_b};
constexpr int align_c = ${align_c};
#define AUTOTUNE_EPILOGUE ${epilogue}  // 1: the kernel has parameters for a bias, a factor of C and an amax
using Bias = ${bias_type};
constexpr int has_bias = ${has_bias};
constexpr int scales_c = ${scales_c};      // an fp8 C is multiplied by a factor
constexpr int keeps_amax = ${keeps_amax};  // amax_d is raised to the largest magnitude of C
constexpr int reads_c = ${reads_c};  // 0: beta is known to be 0; reading C is compiled out
constexpr int swap_ab = ${swap_ab};
constexpr int block_m = ${block_m};
constexpr int block_n = ${block_n};
constexpr int block_k = ${block_k};
constexpr int consumer_warpgroups = ${consumer_warpgroups};
constexpr int pingpong = ${pingpong};
constexpr int cluster_m = ${cluster_m};  // blocks along M that share a tile of Y
constexpr int cluster_n = ${cluster_n};  // blocks along N that share a tile of X
constexpr int cluster_k = ${cluster_k};  // blocks that divide the K steps of one tile
constexpr int tma_store = ${tma_store};
constexpr int epilogue_stages = ${epilogue_stages};  // buffers for spans of C that are being stored
constexpr int tma_swizzle = ${tma_swizzle};  // width of a swizzle pattern along an operand's row, in bytes (equal to elements)
constexpr int product_sets = ${product_sets};    // sets of registers for products that are not added to the f32 sums yet
constexpr int stagger = ${stagger};              // 1: from a tile's start, the second consumer warpgroup multiplies while the first adds
constexpr int overlap_epilogue = ${overlap_epilogue};  // 1: K is whole; a cooperative tile is stored during the next multiplications
#define AUTOTUNE_REDUCE_KERNEL ${reduce_kernel}
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

template <bool first, class One, class Other>
struct Choose {
    using Type = One;
};
template <class One, class Other>
struct Choose<false, One, Other> {
    using Type = Other;
};
using X = Choose<swap_ab == 0, A, B>::Type;
using Y = Choose<swap_ab == 0, B, A>::Type;

static_assert(!tma_store || sizeof(Out) == 2 || !swap_ab, "exchanged sums of other widths than 16 bits are stored directly");
static_assert(!promotes || block_k == 128, "products of 128 k are promoted");
static_assert(scale_mode != 3 || promotes, "scales of blocks are factors of promoted products");

using Acc = f32;
constexpr int element_bytes = 1;
constexpr int x_mn_major = 0, y_k_major = 1;
constexpr int most_stages = 12;       // the most stages that a ring may have
constexpr bool converts_pairs = true;  // true, because the shipped winners were measured with this setting
// Bytes for the scales of a tile's columns, for each consumer warpgroup.
constexpr u32 column_bytes = scale_mode == 2 ? block_n * 4 : 0;

}  // namespace

#include "gemm/device/hopper/hopper_tile.cuh"
#include "gemm/device/hopper/hopper_schedule.cuh"
#include "gemm/device/hopper/hopper_ring.cuh"
#include "gemm/device/hopper/hopper_whole_tiles.cuh"
#include "gemm/device/hopper/hopper_producer.cuh"
#include "gemm/device/pair_store.cuh"
#include "gemm/device/hopper/hopper_parts.cuh"
#include "gemm/device/fp8_pack.cuh"
#include "gemm/device/fp8_scales.cuh"
#include "gemm/device/fp8_epilogue.cuh"
#include "gemm/device/fp8_factors.cuh"

namespace {

static_assert(product_sets == 1 || (promotes && bands == 1), "two sets of products are for one band that is promoted");
static_assert(!stagger || (promotes && product_sets == 1 && consumer_warpgroups == 2 && !pingpong), "two groups that promote one tile's products take turns");
constexpr int stagger_barrier = 1 + consumer_warpgroups;  // barriers with lower numbers belong to the groups
// With whole tiles the order of a block's work has no branches, so the compiler knows that it is uniform over a warp.
constexpr bool takes_whole_tiles = pingpong || (promotes && block_m * block_n > 128 * 128);
static_assert(!takes_whole_tiles || (!reduce_kernel && cluster_k == 1), "K is not divided");

// Whether an alpha of 1 costs no multiplications. Otherwise each sum is multiplied at a tile's end, while the tensor cores are idle.
constexpr bool skips_alpha = scale_mode == 3 && product_sets == 1 && !reduce_kernel;

// Descriptors of a stage's operands, at its first 32 bytes of K and the first row of X.
struct Operands {
    u64 x, y;
    __device__ __forceinline__ Operands(u32 tile_x, u32 tile_y, int row)
        : x(matrix_descriptor(tile_x + row * tma_swizzle, 16, 8 * tma_swizzle, tma_swizzle)),
          y(matrix_descriptor(tile_y, 16, 8 * tma_swizzle, tma_swizzle)) {}
    __device__ __forceinline__ Operands(u64 of_x, u64 of_y) : x(of_x), y(of_y) {}
    // The same values after shuffles. The compiler then keeps them instead of computing the descriptors again in each step.
    __device__ __forceinline__ Operands held() const;
    // The descriptors of another stage, from those of the ring's first stage.
    __device__ __forceinline__ Operands of_stage(int stage) const;
};
// The descriptor of an address `bytes` further in shared memory: one 32-bit addition.
__device__ __forceinline__ u64 advanced(u64 descriptor, u32 bytes) {
    return (descriptor & 0xFFFFFFFF00000000ull) | (static_cast<u32>(descriptor) + (bytes >> 4));
}
__device__ __forceinline__ Operands Operands::of_stage(int stage) const {
    return {advanced(x, stage * stage_bytes), advanced(y, stage * stage_bytes)};
}

// Multiplies 32 bytes of K of one band and adds to `sums`.
__device__ __forceinline__ void multiply_band(float* sums, const Operands& from, int band, int kk, bool fresh) {
    const int slab = kk * 32 / tma_swizzle, in_slab = kk * 32 % tma_swizzle;
    const u64 desc_x = advanced(from.x, slab * (block_m * tma_swizzle) + band * 64 * tma_swizzle + in_slab);
    const u64 desc_y = advanced(from.y, slab * (block_n * tma_swizzle) + in_slab);
    WgmmaFp8<block_n, X, Y>::run(sums, desc_x, desc_y, fresh ? 0 : 1);
}

// The multiplications of one stage, issued and committed as one group.
__device__ __forceinline__ void multiply(Sums& acc, const Operands& from, bool fresh) {
    wgmma_fence();
#pragma unroll
    for (int kk = 0; kk < block_k / 32; ++kk) {
#pragma unroll
        for (int band = 0; band < bands; ++band) multiply_band(acc[band], from, band, kk, fresh && kk == 0);
    }
    wgmma_commit();
}

// Multiplies one stage's 128 k of one band; the products are promoted later.
__device__ __forceinline__ void multiply_promoted(float* products, const Operands& from, int band) {
    wgmma_fence();
#pragma unroll
    for (int kk = 0; kk < 4; ++kk) multiply_band(products, from, band, kk, kk == 0);
    wgmma_commit();
}

// Returns a value that is equal in all threads of a warp, through a shuffle: the compiler then knows that, and keeps descriptors
// in uniform registers.
__device__ __forceinline__ int uniform(int value) { return __shfl_sync(0xffffffffu, value, 0); }

__device__ __forceinline__ Operands Operands::held() const {
    return {(x & 0xFFFFFFFF00000000ull) | static_cast<u32>(uniform(static_cast<int>(x))),
            (y & 0xFFFFFFFF00000000ull) | static_cast<u32>(uniform(static_cast<int>(y)))};
}

// Whether the phase with that parity has completed. The hardware may wait before it answers.
__device__ __forceinline__ bool barrier_is_over(u32 barrier, u32 parity) {
    u32 over;
    asm volatile("{\n .reg .pred over;\n mbarrier.try_wait.parity.shared.b64 over, [%1], %2;\n selp.u32 %0, 1, 0, over;\n}"
                 : "=r"(over)
                 : "r"(barrier), "r"(parity)
                 : "memory");
    return over != 0;
}

__device__ __forceinline__ void arrive_at_named_barrier(int id, int threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// ---- the output ----

// A TMA store with an L2 policy.
__device__ __forceinline__ void store_box_with(const TensorMap* map, u32 source, int x, int y, int z, u64 policy) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group.L2::cache_hint [%0, {%2, %3, %4}], [%1], %5;" ::"l"(map), "r"(source),
                 "r"(x), "r"(y), "r"(z), "l"(policy)
                 : "memory");
}

// Writes eight columns j of a band in f32 to a buffer. Its rows have 128 or 64 bytes, with chunks of 16 bytes swizzled as TMA reads them.
__device__ __forceinline__ void stage_quad_f32(u32 buffer, int band, int j, const Pair& upper, const Pair& lower) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    constexpr int row_shift = span_c == 32 ? 0 : 1, chunk_mask = span_c / 4 - 1;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const Pair& pair = half == 0 ? upper : lower;
        const int row = band * 64 + warp * 16 + half * 8 + lane / 4;
        const int chunk = (j * 2 + lane % 4 / 2) ^ (row >> row_shift & chunk_mask);
        asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(buffer + row * row_bytes_c + chunk * 16 + lane % 2 * 8), "f"(pair.low),
                     "f"(pair.high)
                     : "memory");
    }
}

// Writes sixteen columns of a band in fp8, those of group j and of the next, to a buffer whose rows have 128, 32 or 16 bytes.
// Lanes exchange pairs, so that each has four neighbouring columns of one of the two groups.
template <class To>
__device__ __forceinline__ void stage_groups_fp8(u32 buffer, int band, int j, const Pair (&sums)[4]) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4, odd = lane % 2;
    constexpr int row_shift = row_bytes_c == 128 ? 0 : 2, chunk_mask = row_bytes_c / 16 - 1;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const u32 first = fp8_pair(To{}, sums[half].low, sums[half].high), second = fp8_pair(To{}, sums[2 + half].low, sums[2 + half].high);
        const u32 other = __shfl_xor_sync(0xffffffffu, odd ? first : second, 1);
        const u32 four = odd ? other | second << 16 : first | other << 16;
        const int row = band * 64 + warp * 16 + half * 8 + lane / 4;
        const int chunk = j / 2 ^ (row >> row_shift & chunk_mask);
        asm volatile("st.shared.b32 [%0], %1;" ::"r"(buffer + row * row_bytes_c + chunk * 16 + odd * 8 + lane % 4 / 2 * 4), "r"(four) : "memory");
    }
}

// Spans of C that are staged between two barriers: all if each has a buffer, otherwise as many as leave buffers for the previous
// round's spans, which are still being stored.
constexpr int spans_of_c = block_n / span_c;
constexpr int spans_in_round = spans_of_c <= epilogue_stages ? spans_of_c : (epilogue_stages + 1) / 2;
constexpr int rounds_on_their_way = epilogue_stages / spans_in_round;
// A promoted tile waits for its buffers during its last multiplications, because at its start TMA still reads the previous tile.
constexpr bool waits_late = tma_store && promotes && product_sets == 1;

// Afterwards the buffers of a round are free. Only the thread that committed a store can wait for it, so that thread waits, and a
// barrier then releases the others. A tile's first round always uses the first buffers.
template <bool is_first>
__device__ __forceinline__ void wait_for_buffers(int group) {
    constexpr bool last_was_elsewhere = spans_of_c % (spans_in_round * rounds_on_their_way) == 0;
    constexpr int on_their_way = is_first && !last_was_elsewhere ? 0 : rounds_on_their_way - 1;
    if (waits_late || threadIdx.x % 128 == 0) store_wait_read<on_their_way>();  // threads that have stored nothing need not wait
    named_barrier(1 + group, 128);
}

// A thread's position when a consumer warpgroup stages a band. It stages four matrices of 8x8 at once, transposed with swap_ab.
struct MatrixPlace {
    int lane, warp, row_in_band;
    __device__ __forceinline__ MatrixPlace() {
        const int thread = threadIdx.x % 128;
        lane = thread % 32;
        warp = thread / 32;
        row_in_band = warp * 16 + lane % 8 + (lane / 8 & 1) * 8;
    }
    // Writes sixteen columns of a band in 16 bits, column group j of a span and the next, to the span's buffer. The buffer has a row of
    // span_c columns for each of the group's rows; with swap_ab it has a row of 64 rows for each column, band after band.
    __device__ __forceinline__ void stage(u32 buffer, int band, int j, const u32 (&r)[4]) const {
        constexpr int row_shift = span_c == 64 ? 0 : span_c == 32 ? 1 : 2;  // which bits of the row the swizzle uses
        constexpr int chunk_mask = span_c / 8 - 1;
        const int row = band * 64 + row_in_band;
        if constexpr (swap_ab) {
            const int column = (j + lane / 16) * 8 + lane % 8;
            const int chunk = (warp * 2 + (lane / 8 & 1)) ^ (lane % 8);
            store_matrices_transposed(buffer + band * (64 * span_c * 2) + column * 128 + chunk * 16, r[0], r[1], r[2], r[3]);
        } else {
            const int chunk = (j + lane / 16) ^ (row >> row_shift & chunk_mask);
            store_matrices(buffer + row * row_bytes_c + chunk * 16, r[0], r[1], r[2], r[3]);
        }
    }
};

// Pair i of a band's sums as elements of C. `columns`: the factors of its two columns.
__device__ __forceinline__ Pair finished_pair(const Factors& factors, Epilogue& epilogue, const Pair& columns, const Sums& acc, int band, int i) {
    return epilogue.applied(band, i % 2, i / 2, factors.applied(band, i % 2, columns, pair_of(acc[band], i)));
}

// Writes a span of C to its buffer.
template <class To = Out>
__device__ __forceinline__ void stage_span(u32 buffer, int part, const Factors& factors, Epilogue& epilogue, const Sums& acc) {
    const MatrixPlace place;
#pragma unroll
    for (int j = 0; j < span_c / 8; j += 2) {
        const int at = part * span_c / 8 + j;
        const Pair columns[2] = {factors.of_columns(at), factors.of_columns(at + 1)};
#pragma unroll
        for (int band = 0; band < bands; ++band) {
            Pair sums[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) sums[i] = finished_pair(factors, epilogue, columns[i / 2], acc, band, 2 * at + i);
            if constexpr (sizeof(To) == 1) {
                stage_groups_fp8<To>(buffer, band, j, sums);
            } else if constexpr (sizeof(To) == 4) {
                stage_quad_f32(buffer, band, j, sums[0], sums[1]);
                stage_quad_f32(buffer, band, j + 1, sums[2], sums[3]);
            } else {
                u32 r[4];
#pragma unroll
                for (int i = 0; i < 4; ++i) r[i] = pack2<To>(sums[i].low, sums[i].high);
                place.stage(buffer, band, j, r);
            }
        }
    }
}

// Called by one thread: begins to store a staged span to memory.
__device__ __forceinline__ void send_span(const Output& out, const Tile& tile, int row0, u32 buffer, int part) {
    const int column = tile.n0 + part * span_c, first_row = tile.m0 + row0;
    if constexpr (swap_ab) {
#pragma unroll
        for (int band = 0; band < bands; ++band)
            store_box_with(out.map, buffer + band * (64 * span_c * 2), first_row + band * 64, column, tile.batch, out.policy);
    } else {
        store_box_with(out.map, buffer, column, first_row, tile.batch, out.policy);
    }
}

// Stores the accumulators through the staging buffers by TMA during the next tile's multiplications. REQUIRES
// wait_for_buffers<true>() since the previous tile, preferably during this one's multiplications, where it costs nothing.
__device__ __forceinline__ void store_staged(const Output& out, const Tile& tile, int row0, int rank, u32 staging, int group,
                                             const Factors& factors, Epilogue& epilogue, const Sums& acc) {
    const auto is_own = [rank](int part) { return cluster_k == 1 || owner_of(0, part * span_c / 8) == rank; };
    const auto buffer_of = [staging](int part) { return staging + part % (spans_in_round * rounds_on_their_way) * staging_bytes; };
#pragma unroll
    for (int first = 0; first < spans_of_c; first += spans_in_round) {
        if (first > 0) wait_for_buffers<false>(group);
#pragma unroll
        for (int part = first; part < spans_of_c && part < first + spans_in_round; ++part)
            if (is_own(part)) stage_span(buffer_of(part), part, factors, epilogue, acc);
        fence_async_proxy();
        named_barrier(1 + group, 128);
        if (threadIdx.x % 128 != 0) continue;
#pragma unroll
        for (int part = first; part < spans_of_c && part < first + spans_in_round; ++part)
            if (is_own(part)) send_span(out, tile, row0, buffer_of(part), part);
        store_commit();
    }
}

// ---- the loads ----

// The order of the general schedule, if tiles follow each other along one direction and K is whole or divided in clusters. A few
// instructions then find the next tile. Instructions that run once cost the time to fetch them, 30 clocks per line of eight; the
// general schedule took 250 clocks before a block's first load.
class PlainOrder {
  public:
    __device__ __forceinline__ static bool suits(const Extents& s) {
        return s.raster == 0 && s.group == 1 && s.batch == 1 && (cluster_k > 1 || s.split_k == 1);
    }
    __device__ __forceinline__ PlainOrder(const Extents& shape, int rank) : s_(shape), rank_(rank), next_(cluster_index()) {}

    __device__ __forceinline__ bool next(Work& work) {
        if (next_ >= s_.tiles_m * s_.tiles_n) return false;
        const int steps = s_.steps(), part = cluster_k > 1 ? rank_ : 0;
        work.index = next_;
        work.first = steps * part / cluster_k;
        work.steps = steps * (part + 1) / cluster_k - work.first;
        next_ += cluster_count();
        return true;
    }
    __device__ __forceinline__ Tile tile(const Work& work) const {
        const int along_m = s_.tiles_n == 1 ? work.index : work.index / s_.tiles_n, along_n = work.index - along_m * s_.tiles_n;
        const int rank = cluster_k > 1 ? 0 : rank_;
        return {(along_m * cluster_m + rank % cluster_m) * block_m, (along_n * cluster_n + rank / cluster_m) * block_n, 0, 0};
    }

  private:
    const Extents& s_;
    int rank_, next_;
};

// Called by one thread: loads the operands of all stages.
template <class Order>
__device__ __forceinline__ void load_stages(const Ring& ring, Order order, const Operand& x, const Operand& y, int rank, u32 turn) {
    const int in_row = rank % cluster_m, row = rank / cluster_m;
    const auto mask_x = static_cast<unsigned short>(((1u << sharing_blocks) - 1) / ((1u << cluster_m) - 1) << in_row);
    const auto mask_y = static_cast<unsigned short>(((1u << cluster_m) - 1) << row * cluster_m);
    Position at;
    Work work;
    begin_turn();
    asm volatile("st.volatile.shared.u32 [%0], 1;" ::"r"(turn) : "memory");
    while (order.next(work)) {
        const Tile tile = order.tile(work);
#pragma unroll 1
        for (int step = work.first; step < work.first + work.steps; ++step) {
            const u32 full = ring.full + at.stage * 8;
            barrier_wait(ring.empty + at.stage * 8, at.parity ^ 1);
            barrier_expect(full, stage_bytes);
            load_operand<true, block_m, span_x, cluster_n>(ring.x(at.stage), x, full, tile.m0, step * block_k, tile.batch, row, mask_x);
            load_operand<true, block_n, span_y, cluster_m>(ring.y(at.stage), y, full, tile.n0, step * block_k, tile.batch, in_row, mask_y);
            at.next(ring.stages);
        }
    }
    // A block must not exit while other blocks of the cluster may still arrive on its barriers.
    for (int stage = 0; sharing_blocks > 1 && stage < ring.stages; ++stage, at.next(ring.stages))
        barrier_wait(ring.empty + at.stage * 8, at.parity ^ 1);
}

// Fills the stages' scales, in parallel with the thread that loads the operands: a warp with a ScaleFeed, or one thread with
// ScaleChunks.
template <class Source, class Order>
__device__ __forceinline__ void feed_scales(const Ring& ring, Order order, const Extents& s, const Scales& scales, u32 area) {
    Position at;
    Work work;
    dependent_launch::wait_for_earlier_grids();
    while (order.next(work)) {
        Source source(scales, s, order.tile(work), work.first);
#pragma unroll 1
        for (int step = work.first; step < work.first + work.steps; ++step) {
            barrier_wait(ring.empty + at.stage * 8, at.parity ^ 1);
            source.fill(scales, area + at.stage * scale_stage_bytes, ring.full + at.stage * 8, step);
            at.next(ring.stages);
        }
    }
}

// Does what prepare() does, and is run by one thread in each of the producer's first two warps. It initialises barriers for the
// deepest possible ring in a few instructions without a loop. A loop takes 60 clocks per barrier, which is 1,200 for ten stages
// before the first load.
__device__ __forceinline__ void make_barriers(u32 first, int arrivals) {
#pragma unroll
    for (int stage = 0; stage < most_stages; ++stage) barrier_init(first + stage * 8, arrivals);
}
template <class... Maps>
__device__ __forceinline__ void prepare_together(int warp, const Ring& ring, int fillers, u32 exchanged, u32 turn, const Maps*... maps) {
    if (warp == 0) {
        make_barriers(ring.full, fillers);
        make_barriers(ring.empty, 4 * groups_per_tile * notified_blocks);
    } else {
        (prefetch_map(maps), ...);
        barrier_init(exchanged, 1);
        make_pingpong_barriers(ring);
        asm volatile("st.volatile.shared.u32 [%0], 0;" ::"r"(turn) : "memory");
    }
    fence_barrier_init();
}

// ---- the consumer warpgroups ----

struct Areas {
    u32 staging, flag;       // addresses that belong to this consumer warpgroup
    u32 columns, biases;     // this consumer warpgroup's biases and scales of its tile's columns
    u32 scales;              // the block scales, with a part for each stage
    u32 received, exchange;  // sums from the cluster's peers, and the barrier that counts them
};

// The position of a consumer warpgroup's block scales: the stages' parts, the tile's position in its first block, and the group's
// first row in the tile.
struct BlockPlace {
    u32 area;
    int in_block, row0;
    __device__ __forceinline__ void read(StepScales<1>& factors, int stage, int band, int step) const {
        factors.read_stage(area + stage * scale_stage_bytes, row0 + band * 64, in_block, step);
    }
};

enum class StageOfTile { first, middle, last };  // if there is only one stage, it counts as the last

// The state of one consumer warpgroup in the ring for one run of K steps.
struct Walk {
    const Ring& ring;
    int lane;
    bool notifies;
    Position at;
    int step = 0;  // step of the K loop, if products are promoted

    __device__ __forceinline__ void next_step() {
        at.next(ring.stages);
        ++step;
    }
    __device__ __forceinline__ void let_go(int stage) const { release(ring, stage, lane, notifies); }
    __device__ __forceinline__ void wait_until_full() const { barrier_wait(ring.full + uniform(at.stage) * 8, at.parity); }

    // Keeps sums in the tensor cores' registers. Returns the last stage, whose multiplications are still running. `prepare` runs during the
    // first stage's multiplications.
    template <typename Prepare>
    __device__ __forceinline__ int accumulate(Sums& acc, int row0, int steps, Prepare prepare) {
        int previous = 0;
        for (int step = 0; step < steps; ++step) {
            const int stage = warp_uniform(at.stage);
            barrier_wait(ring.full + at.stage * 8, at.parity);
            multiply(acc, Operands(ring.x(stage), ring.y(stage), row0), step == 0);
            if (step > 0) {
                wgmma_wait<1>();
                let_go(previous);
            } else {
                prepare();
            }
            previous = at.stage;
            at.next(ring.stages);
        }
        return previous;
    }

    // Issues and commits the products of one stage's 128 k, for the only band.
    __device__ __forceinline__ void begin(float* products, StepScales<1>& factors, const BlockPlace& block) {
        // From vector registers, descriptors would cost each of the four multiplications four moves
        const int stage = uniform(at.stage);
        barrier_wait(ring.full + at.stage * 8, at.parity);
        multiply_promoted(products, Operands(ring.x(stage), ring.y(stage), block.row0), 0);
        block.read(factors, stage, 0, step);
    }
    // Adds the products of the previous stage; those of another stage may still be running.
    __device__ __forceinline__ void end(Sums& acc, const float* products, const StepScales<1>& factors, int stage) {
        let_go(stage);
        factors.add(acc[0], products, 0);
    }

    // Promotes with two sets of products. One stage's products are added during the next one's multiplications.
    __device__ __forceinline__ void promote_in_turns(Sums& acc, const BlockPlace& block, const Work& work) {
#pragma unroll
        for (int i = 0; i < accumulators; ++i) acc[0][i] = 0.0f;
        if (work.steps == 0) return;
        step = work.first;
        float even[accumulators], odd[accumulators];
        StepScales<1> of_even, of_odd;
        int left = work.steps - 1;
        int stage_of_even = at.stage, stage_of_odd;
        begin(even, of_even, block);
        next_step();
        for (; left >= 2; left -= 2) {
            stage_of_odd = at.stage;
            begin(odd, of_odd, block);
            next_step();
            wgmma_wait<1>();
            end(acc, even, of_even, stage_of_even);
            stage_of_even = at.stage;
            begin(even, of_even, block);
            next_step();
            wgmma_wait<1>();
            end(acc, odd, of_odd, stage_of_odd);
        }
        if (left == 1) {
            stage_of_odd = at.stage;
            begin(odd, of_odd, block);
            next_step();
            wgmma_wait<1>();
            end(acc, even, of_even, stage_of_even);
            wgmma_wait<0>();
            end(acc, odd, of_odd, stage_of_odd);
        } else {
            wgmma_wait<0>();
            end(acc, even, of_even, stage_of_even);
        }
    }

    // Adds the products of a stage's 128 k in f32 with their scales, one band at a time, so that one set of registers is enough
    // for the products. Each band's multiplications, the wait for them and the additions form one basic block. Otherwise ptxas
    // (13.0) lets no addition yield the issue slot, and the other consumer warpgroup's multiplications start late (H200:
    // DeepGEMM's loop, which has the yields, took 0.87 of the time). A tile's first products become its sums, so no sum is set to
    // zero before. REQUIRES a full stage. Returns whether the next one is full, which is checked during the last band's
    // additions. `prepare` runs during the last band's multiplications.
    template <StageOfTile of_tile, typename Prepare>
    __device__ __forceinline__ bool promote_stage(Sums& acc, const Operands& first, const BlockPlace& block, bool lets_other_begin, Prepare prepare) {
        constexpr bool begins = of_tile == StageOfTile::first;
        const int stage = uniform(at.stage);
        const Operands operands = first.of_stage(stage);
        float products[accumulators];
        StepScales<1> factors;
        multiply_promoted(products, operands, 0);
        block.read(factors, stage, 0, step);
#pragma unroll
        for (int band = 1; band < bands; ++band) {
            wgmma_wait<0>();
            if (begins && band == 1 && lets_other_begin) arrive_at_named_barrier(stagger_barrier, math_threads);
            factors.add<begins>(acc[band - 1], products, band - 1);
            multiply_promoted(products, operands, band);
            block.read(factors, stage, band, step);
        }
        next_step();
        const int following = uniform(at.stage);
        prepare();
        wgmma_wait<0>();
        if (begins && bands == 1 && lets_other_begin) arrive_at_named_barrier(stagger_barrier, math_threads);
        let_go(stage);
        const bool next_is_full = of_tile != StageOfTile::last && barrier_is_over(ring.full + following * 8, at.parity);
        factors.add<begins>(acc[bands - 1], products, bands - 1);
        return next_is_full;
    }

    // The sums of all stages of a tile. The other consumer warpgroup multiplies during the additions. `prepare` runs during the last
    // multiplications.
    template <typename Prepare>
    __device__ __forceinline__ void promote(Sums& acc, const BlockPlace& block, const Work& work, int group, Prepare prepare) {
        if (work.steps <= 1) {
#pragma unroll
            for (int i = 0; i < bands * accumulators; ++i) acc[i / accumulators][i % accumulators] = 0.0f;
        }
        if (work.steps == 0) {
            prepare();
            return;
        }
        // Groups that begin together share the tensor cores, end together, and leave them idle while both add. An offset at a
        // tile's start remains until its end.
        if (stagger && group == 1) named_barrier(stagger_barrier, math_threads);
        const Operands first = Operands(ring.x(0), ring.y(0), block.row0).held();
        step = work.first;
        wait_until_full();
        if (work.steps > 1) {
            if (!promote_stage<StageOfTile::first>(acc, first, block, stagger && group == 0, [] {})) wait_until_full();
#pragma unroll 1  // otherwise narrow tiles have products in flight over two iterations, and their registers must be moved
            for (int left = work.steps - 2; left > 0; --left) {
                if (!promote_stage<StageOfTile::middle>(acc, first, block, false, [] {})) wait_until_full();
            }
        } else if (stagger && group == 0) {
            arrive_at_named_barrier(stagger_barrier, math_threads);
        }
        promote_stage<StageOfTile::last>(acc, first, block, false, prepare);
    }
};

// `schedule` is WholeTiles of ping-pong groups, or AnyTiles.
template <class Order>
__device__ __forceinline__ void consume(const Ring& ring, const Extents& s, Order schedule, const Output& out, const Scales& scales, Epilogue epilogue,
                                        const Areas& areas, int group, int rank) {
    const int lane = threadIdx.x % 32;
    const int row0 = pingpong || consumer_warpgroups == 1 ? 0 : group * group_rows;
    Sums acc;
    Walk walk{ring, lane, shares_with(lane, rank), {}};
    Work work;
    u32 order_parity = group == 0 ? 1 : 0;  // the first turn of group 0 needs no wait
    const Skip others(pingpong ? (consumer_warpgroups - 1) * s.steps() : 0, ring.stages);
    if (pingpong && group > 0) walk.at.skip(group * s.steps(), ring.stages);
    while (schedule.next(work)) {
        if (pingpong) {
            // Groups take turns in order. Otherwise a group that is ahead by a whole lap of the ring could mistake an old phase's
            // parity for its own.
            barrier_wait(ring.order + group * 8, order_parity);
            order_parity ^= 1;
        }
        int last = 0;
        Factors factors(skips_alpha ? 1.0f : out.alpha);
        // At the end of a tile a load would wait in L2 behind the ring's next stages: 4000 clocks.
        const auto read_early = [&] {
            if constexpr (scale_mode == 2 && !reduce_kernel) factors.read(scales, s, schedule.tile(work), row0);
            if constexpr (has_epilogue && !reduce_kernel) epilogue.read<bands>(s, schedule.tile(work), row0);
            if constexpr (tma_store && !waits_late) wait_for_buffers<true>(group);
        };
        if (cluster_k > 1 && work.steps == 0) {  // fewer K steps than blocks
#pragma unroll
            for (int i = 0; i < bands * accumulators; ++i) acc[i / accumulators][i % accumulators] = 0.0f;
        }
        if constexpr (promotes || cluster_k > 1) read_early();
        Tile place_of_promoted;
        if constexpr (promotes) {
            const BlockPlace block{areas.scales, lies_across_blocks ? place_in_block(schedule.tile(work)) : 0, row0};
            if constexpr (product_sets == 2)
                walk.promote_in_turns(acc, block, work);
            else
                walk.promote(acc, block, work, group, [&] {
                    place_of_promoted = schedule.tile(work);
                    if constexpr (waits_late) wait_for_buffers<true>(group);
                });
        } else if constexpr (cluster_k > 1) {
            last = walk.accumulate(acc, row0, work.steps, [] {});
        } else {
            last = walk.accumulate(acc, row0, work.steps, read_early);
        }
        if (pingpong && lane == 0) barrier_arrive(ring.order + (group + 1 == consumer_warpgroups ? 0 : group + 1) * 8);
        if (pingpong) others.move(walk.at, ring.stages);
        // The divisions for the next tile's place overlap the last multiplications.
        const Tile tile = promotes && product_sets == 1 ? place_of_promoted : schedule.tile(work);
        if constexpr (!promotes) {
            wgmma_wait<0>();
            if (cluster_k == 1 || work.steps > 0) walk.let_go(last);
        }
        if constexpr (reduce_kernel) {
            leave_part(out, schedule.general, work, group, acc);
            continue;
        }
        if constexpr (cluster_k > 1) {
            exchange(areas.received, areas.exchange, rank, acc);
        } else if constexpr (!takes_whole_tiles) {
            if (work.parts > 1 && !combine(out, schedule.general, work, tile.number, group, areas.flag, acc)) continue;
        }
        if (skips_alpha && out.alpha != 1.0f) {
#pragma unroll
            for (int i = 0; i < bands * accumulators; ++i) acc[i / accumulators][i % accumulators] *= out.alpha;
        }
        factors.publish(areas.columns, 1 + group);
        epilogue.publish(areas.biases, 1 + group);
        if (tma_store && (!reads_c || out.beta == 0.0f))
            store_staged(out, tile, row0, rank, areas.staging, group, factors, epilogue, acc);
        else
            store_direct(out, s, tile, row0, rank, factors, epilogue, acc);
    }
    if constexpr (!reduce_kernel) epilogue.raise_amax();
    if (tma_store && threadIdx.x % 128 == 0) store_wait_read<0>();
}

}  // namespace

#include "gemm/wgmma_fp8/fp8_whole_loop.cuh"

extern "C" __global__ void __launch_bounds__(math_threads + 128, 1)
    AUTOTUNE_KERNEL(
#if AUTOTUNE_DEVICE_MAPS
                    const TensorMap* made_x, const TensorMap* made_y, const TensorMap* made_c,
#else
                    const __grid_constant__ TensorMap map_x, const __grid_constant__ TensorMap map_y, const __grid_constant__ TensorMap map_c,
#endif
                    Out* c, float alpha, float beta, int m, int n, int k, long long ldc, int batch, long long stride_c, u32* counters,
                    Register* partial, int stages, int tiles_m, int tiles_n, int whole, int group, int raster, int split_k, int evict_first,
                    int prefetch_steps, int early_blocks, int store_hint, const float* scale_a, const float* scale_b, i64 scale_a_batch, i64 scale_a_line,
                    i64 scale_a_k, i64 scale_b_batch, i64 scale_b_line, i64 scale_b_k AUTOTUNE_EPILOGUE_PARAMETERS) {
#if AUTOTUNE_DEVICE_MAPS
    const TensorMap &map_x = *made_x, &map_y = *made_y, &map_c = *made_c;
#endif
    extern __shared__ unsigned char shared[];
    const u32 base = (smem_address(shared) + 1023) & ~1023u;
    const Extents shape{swap_ab ? n : m, swap_ab ? m : n, k, batch, tiles_m, tiles_n, whole, split_k, group, raster};
    const u32 staging = base + stages * stage_bytes;
    const u32 received = staging + consumer_warpgroups * epilogue_stages * staging_bytes;
    const u32 columns = received + received_bytes;
    const u32 biases = columns + consumer_warpgroups * column_bytes;
    const u32 block_scales = biases + consumer_warpgroups * bias_bytes;
    const u32 barriers = block_scales + stages * scale_stage_bytes;
    const Ring ring{base, barriers, barriers + most_stages * 8, barriers + most_stages * 16, stages};
    const u32 exchanged = ring.order + consumer_warpgroups * 8;
    const u32 flags = exchanged + 8;
    const u32 turn = flags + consumer_warpgroups * 4;
    const ScaleStrides strides_a{scale_a_batch, scale_a_line, scale_a_k}, strides_b{scale_b_batch, scale_b_line, scale_b_k};
    const Scales scales = swap_ab ? Scales{scale_b, scale_a, strides_b, strides_a} : Scales{scale_a, scale_b, strides_a, strides_b};
    const int rank = cluster_blocks > 1 ? static_cast<int>(cluster_rank()) : 0;
    const bool in_chunks = lie_in_chunks(scales, shape);
    const int warp = uniform(threadIdx.x / 32);
    if (warp < 2 && threadIdx.x % 32 == 0) {
        const int fillers = scale_mode != 3 ? 1 : in_chunks ? 2 : 33;
        if constexpr (AUTOTUNE_DEVICE_MAPS)
            prepare_together(warp, ring, fillers, exchanged, turn);
        else if constexpr (tma_store)
            prepare_together(warp, ring, fillers, exchanged, turn, &map_x, &map_y, &map_c);
        else
            prepare_together(warp, ring, fillers, exchanged, turn, &map_x, &map_y);
    }
    meet();
    const int warpgroup = warp / 4;
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
        __syncwarp();
        give_to_consumers();
        if (threadIdx.x == 0) {
#if AUTOTUNE_DEVICE_MAPS
            dependent_launch::wait_for_earlier_grids();
            acquire_map(&map_x);
            acquire_map(&map_y);
#endif
            const Operand x{&map_x, evict_first == 1 ? policy_evict_first : policy_normal};
            const Operand y{&map_y, evict_first == 2 ? policy_evict_first : policy_normal};
            if (PlainOrder::suits(shape))
                load_stages(ring, PlainOrder(shape, rank), x, y, cluster_k > 1 ? 0 : rank, turn);
            else
                load_stages(ring, Schedule(shape, rank), x, y, cluster_k > 1 ? 0 : rank, turn);
        } else if (scale_mode == 3 && threadIdx.x / 32 == 2) {
            if (!in_chunks)
                feed_scales<ScaleFeed>(ring, Schedule(shape, rank), shape, scales, block_scales);
            else if (threadIdx.x == 64 && PlainOrder::suits(shape))
                feed_scales<ScaleChunks>(ring, PlainOrder(shape, rank), shape, scales, block_scales);
            else if (threadIdx.x == 64)
                feed_scales<ScaleChunks>(ring, Schedule(shape, rank), shape, scales, block_scales);
        }
    } else {
        take_from_producer();
        begin_turn();
#if AUTOTUNE_DEVICE_MAPS
        acquire_map(&map_c);
#endif
        const Output out{c, &map_c, store_hint != 0 ? policy_evict_first : policy_normal, scales.of_tensors(alpha), beta, ldc, stride_c, partial, counters};
        const int consumer = warpgroup - 1;
        const Areas areas{staging + consumer * epilogue_stages * staging_bytes, flags + consumer * 4, columns + consumer * column_bytes, biases + consumer * bias_bytes,
                          block_scales, received, exchanged};
        const Epilogue epilogue(AUTOTUNE_EPILOGUE_ADDRESSES);
        if constexpr (overlap_epilogue)
            consume_whole_tiles(ring, shape, out, scales, epilogue, areas, consumer, rank);
        else if constexpr (takes_whole_tiles)
            consume(ring, shape, WholeTiles(shape, rank, pingpong ? consumer : 0, pingpong ? consumer_warpgroups : 1), out, scales, epilogue, areas, consumer, rank);
        else
            consume(ring, shape, AnyTiles(shape, rank), out, scales, epilogue, areas, consumer, rank);
    }
}

#if AUTOTUNE_REDUCE_KERNEL
// Adds the parts that split-K wrote to the workspace, in order, in f32. A block of 128 threads adds two quads for every thread of a
// consumer warpgroup.
extern "C" __global__ void __launch_bounds__(128)
    AUTOTUNE_ENTRY(_reduce)(Out* c, float alpha, float beta, int m, int n, long long ldc, int batch, long long stride_c,
                            const Register* partial, int tiles_m, int tiles_n, int group, int raster, int split_k, const float* scale_a,
                            const float* scale_b, i64 scale_a_batch, i64 scale_a_line, i64 scale_a_k, i64 scale_b_batch, i64 scale_b_line,
                            i64 scale_b_k AUTOTUNE_EPILOGUE_PARAMETERS) {
    dependent_launch::let_next_grid_start();
    const Extents shape{swap_ab ? n : m, swap_ab ? m : n, 0, batch, tiles_m, tiles_n, 0, split_k, group, raster};
    const TwoQuads at = quads_of_thread(partial, shape);
    float sums[8] = {};
    dependent_launch::wait_for_earlier_grids();
    const ScaleStrides strides_a{scale_a_batch, scale_a_line, scale_a_k}, strides_b{scale_b_batch, scale_b_line, scale_b_k};
    const Scales scales = swap_ab ? Scales{scale_b, scale_a, strides_b, strides_a} : Scales{scale_a, scale_b, strides_a, strides_b};
    add_quads(at.first_part, split_k, sums);
    const Output out{c, nullptr, policy_normal, scales.of_tensors(alpha), beta, ldc, stride_c, nullptr, nullptr};
    Epilogue epilogue(AUTOTUNE_EPILOGUE_ADDRESSES);
#pragma unroll
    for (int q = 0; q < 2; ++q) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int row = at.row + half * 8, col = at.col + q * 8;
            epilogue.store_sums(out, shape, at.tile, row, col,
                       scales.applied(shape, at.tile, row, col, out.alpha, pair_of(&sums[q * 4], half)));
        }
    }
    epilogue.raise_amax();
}
#endif

#if AUTOTUNE_DEVICE_MAPS
extern "C" __global__ void __launch_bounds__(32)
    AUTOTUNE_ENTRY(_map)(const void* base, TensorMap* to, int columns, int rows, int batch, i64 row_bytes, i64 batch_bytes, int box_columns,
                         int box_rows, int is_result) {
    const MapFields fields = map_fields(base, columns, rows, batch, row_bytes, batch_bytes, box_columns, box_rows);
    if (is_result)
        make_map<map_type_of<Out>(), row_bytes_c>(to, fields);
    else
        make_map<map_type_u8, tma_swizzle>(to, fields);
}
#endif

// Copies an operand with rows of any alignment to the workspace, with rows padded to 16 bytes.
extern "C" __global__ void __launch_bounds__(256)
    AUTOTUNE_ENTRY(_pack)(const u8* from, u8* to, int rows, int cols, long long ld, long long ld_packed, int batch, long long stride) {
    pack_bytes(from, to, rows, cols, ld, ld_packed, batch, stride);
}
