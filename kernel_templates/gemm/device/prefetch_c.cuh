// Fetches C into L2 while products are computed, so that the end of a tile finds it there, at half the latency of memory.
// REQUIRES common/types.cuh.
#pragma once

namespace {

// Fetches into L2 the existing elements of C among `rows` x `cols` from `corner` on, at most `most_cols` of them per row.
// `threads` threads call this, and this one has the number `thread`. It is allowed before a dependent launch's turn, because all
// writes go through L2.
template <int most_cols, class Out>
__device__ __forceinline__ void prefetch_c(const Out* corner, long long ldc, int rows, int cols, int thread, int threads) {
    constexpr int sector = 32 / static_cast<int>(sizeof(Out));
    constexpr int along = (most_cols + sector - 1) / sector + 1;  // a row may begin in the middle of a sector
#pragma unroll 1
    for (int i = thread; i < rows * along; i += threads) {
        const int row = i / along, col = min(i % along * sector, cols - 1);
        if (col >= 0) asm volatile("prefetch.global.L2 [%0];" ::"l"(corner + row * ldc + col));
    }
}

}  // namespace
