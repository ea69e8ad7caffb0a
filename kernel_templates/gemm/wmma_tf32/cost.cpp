#include <algorithm>
#include <cmath>

#include "kernel_templates/gemm/wmma_tf32/geometry.h"

namespace autotune::wmma_tf32 {

// Each wave of blocks is limited by the tensor cores or by wmma.load's reads of shared memory; each tile also waits for its
// copies.
double predict_us(const Gemm& g, const ResolvedConfig& s, const Device& device) {
    const auto sms = static_cast<double>(device.identity.sm_count);
    const double rounds = std::ceil(static_cast<double>(tiles(g, s)) / sms);
    const auto fit = static_cast<double>(
        gemm::blocks_per_sm(device.limits, smem_bytes(g, s), s.threads(), std::min<std::int64_t>(255, registers_needed(s))));
    const double resident = std::min(fit, rounds);
    const double share = device.identity.cc() == 90 ? 0.55 : 0.85;
    const auto area = static_cast<double>(s.block_m * s.block_n);
    const double mma = 2.0 * 8.0 * area / (device.tensor_flop_per_clock_sm() / 2 * share);
    const double conflicts = s.smem_pad == 0 ? 2.0 : 1.3;
    const double reads = static_cast<double>(s.warps() * (s.warp_m() + s.warp_n())) * 32.0 * conflicts;
    const double copies = static_cast<double>(s.block_m + s.block_n) * 32.0 * (16.0 / std::min({g.align_a, g.align_b, 16}));
    double step = std::max(mma, (reads + copies) / 128.0) + 40.0;
    if (resident * static_cast<double>(s.warps()) < 8) step *= 1.4;
    const double waits = (s.stages == 1 ? 1200.0 : s.stages == 2 ? 500.0 : 250.0) / resident;
    const auto depth = static_cast<double>(g.k);
    const double clocks = rounds * (depth / 8.0 * step + depth / static_cast<double>(s.block_k) * waits + 1500.0 + area / 8.0);
    const double order = s.swizzle_stride != 0 || s.raster != 0 ? 1.02 : 1.0;
    return 2 + order * clocks / (device.clock_mhz * 0.95);
}

}  // namespace autotune::wmma_tf32
