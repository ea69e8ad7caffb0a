#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernel_templates/gemm/shared/family_parts.h"
#include "src/core/family/launch_plan.h"

// The f32 operands of families that feed wgmma by TMA: as they are stored, or copied to the workspace by the template's entry
// _arrange (arrange.cuh).
namespace autotune::gemm {

struct F32Operand {
    int tensor;
    TypedMatrix stored;
    bool transposes, is_copied;  // is_copied: the kernel needs another layout or alignment
    std::size_t at = 0;          // the offset of the copy in the workspace

    F32Operand(const Problem& problem, int index, bool transposed);

    std::int64_t rows() const { return transposes ? stored.cols : stored.rows; }
    std::int64_t cols() const { return transposes ? stored.rows : stored.cols; }
    std::int64_t ld() const { return is_copied ? round_up(cols(), 4) : stored.ld; }
    std::int64_t batch_stride() const { return is_copied || stored.batch == 1 ? rows() * ld() : stored.batch_stride; }
    std::int64_t bytes() const { return is_copied ? rows() * ld() * stored.batch * 4 : 0; }

    // The operand's tensor map, with boxes of box[0] neighbouring elements by box[1] rows.
    TensorMapArg map(std::array<std::int64_t, 2> box) const;
    LaunchStep copy_step() const;
};

}  // namespace autotune::gemm
