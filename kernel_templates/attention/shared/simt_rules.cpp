#include "kernel_templates/attention/shared/simt_rules.h"

#include <algorithm>
#include <cmath>

namespace autotune::attention {

std::vector<Constraint> resource_rules(const std::vector<std::string>& shape, const ResourcesOf& resources,
                                       const DeviceLimits& limits) {
    constexpr std::int64_t kMostRegisters = 255;
    return {{"tiles exceed shared memory", shape,
             [=](const Config& c) {
                 const std::int64_t bytes = resources(c).smem_bytes;
                 return bytes <= limits.smem_per_block_bytes && (bytes + 1024) * c["resident_blocks"] <= limits.smem_per_sm_bytes;
             }},
            {"a thread has too few registers for its sums and scores", shape, [=](const Config& c) {
                 const std::int64_t most =
                     std::min<std::int64_t>(limits.registers_per_sm / (c["threads"] * c["resident_blocks"]), kMostRegisters);
                 return resources(c).registers <= most;
             }}};
}

Constraint tile_rule(const std::string& reason, const std::string& rows_each) {
    return {reason, {"threads_x", rows_each}, [rows_each](const Config& c) {
                const std::int64_t rows = c["threads_x"] * c[rows_each];
                return rows >= 16 && rows <= 128;
            }};
}

Constraint order_rule(const View& view) {
    return {"an order by length without a mask: all tiles take equally long",
            {"order"},
            [is_masked = view.is_masked()](const Config& c) { return is_masked || c["order"] == 0; }};
}

double resident_blocks(const Config& config, const Resources& resources, const DeviceLimits& limits) {
    const auto real = [](std::int64_t value) { return static_cast<double>(value); };
    const double by_smem = real(limits.smem_per_sm_bytes / (resources.smem_bytes + 1024));
    const double by_registers = std::floor(limits.registers_per_sm / real(config["threads"] * round_up(resources.registers, 8)));
    return std::max({1.0, real(config["resident_blocks"]), std::min(by_smem, by_registers)});
}

}  // namespace autotune::attention
