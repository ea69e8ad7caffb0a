#pragma once

#include "src/core/problem/dtype.h"
#include "tests/support/fake/kernels/kernels.h"

namespace autotune::fake {

// Elements of arrays in simulated device memory, which is the host's.

DType type_of(const std::string& word);
double load(Address base, DType type, std::int64_t index);
void store(Address base, DType type, std::int64_t index, double value);

// Elements from the first to one past the last of a stored matrix.
std::int64_t span(std::int64_t rows, std::int64_t cols, std::int64_t ld, std::int64_t batch, std::int64_t stride);
bool is_mapped(Address base, std::int64_t elements, std::size_t element_bytes);

// A kernel's output, which rules may corrupt.
struct Output {
    Address base = 0;
    DType type = DType::f16;
    std::int64_t rows = 0, cols = 0, ld = 0, batch = 1, stride = 0;
    Address input = 0;  // an input that a rule may change
};
void spoil(const Output& output, const Effects& effects);
// CUDA_ERROR_ILLEGAL_ADDRESS if nothing is mapped there.
CUresult write_behind(const Output& output, long bytes);

}  // namespace autotune::fake
