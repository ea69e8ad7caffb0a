#pragma once

#include <algorithm>
#include <cstdint>

#include "kernel_templates/gemm/shared/streams.h"
#include "kernel_templates/parameter_table.h"
#include "src/core/problem/device.h"
#include "src/core/space/config.h"

// Shared by gemm/dot_windows' rules, cost model and launch plan. kernel.cuh has the same formulas.
namespace autotune::dot_windows {

inline constexpr std::int64_t kWindow = 8;  // elements of a load of 16 bytes

// The number of a window's elements that lie along K.
inline std::int64_t window_k(const gemm::Streams& x) {
    return x.x_along_k ? kWindow : 1;
}

// clang-format off
#define GEMM_DOT_WINDOWS_PARAMETERS(ROW) \
    ROW(swap_ab, 1, compile, "whose lines are shared out among blocks: 0: A's rows, 1: B's columns", 0, 1) \
    ROW(threads, 1, compile, "threads a block", 128, 256, 512, 1024) \
    ROW(lanes, 1, compile, "threads that share the K of a line", 8, 16, 32, 64, 128, 256, 512) \
    ROW(rows, 1, compile, "lines of a thread that share what it reads of the other operand", 1, 2, 4) \
    ROW(columns, 1, compile, "lines of the other operand a block", 1, 2, 4, 8) \
    ROW(unroll, 1, compile, "windows of a line that a thread has on their way at once", 1, 2, 4, 8) \
    ROW(cluster_k, 1, compile, "blocks of a cluster that share K", 1, 2, 4, 8)
// clang-format on

struct ResolvedConfig {
    AUTOTUNE_RESOLVED_CONFIG(GEMM_DOT_WINDOWS_PARAMETERS)

    // The number of groups of lanes. If k is contiguous in X, a block reads this many lines at once, otherwise this many windows
    // at one k.
    std::int64_t groups() const { return std::max<std::int64_t>(1, threads / lanes); }
    // Threads that share the K of a line, in all blocks of a cluster.
    std::int64_t all_lanes() const { return lanes * cluster_k; }
    // Lines of X whose elements of C one cluster stores, and the number of clusters for all lines.
    std::int64_t block_lines(const gemm::Streams& x) const;
    std::int64_t clusters(const gemm::Streams& x) const;
    // Registers for a round of windows, the elements of Y for them, and the sums.
    std::int64_t held_registers(const gemm::Streams& x) const;
    // Where sums meet.
    std::int64_t smem_bytes(const gemm::Streams& x) const;
};

// Predicted time in microseconds.
double predict(const gemm::Streams& x, const ResolvedConfig& s, const Device& device);

}  // namespace autotune::dot_windows
