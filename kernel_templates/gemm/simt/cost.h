#pragma once

#include "kernel_templates/gemm/gemm_problem.h"
#include "src/core/config.h"
#include "src/core/device.h"

namespace autotune::simt {

// Predicted microseconds of a launch: for ranking, not for reporting.
double predict_us(const gemm::View& view, const Config& config, const Device& device);

}  // namespace autotune::simt
