#include "tools/cli/output/report/roofline.h"

#include <fmt/format.h>

#include <algorithm>

namespace autotune::cli {

Roofline roofline_of(const Device& device) {
    return {.peak_tflops = device.tensor_flop_per_clock_sm() * device.identity.sm_count * device.clock_mhz * 1e-6,
            .memory_gb_per_s = device.memory_gb_per_s};
}

double intensity(const Op& op, const Problem& problem) {
    const double bytes = op.bytes(problem);
    return bytes > 0 ? op.flops(problem) / bytes : 0;
}

double ceiling(const Roofline& roofline, const Op& op, const Problem& problem) {
    if (op.rate_unit() == "gb_per_s") return roofline.memory_gb_per_s;
    const double fed_tflops = roofline.memory_gb_per_s * intensity(op, problem) * 1e-3;
    return roofline.peak_tflops > 0 ? std::min(roofline.peak_tflops, fed_tflops) : fed_tflops;
}

std::string roofline_text(const Device& device) {
    const Roofline roofline = roofline_of(device);
    return fmt::format("peak {:.0f} TFLOP/s ({} SMs x {:.0f} FLOP x {:.0f} MHz), memory {:.0f} GB/s", roofline.peak_tflops,
                       device.identity.sm_count, device.tensor_flop_per_clock_sm(), device.clock_mhz, device.memory_gb_per_s);
}

}  // namespace autotune::cli
