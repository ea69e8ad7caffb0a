#include <algorithm>
#include <cmath>

#include "kernel_templates/gemm/gemm_problem.h"

namespace autotune::gemm {
namespace {

// Tensor cores may truncate when they add in f32 (2^-23, not 2^-24); in f16 they round.
double accumulator_roundoff(DType acc) {
    return acc == DType::f16 ? std::ldexp(1.0, -11) : std::ldexp(1.0, -23);
}

// Half the least subnormal: what rounding loses where relative errors mean nothing.
double underflow(DType type) {
    switch (type) {
        case DType::f16:
            return std::ldexp(1.0, -25);
        case DType::bf16:
            return std::ldexp(1.0, -134);
        default:
            return std::ldexp(1.0, -150);
    }
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
    result.floor = underflow(view.out) + (view.acc == DType::f16 ? 6 * steps * underflow(DType::f16) : 0);
    return result;
}

// Zero where the exact sum survives scaling; otherwise what alpha and beta cost in f32, and one rounding of the output.
Tolerance exact_tolerance(const View& view, const Problem& problem) {
    if (scales_exactly(problem.scalars[kAlpha].value) && scales_exactly(problem.scalars[kBeta].value)) return {};
    const double scaling = 8 * unit_roundoff(DType::f32);
    return {0, unit_roundoff(view.out) + scaling, scaling, underflow(view.out)};
}

// Norms of a few elements say little: one expected value near 0 would fail a right kernel.
constexpr std::int64_t kFewElements = 256;

double norm_ratio(const View& view) {
    if (view.m * view.n * view.batch < kFewElements) return 0;
    return 2 * (accumulator_roundoff(view.acc) * std::sqrt(static_cast<double>(view.k)) + unit_roundoff(view.out));
}

}  // namespace

Tolerance tolerance(const Problem& problem, TestKind kind) {
    const View view(problem);
    return kind == TestKind::exact ? exact_tolerance(view, problem) : numeric_tolerance(view);
}

Check make_check(const Problem& problem, TestKind kind) {
    const View view(problem);
    const Fill::Kind values = kind == TestKind::exact ? Fill::Kind::integers : Fill::Kind::normal;
    const std::int64_t terms = most_terms(view.acc);
    const std::int64_t every = kind == TestKind::exact ? (view.k + terms - 1) / terms : 1;
    Check check;
    check.operand = kC;
    // With beta 0, C must not be read: NaN in it would show.
    check.fills = {{values, every}, {values, 1}, {view.reads_c ? values : Fill::Kind::nan, 1}};
    check.max_norm_ratio = kind == TestKind::numeric ? norm_ratio(view) : 0;
    return check;
}

}  // namespace autotune::gemm
