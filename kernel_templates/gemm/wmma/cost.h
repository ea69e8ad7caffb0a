#pragma once

#include "kernel_templates/gemm/wmma/shape.h"

namespace autotune::wmma {

// Predicted microseconds of a launch: for ranking, not for reporting.
double predict_us(const Gemm& g, const Shape& s, const Device& device);

}  // namespace autotune::wmma
