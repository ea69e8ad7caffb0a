#include <algorithm>
#include <cmath>

#include "kernel_templates/gemm/gemm_problem.h"

namespace autotune::gemm {
namespace {

// Tensor cores may truncate when they add in f32 (2^-23, not 2^-24); in f16 they round. Sums of f32 operands are rounded: by
// CUDA cores, and by tf32x3, which leaves no long sum to the tensor cores.
double accumulator_roundoff(const Problem& problem) {
    if (problem.word("acc") == "f16") return std::ldexp(1.0, -11);
    return is_f32_accurate(problem) ? std::ldexp(1.0, -24) : std::ldexp(1.0, -23);
}

// What the multiplier loses of a product of two operands. tf32 cuts each off behind 10 bits; tf32x3 keeps 21 bits of each, and
// leaves out the product of what lies below the first 10.
double input_roundoff(const Problem& problem) {
    const std::string& compute = problem.word("compute");
    if (compute == kTf32) return std::ldexp(1.0, -10);
    return compute == kTf32x3 ? std::ldexp(1.0, -21) : 0;
}

// Whether scaling integers below 2^21 by `value` is exact in f32.
bool scales_exactly(double value) {
    return std::fabs(value) <= 2 && value * 8 == std::nearbyint(value * 8);
}

// Non-zero k per row of A that keep every partial sum of products of {-2..2} exact: 4 * 512 = 2^11 in f16, 4 * 2^18 = 2^20 in
// f32.
std::int64_t most_terms(DType acc) {
    return acc == DType::f16 ? 512 : std::int64_t{1} << 18;
}

Tolerance numeric_tolerance(const View& view, const Problem& problem) {
    const double steps = std::sqrt(static_cast<double>(view.k));
    const double in = input_roundoff(problem);
    const double out = unit_roundoff(view.out);
    Tolerance result;
    result.norm = 6 * (accumulator_roundoff(problem) * steps + in);
    result.value = in + out;
    result.input = 2 * out;
    result.floor = underflow_roundoff(view.out) + (view.acc == DType::f16 ? 6 * steps * underflow_roundoff(DType::f16) : 0);
    return result;
}

// Zero where the exact sum survives scaling; otherwise what alpha and beta cost in f32, and one rounding of the output.
Tolerance exact_tolerance(const View& view, const Problem& problem) {
    if (scales_exactly(problem.scalars[kAlpha].number()) && scales_exactly(problem.scalars[kBeta].number())) return {};
    const double scaling = 8 * unit_roundoff(DType::f32);
    return {0, unit_roundoff(view.out) + scaling, scaling, underflow_roundoff(view.out)};
}

// Norms of a few elements say little: one expected value near 0 would fail a right kernel.
constexpr std::int64_t kFewElements = 256;

double norm_ratio(const View& view, const Problem& problem) {
    if (view.m * view.n * view.batch < kFewElements) return 0;
    return 2 * (accumulator_roundoff(problem) * std::sqrt(static_cast<double>(view.k)) + input_roundoff(problem) +
                unit_roundoff(view.out));
}

// Integers of 14 bits, which tf32 cannot hold, times {-2..2}: all 24 bits of an operand must count. 64 of them in a row or column
// keep sums below 2^20.
constexpr std::int64_t kWide = 8191, kWideTerms = 64;

OpTest wide_test(const View& view, int wide) {
    OpTest test{.name = std::string(wide == kA ? kWideA : kWideB), .fills = {}, .outputs = {{.tensor = kC}}};
    test.fills = {Fill::integers(), Fill::integers(), view.reads_c ? Fill::integers() : Fill::nan()};
    test.fills[static_cast<std::size_t>(wide)] = Fill::integers(-kWide, kWide, (view.k + kWideTerms - 1) / kWideTerms);
    return test;
}

}  // namespace

bool is_f32_accurate(const Problem& problem) {
    const std::string& compute = problem.word("compute");
    return compute == to_string(DType::f32) || compute == kTf32x3;
}

Tolerance tolerance(const Problem& problem, const OpTest& test) {
    const View view(problem);
    return test.name == kNumeric ? numeric_tolerance(view, problem) : exact_tolerance(view, problem);
}

// With beta 0, C must not be read: NaN in it would show.
std::vector<OpTest> tests(const Problem& problem) {
    const View view(problem);
    const std::int64_t terms = most_terms(view.acc);
    OpTest exact{.name = std::string(kExact), .fills = {}, .outputs = {{.tensor = kC}}};
    exact.fills = {Fill::integers(-2, 2, (view.k + terms - 1) / terms), Fill::integers(),
                   view.reads_c ? Fill::integers() : Fill::nan()};
    exact.product = product_form(problem);
    OpTest numeric{.name = std::string(kNumeric), .fills = {}, .outputs = {{kC, norm_ratio(view, problem)}}, .is_typical = true};
    numeric.fills = {Fill::normal(), Fill::normal(), view.reads_c ? Fill::normal() : Fill::nan()};
    if (is_f32_accurate(problem)) return {std::move(exact), wide_test(view, kA), wide_test(view, kB), std::move(numeric)};
    return {std::move(exact), std::move(numeric)};
}

}  // namespace autotune::gemm
