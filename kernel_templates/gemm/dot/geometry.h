#pragma once

#include <algorithm>
#include <cstdint>

#include "kernel_templates/gemm/streams.h"
#include "src/core/config.h"
#include "src/core/device.h"

// Shared by gemm/dot's rules, cost model and launch plan. The same formulas stand in kernel.cuh.
namespace autotune::dot {

// The lines of X are shared out among blocks.
struct Streams : gemm::Streams {
    using gemm::Streams::Streams;

    // k of an access of X, and of one of Y.
    std::int64_t width() const { return x_along_k ? align_x / gemm::kElementBytes : 1; }
    std::int64_t width_y() const { return y_along_k ? std::min(width(), align_y / gemm::kElementBytes) : 1; }
};

struct Shape {
    std::int64_t swap_ab, threads, lanes, columns, unroll;

    explicit Shape(const Config& config);
    std::int64_t block_lines() const { return threads / lanes; }
    // Those of a round of loads, without sums and addresses.
    std::int64_t loaded_registers(const Streams& x) const;
};

inline Shape shape_of(const Config& config) {
    return Shape(config);
}

// Predicted time in microseconds.
double predict(const Streams& x, const Shape& s, const Device& device);

}  // namespace autotune::dot
