#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "src/core/space/search_space.h"

namespace autotune {

// Values in declared order of the parameters, one for each (throws Error{internal} otherwise): how a family writes down its named
// configs.
Config config_of(const std::vector<Parameter>& parameters, std::initializer_list<std::int64_t> values);
// Those that the space has.
std::vector<NamedConfig> legal_ones(std::vector<NamedConfig> named, const SearchSpace& space);

}  // namespace autotune
