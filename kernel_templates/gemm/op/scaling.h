#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "src/core/family/launch_plan.h"
#include "src/core/op/fill.h"
#include "src/core/problem/dtype.h"
#include "src/core/problem/problem.h"

// What products of fp8 have beside A, B and C: where sums are added, and scales of the operands, which are tensors on the device.
namespace autotune::gemm {

// Tensor indices of the scales, where a problem has any.
inline constexpr int kScaleA = 3, kScaleB = 4;

// Sums in the tensor cores alone, which on sm_90 and sm_89 keep about 13 fraction bits of them.
inline constexpr const char* kFast = "f32fast";

// What has a scale of its own. The numbers are those of scale_mode in device text.
enum class Scaling : std::uint8_t {
    none,
    tensor,  // A, B
    row,     // each row of A, each column of B
    block,   // 128 k of each row of A, 128 k of 128 columns of B
};
inline constexpr std::int64_t kScaleBlock = 128;
// The words of attribute "scale", by number.
inline constexpr std::array<const char*, 4> kScalings = {"none", "tensor", "row", "block"};

bool is_fp8(DType type);
// Of a problem of gemm: none, and false, where it is not of fp8.
Scaling scaling_of(const Problem& problem);
bool is_fast(const Problem& problem);
// Whether products of 128 k each are added outside of the tensor cores.
bool promotes(const Problem& problem);

// The scales' tensors of a problem of m x n x k: dense, and of blocks with A's rows contiguous in runs of a multiple of four (16
// bytes).
std::vector<Tensor> scale_tensors(Scaling scaling, const std::vector<Extent>& extents);
// `dims` of an extent of a scale tensor: what they must be, for messages: "batch, m, k/128".
std::string scale_form(Scaling scaling, int tensor);

// Elements between the scales of two batches, of two lines (rows of A, columns of B or blocks of those), of two runs of 128 k.
struct ScaleStrides {
    std::int64_t batch = 0, line = 0, k = 0;
};
ScaleStrides scale_strides(const Problem& problem, int tensor);

// The arguments of every kernel that takes scales: both addresses, then both strides. 0 where there are none.
std::vector<Argument> scale_arguments(const Problem& problem);

// The scales under which exact sums stay exact, and scales as users have them.
Fill exact_scales();
Fill usual_scales();

}  // namespace autotune::gemm
