#pragma once

#include <optional>
#include <vector>

#include "tuner/measure/meter.h"

namespace autotune::tuner {

// The index of the fastest of several ways to run the same problem, for a rival that has variants. They are chosen like
// finalists: by stream time in interleaved rounds under load, after a probe has dropped those far behind. The best time of many
// is biased, so measure it again before you report it. nullopt if none can be launched. Throws DriverError only if the context is
// lost.
std::optional<std::size_t> fastest_of(Meter& meter, ProblemFixture& fixture, std::vector<Runnable>& choices);

}  // namespace autotune::tuner
