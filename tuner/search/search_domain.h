#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "src/core/space/config_list.h"
#include "src/core/space/search_space.h"
#include "tuner/search/search.h"

namespace autotune::tuner {

// One family's part of a domain: its parameters and the legal configs to search, each with exactly these parameters.
struct DomainPart {
    std::span<const Parameter> parameters;
    ConfigList points;
};

// A domain over the points of all parts, numbered in order: part 0's points first. Neighbours stay within a part: they differ in
// one parameter, or by one step up or down in each of two. Coordinates: the part, then one per parameter name of all parts (-1 if
// a part has no such parameter). Instances: points of a part with equal compile parameters. The caller sets `prior` and `seeds`.
// REQUIRES: every value is in its parameter's domain.
Domain make_domain(const std::vector<DomainPart>& parts);

// The number of different instances in the domain.
std::size_t count_instances(const Domain& domain);

}  // namespace autotune::tuner
