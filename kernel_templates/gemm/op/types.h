#pragma once

#include <string>

#include "src/core/problem/dtype.h"

// What the tensors of a product hold and what it is computed in.
namespace autotune::gemm {

struct Types {
    DType a = DType::f16, b = DType::f16, c = DType::f16;
    std::string compute;  // number format of the multiplications; empty: default_compute()
    std::string acc = "f32";
    std::string scale = "none";  // granularity of fp8 scales: a word of kScalings
    // What becomes of sums of fp8 on their way to C: words of kBiases, kScalesOfC and kAmaxes.
    std::string bias = "none", scale_d = "none", amax = "no";
};

// The type of A and B; f32, and neither of the TensorFloat-32 ways, for f32; fp8 for both of its types.
std::string default_compute(const Types& types);

// `types` with what was left empty filled in. Throws Error{usage} for a combination that no gemm has.
Types checked_types(Types types);

// f32 operands as the multiplier takes them: tf32 rounds each to 11 bits, tf32x3 multiplies two such parts of each and leaves out
// the product of the small parts.
inline constexpr const char* kTf32 = "tf32";
inline constexpr const char* kFp8 = "fp8";
inline constexpr const char* kTf32x3 = "tf32x3";

}  // namespace autotune::gemm
