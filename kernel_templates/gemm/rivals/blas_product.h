#pragma once

#include <optional>
#include <string>

#include "src/core/problem/problem.h"
#include "src/gpu/blas.h"

namespace autotune::gemm {

// A gemm as cuBLAS sees it. C = A B row by row is, in the same memory, C^T = B^T A^T column by column: the first matrix of the
// product is our B and the second our A, each untransposed if it is stored so. nullopt, and `why` in one sentence, if cuBLAS has
// no entry for the problem.
std::optional<gpu::BlasProduct> blas_product(const Problem& problem, std::string* why);

}  // namespace autotune::gemm
