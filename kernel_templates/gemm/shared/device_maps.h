#pragma once

#include "src/core/family/launch_plan.h"

namespace autotune::gemm {

// Has kernels make the tensor maps that the plan's last step is given: a step with the template's entry _map for each, before it,
// which leaves the map in the workspace. The last step is then given their addresses. REQUIRES: maps of tensors A, B and C,
// three-dimensional.
void make_maps_on_device(LaunchPlan& plan);

}  // namespace autotune::gemm
