#include "kernel_templates/gemm/wmma_tf32/geometry.h"

#include <algorithm>
#include <array>

namespace autotune::wmma_tf32 {

using std::int64_t;

int64_t smem_bytes(const Gemm& g, const ResolvedConfig& s) {
    const auto tile = [&](int64_t extent, bool k_contiguous) {
        return (k_contiguous ? extent : s.block_k) * ((k_contiguous ? s.block_k : extent) + s.smem_pad) * 4;
    };
    const int64_t ring = s.stages * (tile(s.block_m, !g.trans_a) + tile(s.block_n, g.trans_b));
    return std::max(ring, s.warps() * 16 * (s.warp_n() + 4) * 4);
}

int64_t registers_needed(const ResolvedConfig& s) {
    return s.warp_m() * s.warp_n() / 32 + (s.warp_m() + s.warp_n()) / 4 + 48;
}

}  // namespace autotune::wmma_tf32
