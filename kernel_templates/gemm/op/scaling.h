#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "src/core/family/launch_plan.h"
#include "src/core/op/fill.h"
#include "src/core/problem/dtype.h"
#include "src/core/problem/problem.h"

// Properties that only fp8 products have: where sums are added, and scales of the operands, which are tensors on the device.
namespace autotune::gemm {

// Tensor indices of the scales, if a problem has any.
inline constexpr int kScaleA = 3, kScaleB = 4;

// The word for sums that stay in the tensor cores, which keep about 13 fraction bits of them on sm_90 and sm_89.
inline constexpr const char* kFast = "f32fast";

// How the elements of an operand share scales. The numbers are those of scale_mode in device code.
enum class Scaling : std::uint8_t {
    none,
    tensor,  // A, B
    row,     // one scale for each row of A and each column of B
    block,   // one scale for 128 k of each row of A, and for 128 k of 128 columns of B
};
inline constexpr std::int64_t kScaleBlock = 128;
// The words of the attribute "scale", by number.
inline constexpr std::array<const char*, 4> kScalings = {"none", "tensor", "row", "block"};

bool is_fp8(DType type);
// Properties of a gemm problem; `none` and false if it is not in fp8.
Scaling scaling_of(const Problem& problem);
bool is_fast(const Problem& problem);
// Whether products of 128 k each are added outside of the tensor cores.
bool promotes(const Problem& problem);

// The scale tensors of a problem of m x n x k. They are dense. Block scales of A are contiguous along rows, in runs of a multiple
// of four (16 bytes).
std::vector<Tensor> scale_tensors(Scaling scaling, const std::vector<Extent>& extents);
// The dimensions that a scale tensor must have, as text for messages, such as "batch, m, k/128".
std::string scale_form(Scaling scaling, int tensor);

// Distances in elements between the scales of two batches, of two lines (rows of A, columns of B, or blocks of them), and of two
// runs of 128 k.
struct ScaleStrides {
    std::int64_t batch = 0, line = 0, k = 0;
};
ScaleStrides scale_strides(const Problem& problem, int tensor);

// The arguments of every kernel that takes scales: both addresses, then both strides; 0 if there are none.
std::vector<Argument> scale_arguments(const Problem& problem);

// Scales with which exact sums stay exact, and typical scales.
Fill exact_scales();
Fill usual_scales();

}  // namespace autotune::gemm
