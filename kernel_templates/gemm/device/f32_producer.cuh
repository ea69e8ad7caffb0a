// Code for persistent blocks that multiply f32 operands with wgmma: the order of C's tiles, and their loads by TMA, 128 bytes of
// K at a time. REQUIRES gemm/device/hopper/hopper_ring.cuh and, as constants before the include: block_m, block_n, block_k,
// cluster_m, cluster_n, cluster_blocks, bytes_x, bytes_y (of a stage) and x_along_m (the operand on wgmma's M side is contiguous
// along M).
#pragma once

namespace {

// ---- the order of work ----

struct Extents {
    // m and n are in the multiplication's coordinates; the tiles are those of a whole cluster.
    int m, n, k, batch, tiles_m, tiles_n, group, raster;
    __device__ __forceinline__ int steps() const { return (k + block_k - 1) / block_k; }
    __device__ __forceinline__ int tiles() const { return tiles_m * tiles_n * batch; }
};

// The position of a block's part of a tile.
struct Tile {
    int m0, n0, batch;
};

// Panels of `group` tiles along one direction keep the operands of concurrent blocks in L2.
__device__ __forceinline__ Tile tile_at(const Extents& s, int index, int rank) {
    const int plane = s.tiles_m * s.tiles_n;
    const int batch = index / plane, in_plane = index % plane;
    const int across_count = s.raster != 0 ? s.tiles_n : s.tiles_m;
    const int along_count = s.raster != 0 ? s.tiles_m : s.tiles_n;
    const int panel = in_plane / (s.group * along_count);
    const int within = in_plane - panel * s.group * along_count;
    const int width = min(s.group, across_count - panel * s.group);
    const int across = panel * s.group + within % width, along = within / width;
    return {((s.raster != 0 ? along : across) * cluster_m + rank % cluster_m) * block_m,
            ((s.raster != 0 ? across : along) * cluster_n + rank / cluster_m) * block_n, batch};
}

// ---- the producer ----

// Loads one operand's part of a stage, a share of it in each of `shares` blocks: rows along K, or slabs of 32 rows.
template <bool k_major, int extent, int shares>
__device__ __forceinline__ void load_operand(u32 to, const TensorMap* map, u32 barrier, int first, int k, int batch, int share,
                                             unsigned mask) {
    constexpr int boxes = k_major ? 1 : extent / 32 / shares;
    static_assert(k_major || extent % (32 * shares) == 0, "a share is whole slabs");
#pragma unroll
    for (int box = 0; box < boxes; ++box) {
        const int row = share * (extent / shares) + box * 32;  // a row has 128 bytes both in slabs and in rows along K
        const int x = k_major ? k : first + row, y = k_major ? first + row : k;
        if constexpr (shares > 1)
            load_box_multicast(to + row * 128, map, barrier, x, y, batch, policy_normal, static_cast<unsigned short>(mask));
        else
            load_box(to + row * 128, map, barrier, x, y, batch, policy_normal);
    }
}

__device__ __forceinline__ void produce(const Ring& ring, const Extents& s, const TensorMap* x, const TensorMap* y, int rank) {
    const int share_x = rank / cluster_m, share_y = rank % cluster_m;
    unsigned mask_x = 0;
#pragma unroll
    for (int i = 0; i < cluster_n; ++i) mask_x |= 1u << (i * cluster_m + rank % cluster_m);
    const unsigned mask_y = ((1u << cluster_m) - 1) << (rank / cluster_m * cluster_m);
    const int clusters = static_cast<int>(gridDim.x) / cluster_blocks;
    Position at;
    begin_turn();
#pragma unroll 1
    for (int index = static_cast<int>(blockIdx.x) / cluster_blocks; index < s.tiles(); index += clusters) {
        const Tile tile = tile_at(s, index, rank);
#pragma unroll 1
        for (int step = 0; step < s.steps(); ++step) {
            const u32 full = ring.full + at.stage * 8;
            barrier_wait(ring.empty + at.stage * 8, at.parity ^ 1);
            barrier_expect(full, bytes_x + bytes_y);
            load_operand<!x_along_m, block_m, cluster_n>(ring.x(at.stage), x, full, tile.m0, step * block_k, tile.batch, share_x,
                                                              mask_x);
            load_operand<true, block_n, cluster_m>(ring.y(at.stage), y, full, tile.n0, step * block_k, tile.batch, share_y, mask_y);
            at.next(ring.stages);
        }
    }
    // Other blocks of the cluster may still arrive on this block's barriers, so the block stays until its ring is empty. Then all
    // of them have arrived.
    if constexpr (cluster_blocks > 1) {
        for (int stage = 0; stage < ring.stages; ++stage) {
            barrier_wait(ring.empty + at.stage * 8, at.parity ^ 1);
            at.next(ring.stages);
        }
    }
}

}  // namespace
