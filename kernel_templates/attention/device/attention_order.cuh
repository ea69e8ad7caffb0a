// Maps a block's number to a head and a tile of its queries.
#pragma once

#include "common/types.cuh"

namespace attention {

// Blocks start in the order of their numbers. If a mask lets later queries see more keys, the longest tiles should start first;
// otherwise the last of them run alone.
enum Order : int {
    heads_outside = 0,            // blocks take the tiles of a head one after the other
    heads_outside_reversed = 1,   // blocks take the tiles of a head from the last to the first
    longest_first = 2,            // blocks take the last tile of every head, then the one before it
    longest_first_in_groups = 3,  // like longest_first, but for `order_heads` heads at a time, so that their keys stay in L2
};

struct BlockTile {
    int b, head, tile;
};

__device__ __forceinline__ BlockTile block_tile(u32 block, u32 tiles, u32 heads, u32 q_heads, int order, u32 order_heads) {
    u32 head, tile;
    if (order <= heads_outside_reversed) {
        head = block / tiles;
        tile = block - head * tiles;
    } else {
        const u32 width = order == longest_first ? heads : order_heads;
        const u32 group = block / (width * tiles);
        const u32 first = group * width;
        const u32 here = heads - first < width ? heads - first : width;
        const u32 within = block - group * width * tiles;
        tile = within / here;
        head = first + within - tile * here;
    }
    if (order != heads_outside) tile = tiles - 1 - tile;
    return {static_cast<int>(head / q_heads), static_cast<int>(head % q_heads), static_cast<int>(tile)};
}

}  // namespace attention
