#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/core/space/search_space.h"

namespace autotune {

// Why `config` is not in the cross product of the parameters' domains: it has an unknown parameter, lacks one, or has a value
// outside a domain ("block_m=0 is not one of 64, 128"). nullopt if it is in the product. Configs from files are checked with this
// before any code of a family computes with them.
std::optional<std::string> why_outside_domain(const std::vector<Parameter>& parameters, const Config& config);

}  // namespace autotune
