#include "kernel_templates/gemm/wgmma_tf32/geometry.h"

#include <algorithm>

namespace autotune::wgmma_tf32 {

using std::int64_t;

ResolvedConfig::ResolvedConfig(const Config& c, const Gemm& g) : x_in_registers(g.trans_a || !g.trans_b) {
    read_config(*this, c);
}

bool transposes_y(const Gemm& g) {
    return g.trans_a && !g.trans_b;
}

bool may_swap(const Gemm& g, bool swap_ab) {
    if (transposes_y(g)) return true;
    return swap_ab == (!g.trans_a && !g.trans_b);
}

Grid::Grid(const Gemm& g, const ResolvedConfig& s, const Device& device) {
    const int64_t rows = s.swap_ab != 0 ? g.n : g.m;
    const int64_t columns = s.swap_ab != 0 ? g.m : g.n;
    count_m = ceil_div(ceil_div(rows, s.block_m), s.cluster_m);
    count_n = ceil_div(ceil_div(columns, s.block_n), s.cluster_n);
    tiles = count_m * count_n * g.batch;
    steps = ceil_div(g.k, kBlockK);
    clusters = std::min(std::max<int64_t>(1, gemm::usable_sms(device, s.cluster_blocks()) / s.cluster_blocks()), tiles);
}

}  // namespace autotune::wgmma_tf32
