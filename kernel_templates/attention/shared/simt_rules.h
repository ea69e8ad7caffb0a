#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernel_templates/attention/op/attention_problem.h"
#include "src/core/space/search_space.h"

// Host code of the families that multiply f32 on the CUDA cores (device code: simt_parts.cuh).
namespace autotune::attention {

// Shared memory per block and registers per thread of a config.
struct Resources {
    std::int64_t smem_bytes, registers;
};
using ResourcesOf = std::function<Resources(const Config&)>;

// Rules that a block's tiles and sums fit. `shape`: the parameters that determine the resources, including resident_blocks.
std::vector<Constraint> resource_rules(const std::vector<std::string>& shape, const ResourcesOf& resources,
                                       const DeviceLimits& limits);
// threads_x times the parameter `rows_each` is the number of rows of a tile, which must be 16 to 128.
Constraint tile_rule(const std::string& reason, const std::string& rows_each);
// Without a mask no order of blocks is better than the order of the heads.
Constraint order_rule(const View& view);

// Blocks per SM at the same time, at least `resident_blocks`.
double resident_blocks(const Config& config, const Resources& resources, const DeviceLimits& limits);

}  // namespace autotune::attention
