#pragma once

#include <string>

namespace autotune::tuner {

// A lane: tunes on one GPU what its parent sends until that says "end" or "stop". It opens the store itself and writes its
// winners. Returns the exit code. `log_level`: of kLogLevels; empty: nobody listens.
int run_lane(const std::string& log_level);

}  // namespace autotune::tuner
