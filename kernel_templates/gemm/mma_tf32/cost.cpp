#include <algorithm>
#include <cmath>

#include "kernel_templates/gemm/mma_tf32/geometry.h"

namespace autotune::mma_tf32 {

using std::int64_t;

double predict_us(const Gemm& g, const ResolvedConfig& s, int terms, const Device& device) {
    const auto sms = static_cast<double>(device.identity.sm_count);
    const auto blocks = static_cast<double>(tiles(g, s) * s.split_k);
    const double rounds = std::ceil(blocks / sms);
    const int64_t registers =
        std::min(registers_needed(s, terms), gemm::registers_allowed(device.limits, s.threads(), s.min_blocks));
    const auto fit = static_cast<double>(gemm::blocks_per_sm(device.limits, smem_bytes(s), s.threads(), registers));
    const double resident = std::min(fit, rounds);
    const double warps = resident * static_cast<double>(s.warps());

    // Cycles of one SM for a step of 16 k of one block: tensor cores, shared memory, splitting and promoting.
    const double share = device.identity.cc() == 90 ? 0.6 : 0.9;
    const double rate = device.tensor_flop_per_clock_sm() / 2 * share;
    const auto area = static_cast<double>(s.block_m * s.block_n);
    const double mma = terms * 2.0 * 16.0 * area / rate;
    const double reads = static_cast<double>(s.warps() * (s.warp_m() + s.warp_n())) * 64.0;
    const double copies = static_cast<double>(s.block_m + s.block_n) * 64.0 * (16.0 / std::min({g.align_a, g.align_b, 16}));
    const double smem = (reads + copies) / 128.0;
    const double split = terms == 1 ? 0
                                    : static_cast<double>(s.warps() * (s.warp_m() + s.warp_n())) * 16.0 * 3.0 / 128.0 +
                                          area * 16.0 / static_cast<double>(s.promote_k) / 128.0;
    double step = std::max(mma, smem) + 0.4 * std::min(mma, smem) + 0.6 * split;
    if (warps < 8) step *= std::pow(8.0 / warps, 0.5);
    const double meeting = (s.stages == 2 ? 700.0 : 250.0) / resident;
    const double depth = static_cast<double>(std::max<int64_t>(1, k_per_split(g, s)));
    const double loop = depth / 16 * step + depth / static_cast<double>(s.block_k) * meeting;
    const double end = 1000.0 + area * 4.0 / 24.0;
    const double compute_us = rounds * (loop + end / (resident > 1 ? 2 : 1)) / (device.clock_mhz * 0.95);
    const double bytes = static_cast<double>((g.m * g.k + g.n * g.k + g.m * g.n * (g.reads_c ? 2 : 1)) * g.batch) * 4;
    const double sums_us =
        s.split_k == 1 ? 0 : 3 + static_cast<double>(g.m * g.n * g.batch * (s.split_k + 1) * 8) / (device.memory_gb_per_s * 1e3);
    const double order = s.swizzle_stride != 0 || s.raster != 0 ? 1.02 : 1.0;
    return 2 + order * std::max(compute_us, bytes / (device.memory_gb_per_s * 0.85e3)) + sums_us;
}

}  // namespace autotune::mma_tf32
