#include "kernel_templates/attention/mma/geometry.h"

#include <algorithm>

namespace autotune::attention_mma {

using attention::ceil_div;
using attention::round_up;

Geometry::Geometry(const Config& config, const attention::View& view)
    : ResolvedConfig(resolve<ResolvedConfig>(config)), d(view.d), dv(view.dv), is_tf32(view.is_tf32) {}

std::int64_t Geometry::row_bytes(std::int64_t columns) const {
    const bool is_swizzled = smem_swizzle != 0 && columns % 64 == 0;
    return round_up(columns, 16) * 2 + (is_swizzled ? 0 : 16);
}

std::int64_t Geometry::smem_bytes() const {
    if (is_tf32) {
        const std::int64_t steps = ceil_div(d, 16), ld = 16 * (steps % 2 == 1 ? steps : steps + 1);
        return 4 * (block_q * ld + stages * block_k * (ld + round_up(dv, 32) + 4));
    }
    return block_q * std::max(row_bytes(d), row_bytes(dv)) + stages * block_k * (row_bytes(d) + row_bytes(dv));
}

std::int64_t Geometry::registers() const {
    const std::int64_t kOther = stages == 1 ? 48 : 40;
    const std::int64_t sums = bands() * round_up(dv, is_tf32 ? 32 : 16) / 2;
    const std::int64_t scores = bands() * block_k / 2;
    const std::int64_t words = is_tf32 ? 2 : 1;  // words for two elements
    const std::int64_t queries = words * (q_in_registers != 0 ? bands() * round_up(d, 16) / 4 : 4 * bands());
    return sums + scores + queries + 8 + kOther;
}

std::int64_t Geometry::blocks_per_sm(const Device& device) const {
    constexpr std::int64_t kReservedBytes = 1024;  // shared memory per block that the driver reserves
    const std::int64_t by_smem = device.limits.smem_per_sm_bytes / (smem_bytes() + kReservedBytes);
    const std::int64_t by_registers = std::max(
        device.limits.registers_per_sm / (threads() * round_up(std::min<std::int64_t>(registers(), 255), 8)), resident_blocks);
    return std::max<std::int64_t>(1, std::min(by_smem, by_registers));
}

}  // namespace autotune::attention_mma
