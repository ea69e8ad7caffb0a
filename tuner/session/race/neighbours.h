#pragma once

#include <string>
#include <vector>

#include "tuner/session/engine/run_shared.h"

namespace autotune::tuner {

// Verifies a candidate on the op's edge-case problems near a problem: tails, padded rows, outputs that must not be read. Skips
// problems that the family refuses or whose space lacks the config. Returns the first failure, or ok. Uses fixture number 1.
RunOutcome verify_on_neighbours(RunShared& shared, const Problem& problem, const Candidate& candidate);
// The instances that verify_on_neighbours() will compile: those of the neighbours, and their references.
std::vector<jit::Rendered> needed_by_neighbours(RunShared& shared, const Problem& problem, const Candidate& candidate);

}  // namespace autotune::tuner
