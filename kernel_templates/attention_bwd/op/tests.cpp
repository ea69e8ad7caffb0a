// The test inputs of attention's gradients, and the largest errors allowed.
#include <cmath>
#include <limits>

#include "kernel_templates/attention_bwd/op/bwd_problem.h"

namespace autotune::attention_bwd {
namespace {

constexpr double kUnit = 1.0 / (1 << 24);  // unit roundoff of f32

struct Inputs {
    Fill q, k, v, o, lse, gradient;
};

OpTest test_of(std::string name, const Inputs& in) {
    OpTest test;
    test.name = std::move(name);
    test.fills = {in.q, in.k, in.v, in.o, in.lse, in.gradient, Fill::nan(), Fill::nan(), Fill::nan()};
    test.outputs = {{.tensor = kDq}, {.tensor = kDk}, {.tensor = kDv}};
    return test;
}

// Whether every weight is 1 and every sum has only small integers.
bool is_exact(const OpTest& test) {
    return test.name == "zero_queries" || test.name == "zero_keys" || test.name == "masked";
}

double weight_error(const View& view) {
    if (view.is_tf32) return std::ldexp(1.0, -10);
    return view.type == DType::f32 ? 8 * kUnit : unit_roundoff(view.type);
}

double sum_error(const View& view) {
    const auto count = static_cast<double>(std::max(view.kv_len, view.q_len * view.group()));
    const bool is_strict = view.type == DType::f32 && !view.is_tf32;
    const double random = 24 + 4 * std::log2(count) + 6 * std::sqrt(count);
    return kUnit * (is_strict ? random : std::max(random, count / 8));
}

// Queries are -kLow and keys kLow, so every pair has the same score and weights are 1.
constexpr float kLow = 12;
float low_lse(const Problem& problem) {
    const double scale = problem.scalars[attention::kScale].number();
    return static_cast<float>(-scale * kLow * kLow * static_cast<double>(View(problem).d));
}

}  // namespace

std::vector<OpTest> tests(const Problem& problem) {
    const View view(problem);
    const Fill normal = Fill::normal(), signs = Fill::integers(-1, 1), none = Fill::constant(0);
    // The fill is near the logarithm of the sums of normal scores, so that weights are as in real use.
    const Fill lse = Fill::normal(static_cast<float>(std::log(static_cast<double>(view.kv_len)) + 0.5), 0.25F);
    std::vector<OpTest> all = {
        test_of("zero_queries", {none, signs, signs, signs, none, signs}),
        test_of("zero_keys", {signs, none, signs, signs, none, signs}),
        // Rows without a key have weights of 0, even if their scores would give others.
        test_of("masked", {normal, normal, normal, normal, Fill::constant(-std::numeric_limits<float>::infinity()), normal}),
        // All scores are far below 0. A key that does not exist has a score of 0 and would get an infinite weight.
        test_of("low_scores",
                {Fill::constant(-kLow), Fill::constant(kLow), signs, signs, Fill::constant(low_lse(problem)), signs}),
        test_of("numeric", {normal, normal, normal, normal, lse, normal}),
    };
    all.back().is_typical = true;
    constexpr double kEnough = 256;  // with fewer elements, one element near zero would make a right kernel fail
    const double ratio = 2.5 * weight_error(view) + 64 * kUnit + sum_error(view) / 2;
    for (OutputCheck& output : all.back().outputs) {
        const Tensor& tensor = problem.tensors[static_cast<std::size_t>(output.tensor)];
        if (static_cast<double>(tensor.elements()) >= kEnough && view.q_len > 1 && view.kv_len > 1) output.max_norm_ratio = ratio;
    }
    return all;
}

Bounds bounds_of(const View& view, const OpTest& test) {
    Bounds bounds{
        .weight = 32 * kUnit, .output = unit_roundoff(view.type), .least = underflow_roundoff(view.type) + std::ldexp(1.0, -126)};
    if (is_exact(test)) return bounds;
    const double input = view.is_tf32 ? std::ldexp(1.0, -10) : 0;
    bounds.weight = 2 * weight_error(view) + input + sum_error(view);
    bounds.product = 4 * kUnit * (2 + std::sqrt(static_cast<double>(std::max(view.d, view.dv)))) + 2 * input;
    bounds.exponent = 8 * kUnit;
    // f16 weights underflow, and so do the numbers by which they are multiplied.
    if (view.type == DType::f16)
        bounds.least += underflow_roundoff(view.type) * 16 * std::sqrt(static_cast<double>(view.kv_len + view.q_len));
    return bounds;
}

}  // namespace autotune::attention_bwd
