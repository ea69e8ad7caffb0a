#include "kernel_templates/gemm/wmma/geometry.h"

#include <algorithm>
#include <array>

namespace autotune::wmma {

using std::int64_t;

namespace {

int64_t tile_bytes(const ResolvedConfig& s, int64_t extent, bool k_contiguous) {
    const int64_t rows = k_contiguous ? extent : s.block_k;
    const int64_t cols = k_contiguous ? s.block_k : extent;
    return rows * (cols + s.smem_pad) * kElementBytes;
}

// 16-byte chunks of both tiles that a thread keeps in registers between loading and storing them.
int64_t chunks_held(const ResolvedConfig& s) {
    return ceil_div(s.block_m * s.block_k / 8, s.threads()) + ceil_div(s.block_n * s.block_k / 8, s.threads());
}

}  // namespace

int64_t smem_bytes(const Gemm& g, const ResolvedConfig& s) {
    const int64_t buffers = s.stages * (tile_bytes(s, s.block_m, !g.trans_a) + tile_bytes(s, s.block_n, g.trans_b));
    const int64_t acc_bytes = g.acc_f16 ? 2 : 4;
    const int64_t slabs = s.warps() * s.wmma_m * (s.warp_n() * acc_bytes + 16);
    return std::max(buffers, slabs);
}

int64_t registers_needed(const Gemm& g, const ResolvedConfig& s) {
    const int64_t accumulators = s.warp_m() * s.warp_n() / (g.acc_f16 ? 64 : 32);
    const int64_t fragments = (s.warp_m() + s.warp_n()) / 4;
    const int64_t held = s.cp_async != 0 ? 0 : 4 * chunks_held(s);
    return accumulators + fragments + held + 32;
}

int64_t registers_allowed(const ResolvedConfig& s, const DeviceLimits& limits) {
    return gemm::registers_allowed(limits, s.threads(), s.min_blocks);
}

int64_t blocks_per_sm(const Gemm& g, const ResolvedConfig& s, const DeviceLimits& limits) {
    const int64_t registers = std::min(registers_needed(g, s), registers_allowed(s, limits));
    return gemm::blocks_per_sm(limits, smem_bytes(g, s), s.threads(), registers);
}

}  // namespace autotune::wmma
