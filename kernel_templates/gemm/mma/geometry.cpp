#include "kernel_templates/gemm/mma/geometry.h"

#include <algorithm>
#include <array>

namespace autotune::mma {

using std::int64_t;

namespace {

int64_t tile_bytes(const ResolvedConfig& s, int64_t extent, bool k_contiguous) {
    const int64_t rows = k_contiguous ? extent : s.block_k;
    const int64_t cols = k_contiguous ? s.block_k : extent;
    return rows * (cols * kElementBytes + (s.smem_swizzle != 0 ? 0 : kChunkBytes));
}

// Whether every thread copies equally many chunks of a tile, as the kernel's lanes_along() requires.
bool tile_copies_evenly(const ResolvedConfig& s, int64_t extent, bool k_contiguous) {
    const int64_t rows = k_contiguous ? extent : s.block_k;
    const int64_t cols = k_contiguous ? s.block_k : extent;
    const int64_t chunks = cols / 8;
    const int64_t period = cols % 64 == 0 ? 8 : cols % 32 == 0 ? 4 : 2;
    for (int64_t lanes = 64; lanes >= 2; lanes /= 2) {
        const bool fits = chunks % lanes == 0 && (lanes == chunks || lanes % period == 0);
        if (!fits || s.threads() % lanes != 0) continue;
        const int64_t rows_a_pass = s.threads() / lanes;
        if (rows_a_pass % 8 == 0 && rows % rows_a_pass == 0) return true;
    }
    return false;
}

}  // namespace

int64_t smem_bytes(const Gemm& g, const ResolvedConfig& s) {
    const int64_t ring = s.stages * (tile_bytes(s, s.block_m, !g.trans_a) + tile_bytes(s, s.block_n, g.trans_b));
    const int64_t barrier = s.split_barrier != 0 ? 16 : 0;
    const int64_t slabs = s.warps() * 16 * (s.warp_n() + 8) * static_cast<int64_t>(size_bytes(g.out));
    return std::max(ring + barrier, slabs);
}

// Registers for accumulators, fragments, and addresses: 44 at 128x256x64 with 8 warps (ptxas 13.0), more once a thread copies
// more than 12 chunks of a tile, above all in a loop that loads its fragments just before their use (24 chunks and 176 registers:
// 144 bytes spilled).
int64_t registers_needed(const Gemm& g, const ResolvedConfig& s) {
    const int64_t accumulators = s.warp_m() * s.warp_n() / (g.acc_f16 ? 64 : 32);
    const int64_t fragments = s.reg_buffers * (s.warp_m() + s.warp_n()) / 4;
    const int64_t copies = (s.block_m + s.block_n) * s.block_k / 8 / s.threads();
    return accumulators + fragments + 40 + (s.reg_buffers == 1 ? 4 : 1) * std::max<int64_t>(0, copies - 12);
}

int64_t registers_allowed(const ResolvedConfig& s, const DeviceLimits& limits) {
    return gemm::registers_allowed(limits, s.threads(), s.min_blocks);
}

bool copies_evenly(const Gemm& g, const ResolvedConfig& s) {
    return tile_copies_evenly(s, s.block_m, !g.trans_a) && tile_copies_evenly(s, s.block_n, g.trans_b);
}

// The compiler takes more registers than the minimum if it may: a few, and an address for each copy that is smaller than a chunk.
// 64x192 in eight warps takes 130 to 151 although 128 suffice, so one block runs on an SM instead of two (12338x9881x186 with
// min_blocks of 1 and 2: 1,016 and 606 us). This gives the right number of blocks for 98 % of 315 kernels (NVRTC 13.0); the
// minimum of registers would give it for 94 %.
int64_t blocks_per_sm(const Gemm& g, const ResolvedConfig& s, const DeviceLimits& limits) {
    const auto addresses = [&](int align, int64_t rows) {
        return s.pack != 0 || align >= kChunkBytes ? 0 : rows * s.block_k * kElementBytes / (s.threads() * std::max(4, align));
    };
    const int64_t taken = registers_needed(g, s) + 4 + addresses(g.align_a, s.block_m) + addresses(g.align_b, s.block_n);
    const int64_t registers = std::min(taken, registers_allowed(s, limits));
    return gemm::blocks_per_sm(limits, smem_bytes(g, s), s.threads(), registers);
}

}  // namespace autotune::mma
