#pragma once

#include "src/core/family/launch_plan.h"
#include "src/core/problem/device.h"
#include "src/core/statistics/trial.h"

namespace autotune::tuner {

// Resident threads over the SM's maximum, from the compiler's report and the launch shape: the rule of the CUDA occupancy
// calculator (registers are given to warps in units of 256, shared memory to blocks with 1 KiB of the system's own). 0 if a block
// does not fit.
double occupancy(const LaunchStep& step, const CompileReport& report, const Device& device);

}  // namespace autotune::tuner
