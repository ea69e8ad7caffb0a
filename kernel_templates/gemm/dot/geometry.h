#pragma once

#include <algorithm>
#include <cstdint>

#include "kernel_templates/gemm/shared/streams.h"
#include "kernel_templates/parameter_table.h"
#include "src/core/problem/device.h"
#include "src/core/space/config.h"

// Shared by gemm/dot's rules, cost model and launch plan. kernel.cuh has the same formulas.
namespace autotune::dot {

// Lines of X, which are distributed among blocks.
struct Streams : gemm::Streams {
    using gemm::Streams::Streams;

    // k per access, of X and of Y
    std::int64_t width() const { return x_along_k ? align_x / gemm::kElementBytes : 1; }
    std::int64_t width_y() const { return y_along_k ? std::min(width(), align_y / gemm::kElementBytes) : 1; }
};

// clang-format off
#define GEMM_DOT_PARAMETERS(ROW) \
    ROW(swap_ab, 1, compile, "whose lines are shared out among blocks: 0: A's rows, 1: B's columns", 0, 1) \
    ROW(threads, 1, compile, "threads a block", 64, 128, 256, 512, 1024) \
    ROW(lanes, 1, compile, "threads that share the K of a line", 2, 4, 8, 16, 32, 64, 128, 256) \
    ROW(columns, 1, compile, "lines of the other operand a block", 1, 2, 4, 8, 16) \
    ROW(unroll, 1, compile, "accesses that a thread has on their way at once", 1, 2, 4, 8, 16, 32)
// clang-format on

struct ResolvedConfig {
    AUTOTUNE_RESOLVED_CONFIG(GEMM_DOT_PARAMETERS)

    std::int64_t block_lines() const { return threads / lanes; }
    // Registers for a round of loads, without sums and addresses.
    std::int64_t loaded_registers(const Streams& x) const;
};

// Predicted time in microseconds.
double predict(const Streams& x, const ResolvedConfig& s, const Device& device);

}  // namespace autotune::dot
