// A ring of stages in shared memory that TMA fills and wgmma reads, guarded by mbarriers: positions, the release of stages, and
// the order of ping-pong consumer warpgroups. REQUIRES common/hopper.cuh, common/dependent_launch.cuh and, as constants before
// the include: bytes_x, stage_bytes, consumer_warpgroups, groups_per_tile, cluster_m, sharing_blocks, notified_blocks,
// cluster_blocks.
#pragma once

namespace {

using namespace hopper;

// A position in the ring: the stage, and the parity of the barrier phase there.
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

// Initialises the barriers; called by one thread, before any other uses them. `fillers`: arrivals that complete a stage, in
// addition to its bytes.
__device__ __forceinline__ void make_stage_barriers(const Ring& ring, int fillers) {
    for (int stage = 0; stage < ring.stages; ++stage) {
        barrier_init(ring.full + stage * 8, fillers);
        barrier_init(ring.empty + stage * 8, 4 * groups_per_tile * notified_blocks);  // each consumer warp arrives once
    }
}
__device__ __forceinline__ void make_pingpong_barriers(const Ring& ring) {
    for (int i = 0; i < consumer_warpgroups; ++i) barrier_init(ring.order + i * 8, 4);
}
// Called by all threads of the cluster; after that they may use the barriers.
__device__ __forceinline__ void meet() {
    if constexpr (cluster_blocks > 1)
        cluster_sync();
    else
        __syncthreads();
}

// Waits for the kernels before this one, whose writes may then be read, and lets the next kernel's blocks start.
__device__ __forceinline__ void begin_turn() {
    dependent_launch::wait_for_earlier_grids();
    dependent_launch::let_next_grid_start();
}

// Whether this block and the other block of the cluster load tiles for each other.
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

// Returns `value`, which must be equal in all threads of a warp, through a shuffle. The compiler then knows that it is uniform
// and computes descriptors once per warp, in uniform registers. If one group's addresses are computed during another's
// multiplications, the shuffle costs more than it saves.
__device__ __forceinline__ int warp_uniform(int value) {
    if constexpr (consumer_warpgroups == 1) return __shfl_sync(0xffffffffu, value, 0);
    return value;
}

// Moves registers from the producer to the consumer warpgroups. Together they may not have more than the block was given: 3 x 168
// or 4 x 128 for each of 128 threads. A single consumer warpgroup has enough without this.
__device__ __forceinline__ void give_to_consumers() {
    if constexpr (consumer_warpgroups > 1) give_registers<consumer_warpgroups == 2 ? 40 : 56>();
}
__device__ __forceinline__ void take_from_producer() {
    if constexpr (consumer_warpgroups > 1) take_registers<consumer_warpgroups == 2 ? 232 : 152>();
}

}  // namespace
