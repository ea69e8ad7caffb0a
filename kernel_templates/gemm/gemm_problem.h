#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/core/family.h"
#include "src/core/launch_plan.h"
#include "src/core/op.h"
#include "src/core/problem.h"

namespace autotune::gemm {

// Operand and scalar indices of every gemm problem.
enum OperandIndex : int { kA = 0, kB = 1, kC = 2 };
enum ScalarIndex : int { kAlpha = 0, kBeta = 1 };

// C[m,n] = alpha * op(A)[m,k] * op(B)[k,n] + beta * C[m,n], `batch` times: a gemm problem's facts under names.
struct View {
    explicit View(const Problem& problem);

    std::int64_t m, n, k, batch;
    DType in, out, acc;
    bool trans_a, trans_b;  // stored [k,m], stored [n,k]
    bool reads_c;           // beta may be other than 0
    const Operand& a;
    const Operand& b;
    const Operand& c;
};

// The facts that every gemm family binds: in_type, out_type, acc_type, trans_a, trans_b, align_a, align_b, align_c (bytes),
// reads_c.
std::vector<Binding> facts(const Problem& problem);

// The arguments that every gemm kernel takes first, in this order: a, b, c, alpha, beta, m, n, k, lda, ldb, ldc, batch, stride_a,
// stride_b, stride_c, workspace. Families append their own.
std::vector<Argument> arguments(const Problem& problem);

// Elements of `operand` that one access of at most `vec` elements may take: min(vec, alignment).
std::int64_t access_width(const Operand& operand, std::int64_t vec);

// Parses `request`. Throws Error{usage}.
Problem make_problem(const Op& op, const ProblemRequest& request);

// DESIGN section 7. The bound of one element is norm * |alpha| * R + value * |expected| + input * |beta * c| + floor, with R the
// root of the sum of squared products.
struct Tolerance {
    double norm = 0;
    double value = 0;
    double input = 0;
    double floor = 0;
};
Tolerance tolerance(const Problem& problem, TestKind kind);
Check make_check(const Problem& problem, TestKind kind);

// Bands of rows and columns of C (Op::excerpts), and the whole as a product of integers (Op::product_form).
std::vector<Excerpt> excerpts(const Problem& problem, std::uint64_t seed);
std::optional<ProductForm> product_form(const Problem& problem);

std::vector<Problem> awkward_neighbours(const Op& op, const Problem& problem, const Config& config);

}  // namespace autotune::gemm
