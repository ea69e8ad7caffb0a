#pragma once

#include <vector>

#include "src/catalogue/catalogue.h"
#include "src/core/problem/device.h"
#include "src/core/problem/problem.h"
#include "src/dispatch/choice.h"
#include "src/dispatch/rules/refusals.h"

namespace autotune::dispatch {

// The families' default configs for a problem, fastest predicted first, and why the other families cannot do it.
struct RankedDefaults {
    std::vector<ResolvedCandidate> candidates;
    Refusals refusals;
};
RankedDefaults ranked_defaults(const Catalogue& catalogue, const Problem& problem, const Device& device);

// The offers that are legal for the problem, fastest predicted first, with launch parameters chosen for it; at most `count`.
std::vector<ResolvedCandidate> rank(const Catalogue& catalogue, const std::vector<ResolvedCandidate>& offers,
                                    const Problem& problem, const Device& device, std::size_t count);

}  // namespace autotune::dispatch
