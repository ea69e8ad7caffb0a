#include "kernel_templates/gemm/shared/f32_operands.h"

#include <algorithm>

#include "kernel_templates/gemm/op/gemm_problem.h"
#include "src/core/integer_math.h"

namespace autotune::gemm {

using std::int64_t;

F32Operand::F32Operand(const Problem& problem, int index, bool transposed)
    : tensor(index),
      stored(matrix_view(problem.tensors[static_cast<std::size_t>(index)])),
      transposes(transposed),
      is_copied(transposed || stored.alignment_bytes < kChunkBytes) {}

TensorMapArg F32Operand::map(std::array<int64_t, 2> box) const {
    TensorMapArg map;
    map.tensor = is_copied ? -1 : tensor;
    map.workspace_offset_bytes = at;
    map.workspace_type = DType::f32;
    map.rank = 3;
    map.dims = {static_cast<std::uint64_t>(cols()), static_cast<std::uint64_t>(rows()), static_cast<std::uint64_t>(stored.batch),
                0, 0};
    map.strides_bytes = {static_cast<std::uint64_t>(ld() * 4), static_cast<std::uint64_t>(batch_stride() * 4), 0, 0};
    map.box = {narrow<std::uint32_t>(box[0]), narrow<std::uint32_t>(box[1]), 1, 0, 0};
    map.tma_swizzle_bytes = 128;
    return map;
}

LaunchStep F32Operand::copy_step() const {
    const int64_t squares = ceil_div(stored.rows, 32) * ceil_div(stored.cols, 32) * stored.batch;
    LaunchStep step;
    step.entry = "_arrange";
    step.grid = one_dimension(std::clamp<int64_t>(squares, 1, 65535));
    step.block = {256, 1, 1};
    step.arguments = {TensorArg{tensor},      WorkspaceArg{at}, i32(stored.rows),  i32(stored.cols),
                      I64Arg{stored.ld},      I64Arg{ld()},     i32(stored.batch), I64Arg{stored.batch_stride},
                      i32(transposes ? 1 : 0)};
    return step;
}

}  // namespace autotune::gemm
