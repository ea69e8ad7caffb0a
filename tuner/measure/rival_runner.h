#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/rivals/rival.h"
#include "tuner/measure/meter.h"

namespace autotune::tuner {

// An op's rivals as runnables, in the GPU worker. A rival with several ways to run a problem uses the fastest (fastest_of), which
// the caller then times in its own rounds.
class RivalRunner {
  public:
    explicit RivalRunner(WorkerGpu& gpu) : gpu_(gpu) {}
    // Why the rival cannot run this problem; if empty, `runnable` is ready. Throws DriverError, Error{driver}.
    std::string prepare(const std::string& name, ProblemFixture& fixture, Meter& meter, Runnable& runnable);

  private:
    WorkerGpu& gpu_;
    std::map<std::string, std::vector<std::unique_ptr<Rival>>> made_;  // by op; kept, because rivals keep their libraries open
};

}  // namespace autotune::tuner
