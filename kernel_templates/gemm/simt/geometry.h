#pragma once

#include <cstdint>

#include "kernel_templates/gemm/op/gemm_problem.h"
#include "kernel_templates/parameter_table.h"
#include "src/core/problem/device.h"
#include "src/core/space/config.h"

// The resources of an SM that a resolved config of gemm/simt needs, for its rules and its cost model.
namespace autotune::simt {

// clang-format off
#define GEMM_SIMT_PARAMETERS(ROW) \
    ROW(smem, 1, compile, "tiles go through shared memory", 0, 1) \
    ROW(block_m, 1, compile, "rows of C a block", 8, 16, 32, 64, 128, 256) \
    ROW(block_n, 1, compile, "columns of C a block", 16, 32, 64, 128, 256) \
    ROW(thread_m, 1, compile, "rows of C a thread", 1, 4, 8, 16) \
    ROW(thread_n, 1, compile, "columns of C a thread", 1, 4, 8) \
    ROW(block_k, 1, compile, "depth of a tile", 8, 16, 32) \
    ROW(vec, 1, compile, "neighbouring elements that a thread copies together", 1, 2, 4, 8) \
    ROW(packed, 1, compile, "1: they move in one access, as far as alignment allows; 0: in pairs", 0, 1) \
    ROW(bcf, 1, compile, "1: threads take lines and elements of a tile so that banks do not conflict", 0, 1) \
    ROW(smem_pad, 1, compile, "unused elements after each row of a tile, against bank conflicts", 0, 8) \
    ROW(stages, 1, compile, "buffers for tiles in shared memory", 1, 2) \
    ROW(cp_async, 1, compile, "1: operands with contiguous rows or columns are copied by cp.async; 0: through registers", 0, 1) \
    ROW(min_blocks, 1, compile, "blocks that must fit an SM, which bounds registers", 1, 2)
// clang-format on

struct ResolvedConfig {
    AUTOTUNE_RESOLVED_CONFIG(GEMM_SIMT_PARAMETERS)

    std::int64_t threads() const { return block_m / thread_m * (block_n / thread_n); }
};

// Static shared memory of the tiles, for elements of this size.
std::int64_t smem_bytes(const ResolvedConfig& s, std::int64_t element_bytes);
// Registers for a thread's sums. Two neighbouring f16 sums share one.
std::int64_t sum_registers(const ResolvedConfig& s, bool is_f16);
// The registers that a thread needs in order not to spill.
std::int64_t registers_needed(const ResolvedConfig& s, bool is_f16);

// Predicted microseconds of a launch: for ranking, not for reporting.
double predict_us(const gemm::View& view, const ResolvedConfig& s, const Device& device);

}  // namespace autotune::simt
