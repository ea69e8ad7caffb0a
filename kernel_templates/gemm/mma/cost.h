#pragma once

#include "kernel_templates/gemm/mma/shape.h"

namespace autotune::mma {

// Predicted microseconds of a whole launch plan: for ranking, not for reporting.
double predict_us(const Gemm& g, const Shape& s, const Device& device);

}  // namespace autotune::mma
