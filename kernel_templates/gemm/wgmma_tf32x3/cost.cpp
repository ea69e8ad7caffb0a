#include <algorithm>
#include <cmath>

#include "kernel_templates/gemm/wgmma_tf32/geometry.h"
#include "kernel_templates/gemm/wgmma_tf32x3/geometry.h"

namespace autotune::wgmma_tf32x3 {

namespace {

// The clocks of one SM for one K step. The limit is either the three products on the tensor cores or the traffic of shared
// memory: reads of Y for each product, TMA's writes, the splitting, and loads of X into registers.
double step_clocks(const ResolvedConfig& s) {
    const auto columns = static_cast<double>(s.block_n);
    const auto rows = static_cast<double>(kBlockM);
    const double multiply = 3.0 * rows * columns * static_cast<double>(kBlockK) / 1024.0;
    const double lines = 24.0 * columns / 4.0 + (rows + columns) + 2.0 * columns + rows;
    const double ring = 2300.0 / static_cast<double>(std::max<std::int64_t>(1, s.stages - 1));
    return std::max({multiply, lines, ring}) + 60.0 * static_cast<double>(s.parts_n);
}

// Time of copying operands to the workspace, before the main kernel.
double arrange_us(const Gemm& g, const ResolvedConfig& s, const Device& device) {
    const double bytes_per_us = device.memory_gb_per_s * 0.6e3;
    const auto copied = [&](std::int64_t rows, int align, bool transposes) {
        if (align >= gemm::kChunkBytes && !transposes) return 0.0;
        return 2.5 + 8.0 * static_cast<double>(rows * g.k * g.batch) / bytes_per_us;
    };
    const bool transposes = wgmma_tf32::transposes_y(g), y_is_a = s.swap_ab != 0;
    return copied(g.m, g.align_a, transposes && y_is_a) + copied(g.n, g.align_b, transposes && !y_is_a);
}

}  // namespace

double predict_us(const Gemm& g, const ResolvedConfig& s, const Device& device) {
    const Grid grid(g, s, device);
    const double rounds = std::ceil(static_cast<double>(grid.tiles) / static_cast<double>(grid.clusters));
    const double run = static_cast<double>(grid.steps) * step_clocks(s);
    const double end = 1000.0 + static_cast<double>(kBlockM * s.block_n) / 8.0;
    const double compute_us = (rounds * run + end * (1.0 + 0.3 * rounds)) / (device.clock_mhz * 0.8);
    const double order = s.group == 8 && s.raster == 0 ? 1.0 : 1.01;
    return (s.pdl != 0 ? 1.8 : 3.3) + order * compute_us + arrange_us(g, s, device);
}

}  // namespace autotune::wgmma_tf32x3
