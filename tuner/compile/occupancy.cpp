#include "tuner/compile/occupancy.h"

#include <algorithm>

#include "src/core/integer_math.h"

namespace autotune::tuner {
namespace {

constexpr int kWarp = 32;
constexpr int kRegisterUnit = 256;        // registers are allocated to a warp in units of this
constexpr int kReservedSmemBytes = 1024;  // reserved in every block by the driver

}  // namespace

double occupancy(const LaunchStep& step, const CompileReport& report, const Device& device) {
    const DeviceLimits& limits = device.limits;
    const int threads = static_cast<int>(step.block.x * step.block.y * step.block.z);
    if (threads <= 0 || threads > limits.threads_per_block) return 0;
    const int warps = (threads + kWarp - 1) / kWarp;
    int blocks = std::min(limits.blocks_per_sm, limits.threads_per_sm / (warps * kWarp));
    if (report.registers > 0) {
        const int per_block = warps * static_cast<int>(round_up(report.registers * kWarp, kRegisterUnit));
        blocks = std::min(blocks, limits.registers_per_sm / per_block);
    }
    const int smem = static_cast<int>(step.dynamic_smem_bytes) + report.static_smem_bytes;
    if (smem > limits.smem_per_block_bytes) return 0;
    blocks = std::min(blocks, limits.smem_per_sm_bytes / (smem + kReservedSmemBytes));
    return static_cast<double>(blocks * warps * kWarp) / limits.threads_per_sm;
}

}  // namespace autotune::tuner
