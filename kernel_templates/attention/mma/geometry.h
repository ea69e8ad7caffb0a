#pragma once

#include <cstdint>

#include "kernel_templates/attention/attention_problem.h"
#include "src/core/config.h"
#include "src/core/device.h"

// What attention/mma's rules, cost model and launch plan share: the sizes that follow from a problem and a config. The same
// formulas stand in kernel.cuh.
namespace autotune::attention_mma {

struct Geometry {
    Geometry(const Config& config, const attention::View& view);

    std::int64_t block_q, block_k, warps, stages, q_in_registers, smem_swizzle, masking, resident_blocks;
    std::int64_t d, dv;
    bool is_tf32;  // operands are f32

    std::int64_t threads() const { return 32 * warps; }
    std::int64_t bands() const { return block_q / (16 * warps); }  // of 16 rows, of a warp
    // Of a row of d or dv elements in shared memory.
    std::int64_t row_bytes(std::int64_t columns) const;
    std::int64_t smem_bytes() const;
    // Registers of a thread, about: sums, scores, queries, and what else there is.
    std::int64_t registers() const;
    // Blocks that an SM has room for.
    std::int64_t blocks_per_sm(const Device& device) const;
};

// Microseconds, for ranking.
double predict_us(const attention::View& view, const Config& config, const Device& device);

}  // namespace autotune::attention_mma
