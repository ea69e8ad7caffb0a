#pragma once

#include <string>

namespace autotune::tuner {

// A lane: tunes on one GPU the items that its parent sends, until the parent sends "end" or "stop". It opens the store itself and
// writes its winners. Returns the exit code. `log_level`: of kLogLevels; empty: no log.
int run_lane(const std::string& log_level);

}  // namespace autotune::tuner
