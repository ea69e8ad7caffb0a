#pragma once
// Maps a block to its tile of C. Tiles are visited in panels `group` tiles wide, first across a panel, so that blocks running
// together share operands in L2.

namespace {

struct BlockOrder {
    int along_m;  // 1: panels are rows of tiles; 0: columns of tiles
    int group;    // tiles across a panel
};

struct BlockTile {
    int row, col;  // the first row and column of the tile
    int slice;     // the index over batches and, with split-K, over parts of K
};

template <int block_m, int block_n>
__device__ __forceinline__ BlockTile block_tile(int m, int n, BlockOrder order) {
    const int count_m = (m - 1) / block_m + 1;
    const int count_n = (n - 1) / block_n + 1;
    const int count_across = order.along_m ? count_m : count_n;
    const int count_along = order.along_m ? count_n : count_m;
    const int tile = blockIdx.x % (count_m * count_n);
    const int panel = tile / (order.group * count_along);
    const int within = tile - panel * order.group * count_along;
    const int width = min(order.group, count_across - panel * order.group);
    const int across = panel * order.group + within % width;
    const int along = within / width;
    return {(order.along_m ? across : along) * block_m, (order.along_m ? along : across) * block_n,
            static_cast<int>(blockIdx.x / (count_m * count_n))};
}

}  // namespace
