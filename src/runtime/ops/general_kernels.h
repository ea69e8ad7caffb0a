#pragma once

#include <vector>

#include "src/runtime/plan/general_kernel.h"

namespace autotune::runtime {

// Kernels that can do every gemm of the usual types and layouts, small and quick to compile. They stand in while better ones are
// compiled.
std::vector<GeneralKernel> general_kernels();

}  // namespace autotune::runtime
