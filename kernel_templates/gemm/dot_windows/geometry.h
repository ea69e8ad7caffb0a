#pragma once

#include <algorithm>
#include <cstdint>

#include "kernel_templates/gemm/streams.h"
#include "src/core/config.h"
#include "src/core/device.h"

// Shared by gemm/dot_windows' rules, cost model and launch plan. The same formulas stand in kernel.cuh.
namespace autotune::dot_windows {

inline constexpr std::int64_t kWindow = 8;  // elements of a load of 16 bytes

// Of them, those that lie along K.
inline std::int64_t window_k(const gemm::Streams& x) {
    return x.x_along_k ? kWindow : 1;
}

struct Shape {
    std::int64_t swap_ab, threads, lanes, rows, columns, unroll, cluster_k;

    explicit Shape(const Config& config);
    // Of lanes: lines that a block reads at once where k is contiguous in X, else its windows at one k.
    std::int64_t groups() const { return std::max<std::int64_t>(1, threads / lanes); }
    // Threads that share the K of a line, in all blocks of a cluster.
    std::int64_t all_lanes() const { return lanes * cluster_k; }
    // Lines of X whose elements of C a cluster stores, and clusters for all of them.
    std::int64_t block_lines(const gemm::Streams& x) const;
    std::int64_t clusters(const gemm::Streams& x) const;
    // Registers of a round of windows with what they meet of Y, and of sums.
    std::int64_t held_registers(const gemm::Streams& x) const;
    // Where sums meet.
    std::int64_t smem_bytes(const gemm::Streams& x) const;
};

inline Shape shape_of(const Config& config) {
    return Shape(config);
}

// Predicted time in microseconds.
double predict(const gemm::Streams& x, const Shape& s, const Device& device);

}  // namespace autotune::dot_windows
