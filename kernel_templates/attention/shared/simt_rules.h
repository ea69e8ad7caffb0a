#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernel_templates/attention/op/attention_problem.h"
#include "src/core/space/search_space.h"

// What the families that multiply f32 on the ordinary cores (device text: simt_parts.cuh) share on the host.
namespace autotune::attention {

// What a config takes of a block's shared memory and of a thread's registers.
struct Resources {
    std::int64_t smem_bytes, registers;
};
using ResourcesOf = std::function<Resources(const Config&)>;

// That blocks find their tiles and their sums: `shape` are the parameters that resources depend on, resident_blocks among them.
std::vector<Constraint> resource_rules(const std::vector<std::string>& shape, const ResourcesOf& resources,
                                       const DeviceLimits& limits);
// threads_x times `rows_each`, a parameter, is the rows of a tile, of which there are 16 to 128.
Constraint tile_rule(const std::string& reason, const std::string& rows_each);
// Without a mask no order of blocks is better than that of the heads.
Constraint order_rule(const View& view);

// Blocks of an SM at once, at least `resident_blocks`.
double resident_blocks(const Config& config, const Resources& resources, const DeviceLimits& limits);

}  // namespace autotune::attention
