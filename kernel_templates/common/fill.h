#pragma once

#include <cstdint>
#include <vector>

#include "src/core/op.h"
#include "src/core/problem.h"

namespace autotune {

// The host's side of autotune_fill (harness.cuh): the same values, bit for bit.

// Where an element stands in a problem's operand.
struct FillPlace {
    std::uint64_t seed = 1;
    int operand = 0;
    std::int64_t batch = 0;
    std::int64_t row = 0;
    std::int64_t col = 0;
};

// The value of one element under `fill`, rounded to the operand's type.
double fill_value(const Fill& fill, DType type, const FillPlace& place);

// A whole operand as values in stored order, span() of them; gaps between rows and batches are NaN.
std::vector<double> filled_operand(const Fill& fill, const Operand& operand, int operand_index, std::uint64_t seed);

}  // namespace autotune
