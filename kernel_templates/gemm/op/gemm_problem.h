#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernel_templates/gemm/op/types.h"
#include "src/core/family/family.h"
#include "src/core/family/launch_plan.h"
#include "src/core/op/op.h"
#include "src/core/problem/problem.h"

namespace autotune::gemm {

// Tensor and scalar indices of every gemm problem.
enum TensorIndex : int { kA = 0, kB = 1, kC = 2 };
enum ScalarIndex : int { kAlpha = 0, kBeta = 1 };

// The properties of a gemm problem by name: C[m,n] = alpha * op(A)[m,k] * op(B)[k,n] + beta * C[m,n], `batch` times.
struct View {
    explicit View(const Problem& problem);

    std::int64_t m, n, k, batch;
    DType in, out, acc;
    bool fast;              // sums of fp8 products stay in the tensor cores
    bool trans_a, trans_b;  // stored [k,m], stored [n,k]
    bool reads_c;           // beta may be other than 0
    TypedMatrix a, b, c;
};

// A, B and C as stored.
std::array<TypedMatrix, 3> matrices(const Problem& problem);

// The facts that every gemm family binds: in_type, out_type, acc_type, trans_a, trans_b, align_a, align_b, align_c (bytes),
// reads_c.
std::vector<Binding> facts(const Problem& problem);

// The arguments that every gemm kernel takes first, in this order: a, b, c, alpha, beta, m, n, k, lda, ldb, ldc, batch, stride_a,
// stride_b, stride_c, workspace. Families append their own.
std::vector<Argument> arguments(const Problem& problem);

// Elements of `matrix` that one access of at most `vec` elements can move: min(vec, alignment).
std::int64_t access_width(const TypedMatrix& matrix, std::int64_t vec);

// Describes a gemm. Words and tensor descriptions are both converted to it. Matrices are row-major as they are stored.
struct Spec {
    struct Stored {
        std::optional<std::int64_t> ld;      // none: dense
        std::optional<std::int64_t> stride;  // distance between batches; none: dense; 0: an operand is one matrix for all batches
        int alignment_bytes = 16;            // the base address is a multiple of this
    };

    std::int64_t m = 0, n = 0, k = 0, batch = 1;
    Types types;
    bool trans_a = false, trans_b = false;
    bool reads_c = false;
    float alpha = 1, beta = 0;
    std::array<Stored, 3> stored;  // a, b, c
    std::vector<Tensor> scales;    // scales of A and B for fp8; if empty, those of scale_tensors()
    // Bytes that divide the addresses of scales and of the epilogue's tensors, if more than their element size
    int vector_alignment = 0;
};

// Throws Error{usage} for an extent that no product has.
void check_extent(const char* name, std::int64_t value);

// These three functions throw Error{usage}. Requests and descriptions are made into a Spec first, and the Spec is checked.
Problem make_problem(const Spec& spec);
Problem parse(const Op& op, const ProblemRequest& request);
DescribedProblem described(const Op& op, const ProblemDescription& description);

// The bound of one element is norm * |alpha| * R + value * |expected| + input * |beta * c| + floor, with R the root of the sum of
// squared products (docs/measuring.md).
struct Tolerance {
    double norm = 0;
    double value = 0;
    double input = 0;
    double floor = 0;
    double partial = 0;  // a factor of the largest partial sum, for what a chain of truncated additions loses
    // before C is scaled, amax may differ by this share of the largest value in addition to the largest bound
    double of_amax = 0;
};
Tolerance tolerance(const Problem& problem, const OpTest& test);

// The names of every gemm's two tests: integers whose sums are exact, and typical numbers. Products that keep all bits of f32
// operands have two more exact tests, with integers in A or in B that need more bits than tf32 has.
inline constexpr std::string_view kExact = "exact", kNumeric = "numeric", kWideA = "wide_a", kWideB = "wide_b";
// Promoted sums of fp8 have one more test: sums that the tensor cores cannot represent.
inline constexpr std::string_view kPromotion = "promotion";
// Whether products keep all bits of f32 operands.
bool is_f32_accurate(const Problem& problem);
std::vector<OpTest> tests(const Problem& problem);

// Subproblems: bands of rows and columns of C (Op::subproblems). product_form: the whole as a product of integers.
std::vector<Subproblem> subproblems(const Problem& problem, std::uint64_t seed);
std::optional<ProductForm> product_form(const Problem& problem);

std::vector<Problem> edge_case_problems(const Op& op, const Problem& problem, const Config& config);

}  // namespace autotune::gemm
