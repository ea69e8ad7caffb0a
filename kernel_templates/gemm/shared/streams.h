#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernel_templates/gemm/shared/family_parts.h"

// Products of few rows or few columns, for families that divide the lines of the larger operand. X: that operand; Y: the one with
// few lines.
namespace autotune::gemm {

// A line is a row of A or a column of B.
struct Streams {
    std::int64_t lines, columns, k, batch;  // lines of X, of Y
    bool swap_ab;                           // X is B
    bool x_along_k, y_along_k;              // k is the contiguous direction
    int align_x, align_y;
    bool reads_c;

    Streams(const Gemm& g, bool swap);
    // X is the operand with more lines.
    explicit Streams(const Gemm& g) : Streams(g, g.m <= g.n) {}
};

// Why a problem is not a product of few lines with sums in f32.
std::optional<std::string> refuses_streams(const Problem& problem);
// The facts in_type, out_type, trans_a, trans_b, align_a and align_b (bytes).
std::vector<Binding> stream_facts(const Problem& problem);

}  // namespace autotune::gemm
