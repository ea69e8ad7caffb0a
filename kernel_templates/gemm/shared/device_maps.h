#pragma once

#include "src/core/family/launch_plan.h"

namespace autotune::gemm {

// Lets kernels make the tensor maps for the plan's last step. For each map a step with the template's entry _map is added before
// it, which writes the map to the workspace. The last step then gets the maps' addresses. REQUIRES: maps of tensors A, B and C,
// three-dimensional.
void make_maps_on_device(LaunchPlan& plan);

}  // namespace autotune::gemm
