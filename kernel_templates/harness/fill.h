#pragma once

#include <cstdint>
#include <vector>

#include "src/core/op/fill.h"
#include "src/core/problem/problem.h"

namespace autotune {

// The host's counterpart of autotune_fill (harness.cuh): the same values, bit for bit.

// The position of an element in a problem's tensor. It has the row and column in the last two dimensions, and the number of that
// matrix in all dimensions before. `cols` is the last dimension's extent.
struct FillPlace {
    std::uint64_t seed = 1;
    int tensor = 0;
    std::int64_t batch = 0;
    std::int64_t row = 0;
    std::int64_t col = 0;
    std::int64_t cols = 1;
};

// The value of one element under `fill`, rounded to the tensor's type.
double fill_value(const Fill& fill, DType type, const FillPlace& place);

// All span() values of a tensor in stored order; gaps are NaN.
std::vector<double> filled_tensor(const Fill& fill, const Tensor& tensor, int index, std::uint64_t seed);

}  // namespace autotune
