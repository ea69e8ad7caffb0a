#include <algorithm>
#include <cmath>

#include "kernel_templates/gemm/gemm_problem.h"

namespace autotune::gemm {
namespace {

// Tensor cores may truncate when they add in f32 (2^-23, not 2^-24); in f16 they round.
double accumulator_roundoff(DType acc) {
    return acc == DType::f16 ? std::ldexp(1.0, -11) : std::ldexp(1.0, -23);
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

Tolerance numeric_tolerance(const View& view) {
    const double steps = std::sqrt(static_cast<double>(view.k));
    const double out = unit_roundoff(view.out);
    Tolerance result;
    result.norm = 6 * accumulator_roundoff(view.acc) * steps;
    result.value = out;
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

double norm_ratio(const View& view) {
    if (view.m * view.n * view.batch < kFewElements) return 0;
    return 2 * (accumulator_roundoff(view.acc) * std::sqrt(static_cast<double>(view.k)) + unit_roundoff(view.out));
}

}  // namespace

Tolerance tolerance(const Problem& problem, const OpTest& test) {
    const View view(problem);
    return test.name == kExact ? exact_tolerance(view, problem) : numeric_tolerance(view);
}

// With beta 0, C must not be read: NaN in it would show.
std::vector<OpTest> tests(const Problem& problem) {
    const View view(problem);
    const std::int64_t terms = most_terms(view.acc);
    OpTest exact{.name = std::string(kExact), .fills = {}, .outputs = {{.tensor = kC}}};
    exact.fills = {Fill::integers(-2, 2, (view.k + terms - 1) / terms), Fill::integers(),
                   view.reads_c ? Fill::integers() : Fill::nan()};
    exact.product = product_form(problem);
    OpTest numeric{.name = std::string(kNumeric), .fills = {}, .outputs = {{kC, norm_ratio(view)}}, .is_typical = true};
    numeric.fills = {Fill::normal(), Fill::normal(), view.reads_c ? Fill::normal() : Fill::nan()};
    return {std::move(exact), std::move(numeric)};
}

}  // namespace autotune::gemm
