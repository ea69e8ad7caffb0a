// The test inputs of attention, and the largest errors allowed.
#include <algorithm>
#include <cmath>
#include <limits>

#include "kernel_templates/attention/op/attention_problem.h"

namespace autotune::attention {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr double kUnit = 1.0 / (1 << 24);  // unit roundoff of f32

OpTest test_of(const Problem& problem, std::string name, Fill q, Fill k, Fill v) {
    OpTest test;
    test.name = std::move(name);
    test.fills = {q, k, v, Fill::nan(), Fill::nan()};
    const View view(problem);
    if (view.is_packed)
        for (const int offsets : {kQOffsets, kKvOffsets}) test.fills.push_back(offsets_fill(view, offsets));
    test.outputs = {{.tensor = kO}};
    if (view.has_lse) test.outputs.push_back({.tensor = kLse});
    return test;
}

// A power of two whose square times the scale is from 128 to 512. With it, even 2^30 keys that do not match a query together
// weigh less than the least number of any type.
double needle(double scale) {
    return std::exp2(std::ceil(std::log2(128 / scale) / 2));
}

// Whether weights are 0 or 1 and values small integers, so that every sum is exact in any order.
bool is_exact(const OpTest& test) {
    return test.name == "uniform" || test.name == "needle";
}

// Relative error of a sum of `count` terms in f32. Tensor cores truncate, so the errors of their steps of 16 may all have one
// sign; the errors of a strict sum have random signs.
double sum_error(const View& view) {
    const auto count = static_cast<double>(view.kv_len);
    const bool is_strict = view.type == DType::f32 && !view.is_tf32;
    const double random = 24 + 4 * std::log2(count) + 6 * std::sqrt(count);
    return kUnit * (is_strict ? random : std::max(random, count / 8));
}

// The relative error of rounding an operand to the type of the multiplication. It is 0 if the tensors have that type.
double input_error(const View& view) {
    return view.is_tf32 ? std::ldexp(1.0, -10) : 0;
}

// The relative error of weights, which are rounded to the type of the multiplication.
double weight_error(const View& view) {
    if (view.is_tf32) return input_error(view);
    return view.type == DType::f32 ? 8 * kUnit : unit_roundoff(view.type);
}

// The largest allowed norm of an output's error. The errors have random signs, so their root mean square is some 0.57 of the unit
// roundoff of weights and output.
double norm_ratio(const View& view) {
    if (view.is_tf32) return 4 * input_error(view);
    return 1.2 * unit_roundoff(view.type) + 32 * kUnit + sum_error(view) / 4;
}

}  // namespace

std::vector<OpTest> tests(const Problem& problem) {
    const View view(problem);
    const double hot = needle(problem.scalars[kScale].number());
    const Fill normal = Fill::normal();
    std::vector<OpTest> all = {
        // The answer is the mean of the values that a row sees, and the logarithm of their number. This tests masks, tails and
        // heads.
        test_of(problem, "uniform", Fill::constant(0), normal, Fill::integers()),
        test_of(problem, "masked", Fill::constant(1), Fill::one_hot(-kInfinity, 1), normal),
        test_of(problem, "not_a_number", Fill::constant(1), Fill::one_hot(std::numeric_limits<float>::quiet_NaN(), 1), normal),
        // With peaks far apart sums are rescaled often and most weights vanish.
        test_of(problem, "wide", Fill::normal(0, 8), Fill::normal(0, 4), normal),
        test_of(problem, "numeric", normal, normal, normal),
    };
    all.back().is_typical = true;
    constexpr double kLargestHot = 32768;  // the largest power of two in f16
    if (hot <= kLargestHot) {              // the answer is the mean of the values whose keys match
        const Fill code = Fill::one_hot(static_cast<float>(hot));
        all.insert(all.begin() + 1, test_of(problem, "needle", code, code, Fill::integers()));
    }
    constexpr double kEnough = 256;  // with fewer elements, one element near zero would make a right kernel fail
    if (static_cast<double>(view.rows() * view.dv) >= kEnough) all.back().outputs.front().max_norm_ratio = norm_ratio(view);
    return all;
}

Bounds bounds_of(const View& view, const OpTest& test) {
    const double in_sum = sum_error(view);
    Bounds bounds{.weight = 32 * kUnit,
                  .per_exponent = 8 * kUnit,
                  .output = unit_roundoff(view.type),
                  .least = underflow_roundoff(view.type) + std::ldexp(1.0, -126),
                  .lse = 16 * kUnit};
    if (is_exact(test)) return bounds;
    bounds.weight = weight_error(view) + input_error(view) + in_sum;
    bounds.per_product = 4 * kUnit * (2 + std::sqrt(static_cast<double>(view.d))) + 2 * input_error(view);
    bounds.least_weight = view.type == DType::f32 ? std::ldexp(1.0, -126) : underflow_roundoff(view.type);
    bounds.lse = in_sum;
    return bounds;
}

std::vector<Argument> bound_arguments(const Bounds& bounds) {
    std::vector<Argument> all;
    for (const double each :
         {bounds.weight, bounds.per_product, bounds.per_exponent, bounds.least_weight, bounds.output, bounds.least, bounds.lse})
        all.push_back(F32Arg{static_cast<float>(each)});
    return all;
}

double RowWeights::lse() const {
    return weights.empty() || sum == 0 ? -std::numeric_limits<double>::infinity() : peak + std::log(sum);
}

RowWeights weights_of(const View& view, double scale, std::span<const std::vector<double>> tensors, std::int64_t b,
                      std::int64_t head, std::int64_t row) {
    const Sequence sequence = sequence_of(view, tensors, b);
    const auto at = [&](int tensor, std::int64_t h, std::int64_t r) {
        const Strides& strides = view.strides[static_cast<std::size_t>(tensor)];
        return tensors[static_cast<std::size_t>(tensor)].data() + b * strides.batch + h * strides.head + r * strides.row;
    };
    RowWeights found;
    found.first = sequence.band.first_key(row, sequence.kv_len);
    const std::int64_t end = sequence.band.end_key(row, sequence.kv_len);
    const double* const q = at(kQ, head, sequence.first_q + row);
    bool has_peak = false;
    for (std::int64_t key = found.first; key < end; ++key) {
        const double* const k = at(kK, head / view.group(), sequence.first_kv + key);
        double product = 0, magnitude = 0;
        for (std::int64_t i = 0; i < view.d; ++i) {
            product += q[i] * k[i];
            magnitude += std::fabs(q[i] * k[i]);
        }
        const double x = scale * product;
        found.weights.push_back(x);
        if (!std::isfinite(x)) continue;
        found.peak = has_peak ? std::max(found.peak, x) : x;
        has_peak = true;
        found.largest_product = std::max(found.largest_product, scale * magnitude);
        found.largest_exponent = std::max(found.largest_exponent, std::fabs(x));
    }
    for (double& weight : found.weights) {
        weight = std::isfinite(weight) ? std::exp(weight - found.peak)
                 : weight < 0          ? 0
                                       : std::numeric_limits<double>::quiet_NaN();
        found.sum += weight;
    }
    return found;
}

}  // namespace autotune::attention
