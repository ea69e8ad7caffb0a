// Softmax of rows that bulk copies load into shared memory, `stages` tiles of rows ahead. No registers wait for memory, so few
// threads suffice. The weights of the first `register_chunks` accesses of each thread stay in registers; for the rest of a long
// row weights are computed again when they are written.
// Drained mode: `register_chunks` accesses are a thread's whole share of a row. The thread loads them into registers as soon as
// they have arrived, and their stage is refilled while the row is computed and written. So copies never pause for a row's
// reductions and stores.
#include "common/bulk.cuh"
#include "common/dependent_launch.cuh"
#include "common/global_access.cuh"
#include "common/types.cuh"
#include "softmax/device/exchange.cuh"
#include "softmax/device/softmax.cuh"
// clang-format off
#define AUTOTUNE_KERNEL ${symbol}
using Element = ${element_type};
constexpr int align_x = ${align_x};
constexpr int align_y = ${align_y};
constexpr bool negative = ${negative};
constexpr bool has_lse = ${has_lse};
constexpr int threads = ${threads};
constexpr int threads_per_row = ${threads_per_row};
constexpr int cluster_blocks = ${cluster_blocks};
constexpr int register_chunks = ${register_chunks};
constexpr bool copy_to_registers = ${copy_to_registers};
constexpr int resident_blocks = ${resident_blocks};
constexpr bool bulk_store = ${bulk_store};
constexpr int load_hint = ${load_hint};
constexpr int store_hint = ${store_hint};
// clang-format on
// ---- end of parameters ----

namespace {

using softmax::Part;

constexpr int access_bytes = 16;
constexpr int vec = access_bytes / static_cast<int>(sizeof(Element));
constexpr int rows_per_tile = threads / threads_per_row;
constexpr int lanes = smaller(threads_per_row, 32);  // lanes of a warp that share a row
constexpr int most_stages = 8;
constexpr u64 load_policy = load_hint == 0 ? bulk::policy_normal : bulk::policy_evict_first;
constexpr u64 store_policy = store_hint == 0 ? bulk::policy_normal : bulk::policy_evict_first;
// A step of the loop refills the stage that was used this many tiles ago. A stage that a bulk store still reads is refilled one
// step later.
constexpr int lag_of_store = bulk_store ? 1 : 0;
static_assert(align_x == 16 && align_y == 16, "bulk copies move aligned units of 16 bytes");
static_assert(threads % threads_per_row == 0, "every row has all its threads");
static_assert(!copy_to_registers || (register_chunks > 0 && !bulk_store), "a drained row is answered from registers");
static_assert(cluster_blocks == 1 || rows_per_tile == 1, "blocks share a row with all their threads");

// A block's part of the problem: `accesses` of every row, from `first_access` on.
struct Share {
    const Element* x;
    Element* y;
    i64 rows, ldx, ldy;
    i64 first_access;
    int accesses;
    int slot_bytes;  // the bytes of a row in a stage
    int stages;

    __device__ __forceinline__ u32 bytes() const { return static_cast<u32>(accesses) * access_bytes; }
    __device__ __forceinline__ i64 tiles() const { return (rows + rows_per_tile - 1) / rows_per_tile; }
    __device__ __forceinline__ const Element* x_of(i64 row) const { return x + row * ldx + first_access * vec; }
    __device__ __forceinline__ Element* y_of(i64 row) const { return y + row * ldy + first_access * vec; }
    __device__ __forceinline__ int rows_of(i64 tile) const {
        return static_cast<int>(smaller<i64>(rows - tile * rows_per_tile, rows_per_tile));
    }
};

__shared__ u64 full_barriers[most_stages];
__shared__ softmax::Exchange<1, rows_per_tile, threads_per_row, cluster_blocks, copy_to_registers> exchange;
extern __shared__ __align__(128) u8 stages_memory[];

__device__ __forceinline__ u32 barrier_of(int stage) {
    return ptx::shared_address(full_barriers + stage);
}
__device__ __forceinline__ u32 slot_of(const Share& share, int stage, int row) {
    return ptx::shared_address(stages_memory) + (stage * rows_per_tile + row) * share.slot_bytes;
}

// Requests the share's next tile; requests nothing beyond the last tile.
__device__ __forceinline__ void request(const Share& share, int stage, i64 tile) {
    if (tile >= share.tiles()) return;
    const int rows = share.rows_of(tile);
    bulk::barrier_expect(barrier_of(stage), rows * share.bytes());
    for (int row = 0; row < rows && share.accesses > 0; ++row) {
        bulk::load(slot_of(share, stage, row), share.x_of(tile * rows_per_tile + row), share.bytes(), barrier_of(stage),
                   load_policy);
    }
}

__device__ __forceinline__ Pack<Element, vec> load_shared(u32 from) {
    Pack<Element, vec> pack;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(pack.raw.x), "=r"(pack.raw.y), "=r"(pack.raw.z), "=r"(pack.raw.w)
                 : "r"(from));
    return pack;
}

// Calls body(access, pack) for this thread's accesses of a row in shared memory, from its `first` on.
template <class Body>
__device__ __forceinline__ void for_mine(const Share& share, u32 slot, int first, const Body& body) {
#pragma unroll 4
    for (int i = first * threads_per_row + threadIdx.x % threads_per_row; i < share.accesses; i += threads_per_row)
        body(i, load_shared(slot + i * access_bytes));
}

__device__ __forceinline__ void weigh(const Pack<Element, vec>& pack, f32 origin, f32 slope, f32 (&weights)[vec]) {
#pragma unroll
    for (int j = 0; j < vec; ++j) weights[j] = softmax::weight(softmax::value_of<negative>(pack.at[j]), origin, slope);
}

// A thread's part of a row. Weights are relative to its own peak or, in drained mode, to that of the row's lanes in its warp.
struct Weights {
    f32 of[register_chunks > 0 ? register_chunks : 1][vec];
    Part mine;

    // Does nothing if there is no row. `refill` is called once the whole block has read its elements.
    template <class Refill>
    __device__ __forceinline__ void drain(int accesses, u32 slot, f32 slope, const Refill& refill) {
        Pack<Element, vec> packs[register_chunks];
#pragma unroll
        for (int h = 0; h < register_chunks; ++h) {
            const int i = h * threads_per_row + threadIdx.x % threads_per_row;
            if (i < accesses) {
                packs[h] = load_shared(slot + i * access_bytes);
            } else {
#pragma unroll
                for (int j = 0; j < vec; ++j) packs[h].at[j] = softmax::nothing<Element, negative>();
            }
        }
        __syncthreads();
        refill();
#pragma unroll
        for (int h = 0; h < register_chunks; ++h) {
#pragma unroll
            for (int j = 0; j < vec; ++j) mine.peak = fmaxf(mine.peak, softmax::value_of<negative>(packs[h].at[j]));
        }
        mine.peak = softmax::peak_of_lanes<lanes>(mine.peak);
        const f32 origin = softmax::origin_of(mine.peak);
#pragma unroll
        for (int h = 0; h < register_chunks; ++h) {
            weigh(packs[h], origin, slope, of[h]);
#pragma unroll
            for (int j = 0; j < vec; ++j) mine.sum += of[h][j];
        }
        mine.sum = softmax::sum_of_lanes<lanes>(mine.sum);
    }

    __device__ __forceinline__ void take(const Share& share, u32 slot, f32 slope) {
        for_mine(share, slot, 0, [&](int, const Pack<Element, vec>& pack) {
#pragma unroll
            for (int j = 0; j < vec; ++j) mine.peak = fmaxf(mine.peak, softmax::value_of<negative>(pack.at[j]));
        });
        const f32 origin = softmax::origin_of(mine.peak);
#pragma unroll
        for (int h = 0; h < register_chunks; ++h) {
            const int i = h * threads_per_row + threadIdx.x % threads_per_row;
            if (i >= share.accesses) break;
            weigh(load_shared(slot + i * access_bytes), origin, slope, of[h]);
#pragma unroll
            for (int j = 0; j < vec; ++j) mine.sum += of[h][j];
        }
        for_mine(share, slot, register_chunks, [&](int, const Pack<Element, vec>& pack) {
            f32 fresh[vec];
            weigh(pack, origin, slope, fresh);
#pragma unroll
            for (int j = 0; j < vec; ++j) mine.sum += fresh[j];
        });
    }
};

__device__ __forceinline__ void put(u32 slot, Element* y, int access, const f32 (&weights)[vec], f32 factor) {
    Pack<Element, vec> pack;
#pragma unroll
    for (int j = 0; j < vec; ++j) pack.at[j] = from_f32<Element>(weights[j] * factor);
    if constexpr (bulk_store) {
        ptx::st_shared(slot + access * access_bytes, pack.raw);
    } else {
        global::Store<store_hint>::run(y + access * vec, pack.raw);
    }
}

__device__ __forceinline__ void answer(const Share& share, const Weights& weights, u32 slot, Element* y, const Part& row,
                                       f32 slope) {
    const f32 origin = softmax::origin_of(row.peak);
    const f32 inverse = softmax::inverse_of(row.sum);
    // The factor is 0 if the row has no peak, because its weights are then zeros or NaN.
    const f32 factor = softmax::weight(weights.mine.peak, origin, slope) * inverse;
#pragma unroll
    for (int h = 0; h < register_chunks; ++h) {
        const int i = h * threads_per_row + threadIdx.x % threads_per_row;
        if (i >= share.accesses) break;
        put(slot, y, i, weights.of[h], factor);
    }
    if constexpr (copy_to_registers) return;
    for_mine(share, slot, register_chunks, [&](int i, const Pack<Element, vec>& pack) {
        f32 fresh[vec];
        weigh(pack, origin, slope, fresh);
        put(slot, y, i, fresh, inverse);
    });
}

__device__ __forceinline__ void store_tile(const Share& share, int stage, i64 tile) {
    for (int row = 0; row < share.rows_of(tile) && share.accesses > 0; ++row)
        bulk::store(share.y_of(tile * rows_per_tile + row), slot_of(share, stage, row), share.bytes(), store_policy);
    bulk::commit();
}

__device__ __forceinline__ void init_barriers(int stages) {
    if (threadIdx.x == 0) {
        for (int i = 0; i < stages; ++i) ptx::mbarrier_init(barrier_of(i), 1);
        bulk::fence_barrier_init();
    }
    __syncthreads();
    // waits until all blocks have begun, because the shared memory of other blocks must not be written before
    if constexpr (cluster_blocks > 1) cluster::sync();
}

__device__ __forceinline__ void run(const Share& share, f32* lse, f32 magnitude) {
    constexpr f32 log2e = 1.44269504088896341F;
    const f32 slope = magnitude * log2e;
    const i64 stride = gridDim.x / cluster_blocks;
    const i64 first = blockIdx.x / cluster_blocks;
    const int lag = share.stages > 1 ? lag_of_store : 0;
    const bool leads = threadIdx.x == 0;
    if (leads) {
        for (int i = 0; i < share.stages - lag; ++i) request(share, i, first + i * stride);
    }
    int stage = 0;
    u32 parity = 0;
    int turn = 0;
    for (i64 tile = first; tile < share.tiles(); tile += stride, turn ^= 1) {
        const int row_of_tile = threadIdx.x / threads_per_row;
        const i64 row = tile * rows_per_tile + row_of_tile;
        const u32 slot = slot_of(share, stage, row_of_tile);
        ptx::mbarrier_wait(barrier_of(stage), parity);
        Weights weights;
        if constexpr (copy_to_registers) {
            weights.drain(row < share.rows ? share.accesses : 0, slot, slope, [&] {
                if (leads) request(share, stage, tile + share.stages * stride);
            });
        } else if (row < share.rows) {
            weights.take(share, slot, slope);
        }
        Part part[1] = {weights.mine};
        exchange.join(part, slope, turn);
        if (row < share.rows) {
            answer(share, weights, slot, share.y_of(row), part[0], slope);
            if (has_lse && share.first_access == 0 && threadIdx.x % threads_per_row == 0)
                lse[row] = softmax::log_sum_exp(part[0], magnitude);
        }
        if constexpr (!copy_to_registers) {
            if constexpr (bulk_store) bulk::fence_shared();
            __syncthreads();
            if (leads) {
                if constexpr (bulk_store) {
                    store_tile(share, stage, tile);
                    if (lag == 0) {
                        bulk::wait_read<0>();
                    } else {
                        bulk::wait_read<1>();
                    }
                }
                request(share, (stage + share.stages - lag) % share.stages, tile + (share.stages - lag) * stride);
            }
        }
        if (++stage == share.stages) stage = 0, parity ^= 1;
    }
    if constexpr (bulk_store) {
        if (leads) bulk::wait_all();
    }
}

}  // namespace

// Arguments as in softmax/rows; a row is a whole number of accesses. `slot_bytes`: shared memory of a block's part of a row.
extern "C" __global__ void __launch_bounds__(threads, resident_blocks)
    AUTOTUNE_ENTRY()(const Element* x, Element* y, f32* lse, i64 rows, i64 cols, i64 ldx, i64 ldy, f32 magnitude, int stages,
                     int slot_bytes) {
    init_barriers(stages);
    const i64 row_accesses = cols / vec;
    const i64 most = slot_bytes / access_bytes;
    const i64 first_access = cluster_blocks > 1 ? smaller(cluster::rank() * most, row_accesses) : 0;
    dependent_launch::let_next_grid_start();
    dependent_launch::wait_for_earlier_grids();
    run({x, y, rows, ldx, ldy, first_access, static_cast<int>(smaller(most, row_accesses - first_access)), slot_bytes, stages},
        lse, magnitude);
}
