// c = a + b through shared memory. One thread requests tiles of a and b, `stages` of them ahead, and all threads add. Sums are
// stored directly to global memory, or into the tile of a and from there by a bulk copy.
#include "common/bulk.cuh"
#include "common/dependent_launch.cuh"
#include "common/global_access.cuh"
#include "common/types.cuh"
#include "add/device/sum.cuh"
// clang-format off
#define AUTOTUNE_KERNEL ${symbol}
using Element = ${element_type};
constexpr int align_a = ${align_a};
constexpr int align_b = ${align_b};
constexpr int align_c = ${align_c};
constexpr int tile_bytes = ${tile_bytes};
constexpr int stages = ${stages};
constexpr int threads = ${threads};
constexpr bool bulk_store = ${bulk_store};
constexpr int load_hint = ${load_hint};
constexpr int store_hint = ${store_hint};
// clang-format on
// ---- end of parameters ----

namespace {

constexpr int access_bytes = 16;
constexpr int accesses = tile_bytes / access_bytes / threads;  // accesses of a thread to one tile
constexpr int elements_per_access = access_bytes / static_cast<int>(sizeof(Element));
constexpr u64 load_policy = load_hint == 0 ? bulk::policy_normal : bulk::policy_evict_first;
constexpr u64 store_policy = store_hint == 0 ? bulk::policy_normal : bulk::policy_evict_first;
// A step of the loop refills the stage that was used this many steps ago. A stage that a bulk store reads is refilled one step
// later, when the store has long read it.
constexpr int lag = bulk_store && stages > 1 ? 1 : 0;
static_assert(align_a == 16 && align_b == 16 && align_c == 16, "bulk copies move aligned units of 16 bytes");
static_assert(accesses * access_bytes * threads == tile_bytes, "the threads share a tile evenly");

struct Arrays {
    const u8* a;
    const u8* b;
    u8* c;
    i64 tiles;
    i64 bytes;  // bytes of each tile that bulk copies move: a multiple of 16
};

struct Stage {
    u32 a, b;  // the shared addresses of the two tiles
    u32 full;  // the barrier for the arrival of both tiles
};

__shared__ u64 full_barriers[stages];
extern __shared__ __align__(128) u8 tiles_memory[];

__device__ __forceinline__ Stage stage_at(int index) {
    const u32 a = ptx::shared_address(tiles_memory) + index * 2 * tile_bytes;
    return {a, a + tile_bytes, ptx::shared_address(full_barriers + index)};
}

__device__ __forceinline__ u32 bytes_of(const Arrays& arrays, i64 tile) {
    return static_cast<u32>(smaller<i64>(arrays.bytes - tile * tile_bytes, tile_bytes));
}

// Requests the share's next tile; requests nothing beyond the last tile.
__device__ __forceinline__ void request(const Arrays& arrays, const Stage& stage, i64 tile) {
    if (tile >= arrays.tiles) return;
    const u32 bytes = bytes_of(arrays, tile);
    bulk::barrier_expect(stage.full, 2 * bytes);
    bulk::load(stage.a, arrays.a + tile * tile_bytes, bytes, stage.full, load_policy);
    bulk::load(stage.b, arrays.b + tile * tile_bytes, bytes, stage.full, load_policy);
}

__device__ __forceinline__ uint4 load_shared(u32 from) {
    uint4 value;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w) : "r"(from));
    return value;
}

__device__ __forceinline__ uint4 sum_of(const uint4& left, const uint4& right) {
    return {sum_of_words<Element>(left.x, right.x), sum_of_words<Element>(left.y, right.y), sum_of_words<Element>(left.z, right.z),
            sum_of_words<Element>(left.w, right.w)};
}

// Adds a tile of which `bytes` have arrived.
__device__ __forceinline__ void add_tile(const Stage& stage, u8* c, u32 bytes) {
    uint4 sums[accesses];
#pragma unroll
    for (int i = 0; i < accesses; ++i) {
        const u32 at = (i * threads + threadIdx.x) * access_bytes;
        if (at < bytes) sums[i] = sum_of(load_shared(stage.a + at), load_shared(stage.b + at));
    }
#pragma unroll
    for (int i = 0; i < accesses; ++i) {
        const u32 at = (i * threads + threadIdx.x) * access_bytes;
        if (at >= bytes) continue;
        if constexpr (bulk_store) {
            ptx::st_shared(stage.a + at, sums[i]);
        } else {
            global::Store<store_hint>::run(c + at, sums[i]);
        }
    }
}

__device__ __forceinline__ void init_barriers() {
    if (threadIdx.x == 0) {
        for (int i = 0; i < stages; ++i) ptx::mbarrier_init(stage_at(i).full, 1);
        bulk::fence_barrier_init();
    }
    __syncthreads();
}

__device__ __forceinline__ void add_tiles(const Arrays& arrays) {
    const i64 stride = gridDim.x;
    const bool leads = threadIdx.x == 0;
    if (leads) {
        for (int i = 0; i < stages - lag; ++i) request(arrays, stage_at(i), blockIdx.x + i * stride);
    }
    int at = 0;
    u32 parity = 0;
    for (i64 tile = blockIdx.x; tile < arrays.tiles; tile += stride) {
        const Stage stage = stage_at(at);
        u8* const c = arrays.c + tile * tile_bytes;
        ptx::mbarrier_wait(stage.full, parity);
        add_tile(stage, c, bytes_of(arrays, tile));
        if constexpr (bulk_store) bulk::fence_shared();
        __syncthreads();
        if (leads) {
            if constexpr (bulk_store) {
                bulk::store(c, stage.a, bytes_of(arrays, tile), store_policy);
                bulk::commit();
                bulk::wait_read<lag>();
            }
            request(arrays, stage_at((at + stages - lag) % stages), tile + (stages - lag) * stride);
        }
        if (++at == stages) at = 0, parity ^= 1;
    }
    if constexpr (bulk_store) {
        if (leads) bulk::wait_all();
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(threads) AUTOTUNE_ENTRY()(const Element* a, const Element* b, Element* c, i64 n) {
    const i64 rest = n % elements_per_access;  // these elements are too few for a bulk copy
    const i64 bytes = (n - rest) * static_cast<i64>(sizeof(Element));
    init_barriers();
    dependent_launch::let_next_grid_start();
    dependent_launch::wait_for_earlier_grids();
    add_tiles({reinterpret_cast<const u8*>(a), reinterpret_cast<const u8*>(b), reinterpret_cast<u8*>(c),
               (bytes + tile_bytes - 1) / tile_bytes, bytes});
    const i64 last = n - rest + threadIdx.x;
    if (blockIdx.x == gridDim.x - 1 && last < n) c[last] = from_f32<Element>(to_f32(a[last]) + to_f32(b[last]));
}
