#include "kernel_templates/gemm/wgmma_tf32x3/geometry.h"

#include <algorithm>

namespace autotune::wgmma_tf32x3 {

using std::int64_t;

Grid::Grid(const Gemm& g, const ResolvedConfig& s, const Device& device) {
    const int64_t rows = s.swap_ab != 0 ? g.n : g.m;
    const int64_t columns = s.swap_ab != 0 ? g.m : g.n;
    count_m = ceil_div(ceil_div(rows, kBlockM), s.cluster_m);
    count_n = ceil_div(ceil_div(columns, s.block_n), s.cluster_n);
    tiles = count_m * count_n * g.batch;
    steps = ceil_div(g.k, kBlockK);
    clusters = std::min<int64_t>(device.identity.sm_count / s.cluster_blocks(), tiles);
}

}  // namespace autotune::wgmma_tf32x3
