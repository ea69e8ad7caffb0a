#pragma once

#include <cstdint>

#include "kernel_templates/gemm/family_parts.h"
#include "src/core/config.h"
#include "src/core/device.h"

// What gemm/dot's rules, cost model and launch plan share. The same formulas stand in kernel.cuh.
namespace autotune::dot {

inline constexpr std::int64_t kMostColumns = 144;  // of Y: rows of C or columns, whichever are fewer

// X, whose lines blocks share out, and Y, the operand with few; lines are rows of A or columns of B.
struct Streams {
    std::int64_t lines, columns, k, batch;
    bool swap_ab;               // X is B
    bool x_along_k, y_along_k;  // k is the contiguous direction
    bool reads_c;
    std::int64_t width, width_y;  // k of an access of X, and of one of Y

    Streams(const gemm::Gemm& g, bool swap);
    // X is the operand with more lines.
    explicit Streams(const gemm::Gemm& g) : Streams(g, g.m <= g.n) {}
};

struct Shape {
    std::int64_t swap_ab, threads, lanes, columns, unroll;

    explicit Shape(const Config& config);
    std::int64_t block_lines() const { return threads / lanes; }
    // What a round of loads holds, without sums and addresses.
    std::int64_t loaded_registers(const Streams& x) const;
};

// Predicted time in microseconds.
double predict(const Streams& x, const Shape& s, const Device& device);

}  // namespace autotune::dot
