#include <algorithm>
#include <cmath>

#include "kernel_templates/gemm/wgmma_tf32/geometry.h"

namespace autotune::wgmma_tf32 {

using std::int64_t;

namespace {

// The clocks of one SM for one K step: the larger of the times of the tensor cores and of shared memory, plus a constant per
// step. The model has the form of gemm/wgmma's, with half its multiplications per clock.
double step_clocks(const ResolvedConfig& s, const Grid& grid) {
    const auto area = static_cast<double>(s.block_m * s.block_n);
    const auto edges = static_cast<double>(s.block_m + s.block_n);
    const double multiply = 0.9 * area * 32.0 / 1024.0;
    const auto rows64 = static_cast<double>(s.block_m) / 64.0;
    const double reads = rows64 * (static_cast<double>(s.block_n) + 64.0);  // lines of 128 bytes
    const double shared = reads + edges;
    const double x = static_cast<double>(s.block_m) * 128.0 / static_cast<double>(s.cluster_n);
    const double y = static_cast<double>(s.block_n) * 128.0 / static_cast<double>(s.cluster_m);
    const auto busy = static_cast<double>(grid.clusters * s.cluster_blocks());
    const double l2 = (x + y) / std::min(149.0, 9190.0 / busy);
    const double wait = s.x_in_registers && s.x_sets == 1 ? 260.0 : 163.0;
    return std::max(std::max({multiply, shared, l2}) + wait, 2300.0 / static_cast<double>(std::max<int64_t>(1, s.stages - 1)));
}

// Time of copying operands to the workspace, before the main kernel.
double arrange_us(const Gemm& g, const ResolvedConfig& s, const Device& device) {
    const double bytes_per_us = device.memory_gb_per_s * 0.6e3;
    const auto copied = [&](int64_t rows, int align, bool transposes) {
        if (align >= gemm::kChunkBytes && !transposes) return 0.0;
        return 2.5 + 8.0 * static_cast<double>(rows * g.k * g.batch) / bytes_per_us;
    };
    const bool y_is_a = s.swap_ab != 0;
    return copied(g.m, g.align_a, transposes_y(g) && y_is_a) + copied(g.n, g.align_b, transposes_y(g) && !y_is_a);
}

}  // namespace

double predict_us(const Gemm& g, const ResolvedConfig& s, const Device& device) {
    const Grid grid(g, s, device);
    const auto area = static_cast<double>(s.block_m * s.block_n);
    const double rounds = std::ceil(static_cast<double>(grid.tiles) / static_cast<double>(grid.clusters));
    const double run = static_cast<double>(grid.steps) * step_clocks(s, grid);
    const double end = 1500.0 + area / (s.tma_store != 0 ? 6.0 : 2.0);
    const double clocks = s.pingpong != 0 && rounds > 1 ? rounds * std::max(run, end / 2) + end : rounds * (run + end);
    const double compute_us = clocks / (device.clock_mhz * 0.86);
    const double bytes = static_cast<double>((g.m * g.k + g.k * g.n + g.m * g.n * (g.reads_c ? 2 : 1)) * g.batch) * 4;
    const double memory_us = bytes / (device.memory_gb_per_s * 0.9e3);
    const double order = s.group == 8 && s.raster == 0 ? 1.0 : 1.01;
    return (s.pdl != 0 ? 1.8 : 3.3) + order * std::pow(std::pow(compute_us, 6) + std::pow(memory_us, 6), 1.0 / 6) +
           arrange_us(g, s, device);
}

}  // namespace autotune::wgmma_tf32
