#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "src/core/space/search_space.h"

namespace autotune {

// A config from one value per parameter, in declared order (throws Error{internal} if the number differs): families write their
// named configs this way.
Config config_of(const std::vector<Parameter>& parameters, std::initializer_list<std::int64_t> values);
// The named configs that the space contains.
std::vector<NamedConfig> legal_ones(std::vector<NamedConfig> named, const SearchSpace& space);

}  // namespace autotune
