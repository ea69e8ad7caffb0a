#pragma once

#include <optional>
#include <vector>

#include "tuner/measure/meter.h"

namespace autotune::tuner {

// The index of the fastest of some ways to run the same problem, for a rival with choices of its own: chosen as we choose among
// finalists, by stream time in interleaved rounds under load, after a probe of each has left out what is far behind. Its time
// here is the best of many: measure it again before it is quoted. nullopt if none can be launched. Throws DriverError only
// where the context is lost.
std::optional<std::size_t> fastest_of(Meter& meter, ProblemFixture& fixture, std::vector<Runnable>& choices);

}  // namespace autotune::tuner
