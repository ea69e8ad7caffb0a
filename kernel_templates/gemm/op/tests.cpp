#include <algorithm>
#include <cmath>

#include "kernel_templates/gemm/op/epilogue.h"
#include "kernel_templates/gemm/op/gemm_problem.h"
#include "kernel_templates/gemm/op/scaling.h"
#include "src/core/integer_math.h"

namespace autotune::gemm {
namespace {

// Tensor cores of sm_89 and sm_90 keep about 13 fraction bits of a sum of fp8 products. In units of sqrt(k) 2^-13 of R, the root
// mean square error of N(0,1) is 0.12 at k = 512, 0.17 at 4096 and 0.20 at 16384; the largest of 2^20 errors is 2.4, 2.3 and 2.8.
// In promoted sums k counts up to 128: 0.09, and 0.9 at most (H200, 2026-11-23; the same for cuBLASLt). docs/fp8.md.
constexpr double kFastSumError = 0.2, kPromotedSumError = 0.1;
// One element may have an error that is this many times as large.
constexpr double kMostFp8Errors = 25;

// The length of a sum, for the growth of the accumulator's error. An fp8 multiplication adds 32 products at once.
double sum_length(const Problem& problem) {
    const View view(problem);
    if (!is_fp8(view.in)) return static_cast<double>(view.k);
    const std::int64_t least = 32;
    return static_cast<double>(std::max(least, view.fast ? view.k : std::min(view.k, kScaleBlock)));
}

// In f32, tensor cores may truncate when they add (2^-23, not 2^-24); in f16 they round. Sums of f32 operands are rounded: CUDA
// cores round, and tf32x3 has no long sums in the tensor cores.
double accumulator_roundoff(const Problem& problem) {
    if (is_fp8(View(problem).in)) return std::ldexp(is_fast(problem) ? kFastSumError : kPromotedSumError, -13);
    if (problem.word("acc") == "f16") return std::ldexp(1.0, -11);
    return is_f32_accurate(problem) ? std::ldexp(1.0, -24) : std::ldexp(1.0, -23);
}

// The number of products after which truncation may again lose 2^-23 of the partial sum.
std::int64_t products_a_loss(const Problem& problem) {
    return problem.word("compute") == kTf32 ? 4 : 8;
}

// Tensor cores of sm_90 add 16 products of f16 to an f32 sum at once. They truncate each product at a quarter of the sum's last
// place, and the new sum at the last place itself, always towards zero. The first error cancels if signs are random. The second,
// half a last place on average, adds up while the sum keeps its sign. Products of one sign lose 2.5 last places for each 16,
// which is 1.8 2^-23 of the partial sum on average; 2 2^-23 of the largest partial sum is allowed (docs/precision.md). f16 sums
// are rounded, and so are sums on CUDA cores; the error of fp8 sums is measured.
double lost_of_largest_partial_sum(const View& view, const Problem& problem) {
    if (is_fp8(view.in) || view.acc == DType::f16 || is_f32_accurate(problem)) return 0;
    return std::ldexp(static_cast<double>(ceil_div(view.k, products_a_loss(problem))), -23);
}

// The tensor cores' relative error in a product of two operands. tf32 truncates each to 10 bits. tf32x3 keeps 21 bits of each,
// and leaves out the product of the parts below the first 10 bits.
double input_roundoff(const Problem& problem) {
    const std::string& compute = problem.word("compute");
    if (compute == kTf32) return std::ldexp(1.0, -10);
    return compute == kTf32x3 ? std::ldexp(1.0, -21) : 0;
}

// Whether scaling integers below 2^21 by `value` is exact in f32.
bool scales_exactly(double value) {
    return std::fabs(value) <= 2 && value * 8 == std::nearbyint(value * 8);
}

// Non-zero k in a row of A with which every partial sum of products of {-2..2} is exact: 4 * 512 = 2^11 in f16, 4 * 2^18 = 2^20
// in f32, 4 * 4096 = 2^14 in the tensor cores' sums of fp8. Scales of fp8 move sums by two bits in either direction.
std::int64_t most_terms(const View& view) {
    if (view.fast) return 4096;
    return view.acc == DType::f16 ? 512 : std::int64_t{1} << 18;
}

Tolerance numeric_tolerance(const View& view, const Problem& problem) {
    const double steps = std::sqrt(sum_length(problem));
    const double in = input_roundoff(problem);
    const double out = unit_roundoff(view.out);
    Tolerance result;
    result.norm = (is_fp8(view.in) ? kMostFp8Errors : 6) * (accumulator_roundoff(problem) * steps + in);
    result.value = in + out;
    result.input = 2 * out;
    result.floor = underflow_roundoff(view.out) + (view.acc == DType::f16 ? 6 * steps * underflow_roundoff(DType::f16) : 0);
    result.partial = lost_of_largest_partial_sum(view, problem);
    result.of_amax = 2 * unit_roundoff(DType::f32);
    return result;
}

// Zero if the exact sum survives scaling; otherwise the f32 error of alpha and beta, and one rounding of the output.
Tolerance exact_tolerance(const View& view, const Problem& problem) {
    if (scales_exactly(problem.scalars[kAlpha].number()) && scales_exactly(problem.scalars[kBeta].number())) return {};
    const double scaling = 8 * unit_roundoff(DType::f32);
    return {
        .value = unit_roundoff(view.out) + scaling, .input = scaling, .floor = underflow_roundoff(view.out), .of_amax = scaling};
}

// The norm of few elements is unreliable, because one expected value near 0 would make a right kernel fail.
constexpr std::int64_t kFewElements = 256;

double norm_ratio(const View& view, const Problem& problem) {
    if (view.m * view.n * view.batch < kFewElements) return 0;
    return 2 *
           (accumulator_roundoff(problem) * std::sqrt(sum_length(problem)) + input_roundoff(problem) + unit_roundoff(view.out));
}

// Integers of 14 bits, which tf32 cannot hold, times {-2..2}, so that all 24 bits of an operand matter. With 64 of them in a row
// or column, sums stay below 2^20.
constexpr std::int64_t kWide = 8191, kWideTerms = 64;

OpTest wide_test(const View& view, int wide) {
    OpTest test{.name = std::string(wide == kA ? kWideA : kWideB), .fills = {}, .outputs = {{.tensor = kC}}};
    test.fills = {Fill::integers(), Fill::integers(), view.reads_c ? Fill::integers() : Fill::nan()};
    test.fills[static_cast<std::size_t>(wide)] = Fill::integers(-kWide, kWide, (view.k + kWideTerms - 1) / kWideTerms);
    return test;
}

void add_scales(const Problem& problem, OpTest& test, const Fill& fill) {
    if (scaling_of(problem) == Scaling::none) return;
    test.fills.insert(test.fills.end(), 2, fill);
}

// Positive integers whose sums exceed 2^14: exact if 128 products at a time are added in f32, inexact if sums stay in the tensor
// cores.
OpTest promotion_test(const Problem& problem) {
    const View view(problem);
    constexpr std::int64_t kLargest = 4, kMostTerms = std::int64_t{1} << 16;
    OpTest test{.name = std::string(kPromotion), .fills = {}, .outputs = {{.tensor = kC}}};
    test.fills = {Fill::integers(1, kLargest, (view.k + kMostTerms - 1) / kMostTerms), Fill::integers(1, kLargest),
                  view.reads_c ? Fill::integers() : Fill::nan()};
    add_scales(problem, test, exact_scales());
    const double mean_product = (1 + kLargest) * (1 + kLargest) / 4.0;
    add_epilogue(problem, test, 2 * mean_product * static_cast<double>(std::min(view.k, kMostTerms)));
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

// With beta 0, C must not be read. So C is NaN, which would show a read.
std::vector<OpTest> tests(const Problem& problem) {
    const View view(problem);
    const std::int64_t terms = most_terms(view);
    OpTest exact{.name = std::string(kExact), .fills = {}, .outputs = {{.tensor = kC}}};
    exact.fills = {Fill::integers(-2, 2, ceil_div(view.k, terms)), Fill::integers(),
                   view.reads_c ? Fill::integers() : Fill::nan()};
    exact.product = product_form(problem);
    OpTest numeric{.name = std::string(kNumeric), .fills = {}, .outputs = {{kC, norm_ratio(view, problem)}}, .is_typical = true};
    numeric.fills = {Fill::normal(), Fill::normal(), view.reads_c ? Fill::normal() : Fill::nan()};
    if (is_fp8(view.in)) {
        add_scales(problem, exact, exact_scales());
        add_scales(problem, numeric, usual_scales());
        // This is four standard deviations of the sums of products of {-2..2}, and of those of N(0,1) with scales.
        add_epilogue(problem, exact, 8 * std::sqrt(static_cast<double>(std::min(view.k, terms))));
        add_epilogue(problem, numeric, 6 * std::sqrt(static_cast<double>(view.k)));
        if (!view.fast) return {std::move(exact), promotion_test(problem), std::move(numeric)};
    }
    if (is_f32_accurate(problem)) return {std::move(exact), wide_test(view, kA), wide_test(view, kB), std::move(numeric)};
    return {std::move(exact), std::move(numeric)};
}

}  // namespace autotune::gemm
