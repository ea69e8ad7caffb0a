#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/catalogue/catalogue.h"
#include "src/core/problem/device.h"
#include "src/core/problem/problem.h"
#include "src/dispatch/choice.h"

namespace autotune::dispatch {

// A few kernels that together serve every first extent of a range nearly as well as the best of all offers. Without such a set a
// server would need as many kernels per weight matrix as its requests have row counts.

// The problem with another first extent. It is used only for predictions and plans.
Problem with_first_extent(Problem problem, std::int64_t value);

// First extents of the problem's range. Near winners of these extents are offered.
std::vector<std::int64_t> pivots_of(std::int64_t first_extent);
// First extents for which the set is chosen: the pivots and, for the usual range, extents between them.
std::vector<std::int64_t> set_extents_of(std::int64_t first_extent);
// The key of the problems that differ in the first extent only and share the last pivot.
std::string range_of(const Problem& problem, const Device& device);

// At most 11 instances of the offers, chosen for these first extents.
std::vector<ResolvedCandidate> choose_serving_set(const Catalogue& catalogue, const Problem& problem, const Device& device,
                                                  const std::vector<ResolvedCandidate>& offers,
                                                  const std::vector<std::int64_t>& extents);

}  // namespace autotune::dispatch
