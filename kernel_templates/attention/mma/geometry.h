#pragma once

#include <cstdint>

#include "kernel_templates/attention/op/attention_problem.h"
#include "kernel_templates/parameter_table.h"
#include "src/core/problem/device.h"
#include "src/core/space/config.h"

// Sizes derived from a problem and a config, shared by attention/mma's rules, cost model and launch plan. kernel.cuh has the same
// formulas.
namespace autotune::attention_mma {

// clang-format off
#define ATTENTION_MMA_PARAMETERS(ROW) \
    ROW(block_q, 1, compile, "queries of a block", 16, 32, 64, 128, 192, 256) \
    ROW(block_k, 1, compile, "keys of a tile", 16, 32, 48, 64, 80, 96, 112, 128) \
    ROW(warps, 1, compile, "warps of a block, each with whole rows", 1, 2, 4, 8) \
    ROW(stages, 1, compile, "tiles of keys and values in shared memory; 1: values come in while scores are computed", 1, 2, 3) \
    ROW(q_in_registers, 1, compile, "1: queries stay in registers", 0, 1) \
    ROW(smem_swizzle, 1, compile, "1: chunks of a row are permuted by XOR; 0: rows are padded", 0, 1) \
    ROW(masking, 1, compile, \
        "0: every tile is computed and masked; 1: unseen ones are skipped; 2: only partial ones are masked", 0, 1, 2) \
    ROW(lazy_rescale, 1, compile, "1: sums keep an old peak until it is 2^8 too small", 0, 1) \
    ROW(resident_blocks, 1, compile, "blocks of an SM that registers are shared out for", 1, 2, 3, 4) \
    ROW(order, 0, launch, \
        "0 heads one by one; 1 each from its last queries; 2 the last queries of all heads first; 3 of some heads", 0, 1, 2, 3)
// clang-format on

struct ResolvedConfig {
    AUTOTUNE_RESOLVED_CONFIG(ATTENTION_MMA_PARAMETERS)
};

// The config with the values that the problem adds.
struct Geometry : ResolvedConfig {
    Geometry(const Config& config, const attention::View& view);

    std::int64_t d, dv;
    bool is_tf32;  // operands are f32

    std::int64_t threads() const { return 32 * warps; }
    std::int64_t bands() const { return block_q / (16 * warps); }  // the bands of 16 rows for each warp
    // Bytes of a row of d or dv elements in shared memory.
    std::int64_t row_bytes(std::int64_t columns) const;
    std::int64_t smem_bytes() const;
    // Approximate registers per thread: sums, scores, queries, and the rest.
    std::int64_t registers() const;
    // Blocks that fit on an SM.
    std::int64_t blocks_per_sm(const Device& device) const;
};

// Microseconds, for ranking.
double predict_us(const attention::View& view, const Config& config, const Device& device);

}  // namespace autotune::attention_mma
