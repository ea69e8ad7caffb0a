// What beta multiplies, asked for while products are computed: the end of a tile then finds it in L2, half as far away as memory.
// REQUIRES common/types.cuh.
#pragma once

namespace {

// Asks L2 for the `rows` x `cols` elements of C that exist from `corner` on, at most `most_cols` of them in a row, by `threads` threads of
// which this is `thread`. Allowed before a dependent launch's turn: L2 is where all writes meet.
template <int most_cols, class Out>
__device__ __forceinline__ void prefetch_c(const Out* corner, long long ldc, int rows, int cols, int thread, int threads) {
    constexpr int sector = 32 / static_cast<int>(sizeof(Out));
    constexpr int along = (most_cols + sector - 1) / sector + 1;  // a row need not begin where a sector does
#pragma unroll 1
    for (int i = thread; i < rows * along; i += threads) {
        const int row = i / along, col = min(i % along * sector, cols - 1);
        if (col >= 0) asm volatile("prefetch.global.L2 [%0];" ::"l"(corner + row * ldc + col));
    }
}

}  // namespace
