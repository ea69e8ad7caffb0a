// The producer's side of a ring that TMA fills: the loads of all stages, and early fetches into L2. REQUIRES gemm/device/hopper/hopper_tile.cuh,
// gemm/device/hopper/hopper_schedule.cuh and gemm/device/hopper/hopper_ring.cuh.
#pragma once

namespace {

struct Operand {
    const TensorMap* map;
    u64 policy;
};

// One operand's part of a stage. Each of `shares` blocks loads a share; `visit` gets each box's offset in the tile and its
// position.
template <bool k_major, int extent, int span, int shares, typename Visit>
__device__ __forceinline__ void for_each_box(int mn, int k, int share, Visit visit) {
    constexpr int rows = (k_major ? extent : block_k) / shares;
    constexpr int row_bytes = span * element_bytes;
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

// Loads the share, by multicast to the blocks of `mask` if they share the operand.
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

// Fetches operands into L2 before the kernel's turn. That is allowed because all writes go through L2.
struct EarlyFetch {
    int steps;   // steps of the K loop
    int blocks;  // number of blocks, from the start of the grid, that fetch for all; 0: every block fetches for itself
    u32 turn;    // an address in shared memory, whose value is not 0 after the turn has come
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

// Fetches a block's share of its first tile.
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

// Fetches all tiles, first steps first. For blocks that start early because the grid leaves SMs idle.
__device__ __forceinline__ void fetch_for_all(const EarlyFetch& fetch, const Extents& s, const TensorMap* x, const TensorMap* y) {
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

// Loads all stages. With `turns` every other tile goes from its last K step to its first. So it begins with the part of the
// shared operand that the previous tile read last and L2 still has.
template <bool turns>
__device__ __forceinline__ void produce(const Ring& ring, Schedule schedule, const Operand& x, const Operand& y, int rank, u32 turn) {
    const int share_x = rank / cluster_m;  // blocks along N share X
    const int share_y = rank % cluster_m;
    unsigned mask_x = 0;
#pragma unroll
    for (int i = 0; i < cluster_n; ++i) mask_x |= 1u << (i * cluster_m + rank % cluster_m);
    const unsigned mask_y = ((1u << cluster_m) - 1) << (rank / cluster_m * cluster_m);
    Position at;
    Work work;
    bool goes_back = true;
    for (bool is_first = true; schedule.next(work); is_first = false) {
        const Tile tile = schedule.tile(work);
        goes_back = !goes_back;
        if (is_first) {
            begin_turn();
            asm volatile("st.volatile.shared.u32 [%0], 1;" ::"r"(turn) : "memory");
        }
#pragma unroll 1
        for (int step = work.first; step < work.first + work.steps; ++step) {
            const u32 full = ring.full + at.stage * 8;
            const int of_k = turns && goes_back ? 2 * work.first + work.steps - 1 - step : step;
            barrier_wait(ring.empty + at.stage * 8, at.parity ^ 1);
            barrier_expect(full, stage_bytes);
            load_operand<!x_mn_major, block_m, span_x, cluster_n>(ring.x(at.stage), x, full, tile.m0, of_k * block_k, tile.batch,
                                                                  share_x, static_cast<unsigned short>(mask_x));
            load_operand<y_k_major, block_n, span_y, cluster_m>(ring.y(at.stage), y, full, tile.n0, of_k * block_k, tile.batch,
                                                                share_y, static_cast<unsigned short>(mask_y));
            at.next(ring.stages);
        }
    }
    // Other blocks of the cluster may still arrive on this block's barriers, so the block stays until its ring is empty. Then all
    // of them have arrived.
    if constexpr (sharing_blocks > 1) {
        for (int stage = 0; stage < ring.stages; ++stage) {
            barrier_wait(ring.empty + at.stage * 8, at.parity ^ 1);
            at.next(ring.stages);
        }
    }
}

// Prefetches the tensor maps and initialises all barriers. One thread calls this. REQUIRES: a block barrier before they are used.
template <class... Maps>
__device__ __forceinline__ void prepare(const Ring& ring, int fillers, u32 exchanged, u32 turn, const Maps*... maps) {
    (prefetch_map(maps), ...);
    make_stage_barriers(ring, fillers);
    barrier_init(exchanged, 1);
    make_pingpong_barriers(ring);
    asm volatile("st.volatile.shared.u32 [%0], 0;" ::"r"(turn) : "memory");
    fence_barrier_init();
}

}  // namespace
