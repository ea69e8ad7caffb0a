#pragma once

#include <string>

#include "src/core/problem/dtype.h"

// The element types of a product's tensors, and the number format of its computation.
namespace autotune::gemm {

struct Types {
    DType a = DType::f16, b = DType::f16, c = DType::f16;
    std::string compute;  // the number format of the multiplications; if empty, default_compute()
    std::string acc = "f32";
    std::string scale = "none";  // the granularity of fp8 scales, a word of kScalings
    // How sums of fp8 products are changed before they are stored. These are words of kBiases, kScalesOfC and kAmaxes.
    std::string bias = "none", scale_d = "none", amax = "no";
};

// The type of A and B. For f32 it is f32, neither of the TensorFloat-32 formats; for both fp8 types it is fp8.
std::string default_compute(const Types& types);

// `types` with its empty fields filled in. Throws Error{usage} for a combination that no gemm has.
Types checked_types(Types types);

// Ways to multiply f32 operands on tensor cores. tf32 rounds each operand to 11 bits. tf32x3 multiplies two such parts of each,
// and leaves out the product of the small parts.
inline constexpr const char* kTf32 = "tf32";
inline constexpr const char* kFp8 = "fp8";
inline constexpr const char* kTf32x3 = "tf32x3";

}  // namespace autotune::gemm
