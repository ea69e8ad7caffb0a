#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/core/space/search_space.h"

namespace autotune {

// Why `config` has no place in the cross product of the parameters' domains: it names a parameter that there is not, lacks one,
// or has a value outside of its domain ("block_m=0 is not one of 64, 128"). nullopt if it has one. Configs from files are asked
// this before any code of a family computes with them.
std::optional<std::string> why_outside_domain(const std::vector<Parameter>& parameters, const Config& config);

}  // namespace autotune
