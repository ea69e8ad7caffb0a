#pragma once

#include "src/core/family/launch_plan.h"
#include "src/core/problem/device.h"
#include "src/core/statistics/trial.h"

namespace autotune::tuner {

// Resident threads / the SM's maximum, from the compiler's report and the launch shape, as the CUDA occupancy calculator computes
// it (registers are allocated to warps in units of 256, and 1 KiB of each block's shared memory is reserved). It is 0 if a block
// does not fit.
double occupancy(const LaunchStep& step, const CompileReport& report, const Device& device);

}  // namespace autotune::tuner
