#pragma once

#include "kernel_templates/gemm/wgmma/geometry.h"
#include "src/core/family/launch_plan.h"
#include "src/core/problem/problem.h"

namespace autotune::wgmma {

// The steps of a launch: packing operands whose rows are not aligned, the product, and the second kernel if there is one. A
// family appends its own arguments.
LaunchPlan plan(const Problem& problem, const ResolvedConfig& s, const Device& device);

}  // namespace autotune::wgmma
