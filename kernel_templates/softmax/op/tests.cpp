// The tests of softmax, and the errors that they allow.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernel_templates/softmax/op/softmax_problem.h"

namespace autotune::softmax {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

OpTest test_of(const Problem& problem, std::string name, Fill x) {
    OpTest test;
    test.name = std::move(name);
    test.fills = {x, Fill::nan(), Fill::nan()};
    test.outputs = {{.tensor = kY}};
    if (View(problem).has_lse) test.outputs.push_back({.tensor = kLse});
    return test;
}

// Tests whose y has only one right value, bit for bit: a power of two, 1, 0 or NaN.
bool is_exact(const View& view, const OpTest& test) {
    if (test.name == "constant") return std::has_single_bit(static_cast<std::uint64_t>(view.cols));
    return test.name == "one_hot" || test.name == "masked" || test.name == "infinite" || test.name == "not_a_number";
}

// The relative error of a sum of `count` positive terms in f32, with a few roundings each. Rounding errors of random sign grow
// with the square root; no correct order of additions reaches six times that.
double sum_error(std::int64_t count) {
    const auto terms = static_cast<double>(count);
    constexpr double kTerm = 20;  // for the exponential, its argument, the reciprocal and the products
    return unit_roundoff(DType::f32) * (kTerm + 4 * std::log2(terms) + 6 * std::sqrt(terms));
}

}  // namespace

std::vector<OpTest> tests(const Problem& problem) {
    const View view(problem);
    const float masked = view.scale < 0 ? kInfinity : -kInfinity;
    std::vector<OpTest> all = {
        test_of(problem, "constant", Fill::constant(1.5F)),
        test_of(problem, "one_hot", Fill::one_hot(3, masked)),
        test_of(problem, "masked", Fill::constant(masked)),
        test_of(problem, "infinite", Fill::one_hot(-masked, 1)),
        test_of(problem, "not_a_number", Fill::one_hot(std::numeric_limits<float>::quiet_NaN(), 1)),
        test_of(problem, "wide", Fill::normal(0, 30)),  // peaks far apart: running sums are rescaled, and most weights vanish
        test_of(problem, "numeric", Fill::normal()),
    };
    all.back().is_typical = true;
    constexpr std::int64_t kEnough = 256;  // with fewer elements, one element near zero would make a right kernel fail
    // Results of long rows are subnormal in f16. The rounding error of each is then compared with their mean, 1 / cols.
    const double underflow = underflow_roundoff(view.type) * static_cast<double>(view.cols);
    if (view.rows * view.cols >= kEnough)
        all.back().outputs.front().max_norm_ratio = 2 * (unit_roundoff(view.type) + sum_error(view.cols)) + underflow;
    return all;
}

Bounds bounds_of(const View& view, const OpTest& test) {
    const double in_sum = sum_error(view.cols);
    if (is_exact(view, test)) return {.lse = test.name == "one_hot" ? 0 : in_sum};
    // The argument of the exponential is rounded three times, and its size multiplies the error in the result. Weights below the
    // least normal f32 become 0.
    return {.relative = unit_roundoff(view.type) + in_sum,
            .per_exponent = 4 * unit_roundoff(DType::f32),
            .least = underflow_roundoff(view.type) + std::ldexp(1.0, -126),
            .lse = in_sum};
}

void reference_row(std::span<const double> x, double scale, const Bounds& bounds, Expected& y, Expected& lse) {
    constexpr double kNone = -std::numeric_limits<double>::infinity();
    double peak = kNone;
    for (const double value : x) peak = peak < scale * value ? scale * value : peak;
    const double origin = peak == kNone ? 0 : peak;
    double sum = 0;
    for (const double value : x) sum += std::exp(scale * value - origin);
    for (const double value : x) {
        const double exponent = scale * value - origin;
        const double weight = sum == 0 ? 0 : std::exp(exponent) / sum;
        y.values.push_back(weight);
        y.bounds.push_back(weight == 0 ? bounds.least
                                       : weight * (bounds.relative + bounds.per_exponent * std::fabs(exponent)) + bounds.least);
    }
    lse.values.push_back(sum == 0 ? kNone : origin + std::log(sum));
    lse.bounds.push_back(bounds.lse * (1 + (sum == 0 ? 0 : std::fabs(origin))));
}

}  // namespace autotune::softmax
