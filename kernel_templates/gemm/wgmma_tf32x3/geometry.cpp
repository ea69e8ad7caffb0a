#include "kernel_templates/gemm/wgmma_tf32x3/geometry.h"

#include <algorithm>

namespace autotune::wgmma_tf32x3 {

using std::int64_t;

// Rules see configs in which not every parameter has a value yet, and read only those that they name.
Shape::Shape(const Config& c) {
    gemm::ConfigReader reader(c);
    const auto get = [&reader](std::string_view name) { return reader.find(name).value_or(1); };
    block_n = get("block_n");
    parts_n = get("parts_n");
    cluster_m = get("cluster_m");
    cluster_n = get("cluster_n");
    swap_ab = get("swap_ab");
    stages = get("stages");
    raster = get("raster");
    group = get("group");
    pdl = get("pdl");
}

Grid::Grid(const Gemm& g, const Shape& s, const Device& device) {
    const int64_t rows = s.swap_ab != 0 ? g.n : g.m;
    const int64_t columns = s.swap_ab != 0 ? g.m : g.n;
    count_m = ceil_div(ceil_div(rows, kBlockM), s.cluster_m);
    count_n = ceil_div(ceil_div(columns, s.block_n), s.cluster_n);
    tiles = count_m * count_n * g.batch;
    steps = ceil_div(g.k, kBlockK);
    clusters = std::min<int64_t>(device.identity.sm_count / s.cluster_blocks(), tiles);
}

}  // namespace autotune::wgmma_tf32x3
