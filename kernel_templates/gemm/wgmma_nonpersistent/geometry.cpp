#include "kernel_templates/gemm/wgmma_nonpersistent/geometry.h"

#include <algorithm>
#include <array>

namespace autotune::wgmma_nonpersistent {

using std::int64_t;

ResolvedConfig::ResolvedConfig(const Config& config, const Gemm& g) : sum_bytes(g.acc_f16 ? 2 : 4) {
    read_config(*this, config);
}

Grid::Grid(const Gemm& g, const ResolvedConfig& s, const Device& device) {
    const int64_t rows = s.swap_ab != 0 ? g.n : g.m;
    const int64_t columns = s.swap_ab != 0 ? g.m : g.n;
    tiles_m = round_up(ceil_div(rows, s.block_m), s.cluster_m);
    tiles_n = round_up(ceil_div(columns, s.block_n), s.cluster_n);
    blocks = tiles_m * tiles_n * s.cluster_k * g.batch;
    steps = ceil_div(g.k, s.block_k);
    steps_each = ceil_div(steps, s.cluster_k);
    const int64_t registers = s.accumulators() + 48;
    an_sm = gemm::blocks_per_sm(device.limits, s.smem_bytes(s.stages), s.threads(), registers);
}

std::optional<int64_t> deepest_ring(const ResolvedConfig& s, int64_t steps, int64_t blocks, const Device& device) {
    constexpr std::array<int64_t, 10> kDepths = {16, 12, 10, 8, 7, 6, 5, 4, 3, 2};
    std::optional<int64_t> found;
    for (const int64_t depth : kDepths) {
        const bool fits = s.smem_bytes(depth) <= device.limits.smem_per_block_bytes &&
                          blocks * (s.smem_bytes(depth) + 1024) <= device.limits.smem_per_sm_bytes;
        if (!fits || depth <= s.k_warpgroups || depth % s.k_warpgroups != 0) continue;
        if (!found || depth >= steps) found = depth;  // A ring that holds all steps need not be deeper.
    }
    return found;
}

}  // namespace autotune::wgmma_nonpersistent
