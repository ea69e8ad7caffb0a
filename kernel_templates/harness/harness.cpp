#include "kernel_templates/harness/harness.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numeric>

#include "kernel_templates/common/number_format.cuh"
#include "kernel_templates/common/random.cuh"
#include "src/core/error.h"

namespace autotune {
namespace {

// |out - expected|. It is 0 if both are the same infinity or both NaN, and infinite if only one is NaN or infinite.
double error_of(double out, double expected) {
    if (std::isnan(out) || std::isnan(expected)) return std::isnan(out) && std::isnan(expected) ? 0.0 : INFINITY;
    return out == expected ? 0.0 : std::fabs(out - expected);
}

// (error - rounding) / (bound - rounding) is the error that rounding does not explain, relative to what the bound allows for it.
double accumulation_ratio(double error, double bound, double rounding) {
    if (bound == 0 || error <= rounding || std::isinf(error)) return 0;
    return bound > rounding ? (error - rounding) / (bound - rounding) : kInfiniteRatio;
}

}  // namespace

HarnessLayout::HarnessLayout(const Tensor& tensor) {
    check(tensor.dims.size() <= Tensor::kMostDims, "tensor " + tensor.name + " has more than five dimensions");
    extents.fill(1);
    strides.fill(0);
    const std::size_t left_out = Tensor::kMostDims - tensor.dims.size();
    for (std::size_t i = 0; i < tensor.dims.size(); ++i) {
        extents[left_out + i] = tensor.dims[i].extent;
        strides[left_out + i] = tensor.dims[i].stride;
    }
}

double half_spacing(DType type, double value) {
    return autotune_number::half_spacing(autotune_number::Format{harness_format(type)}, value);
}

namespace {
// The expected values of these types are bits, because not all of their numbers are doubles.
bool holds_bits(DType type) {
    return traits_of(type).kind == NumberKind::integer && traits_of(type).bits == 64;
}
std::uint64_t poison_bits(DType type) {
    return ~std::uint64_t{0} >> (64 - traits_of(type).bits);
}
void count_wrong(CompareResult& result, std::uint64_t index, double ratio) {
    ++result.violations;
    result.first_wrong_complement = std::max(result.first_wrong_complement, ~index);
    result.max_ratio = std::max(result.max_ratio, ratio);
}
}  // namespace

void compare_element(CompareResult& result, DType type, std::uint64_t bits, double expected, double bound, std::uint64_t index) {
    const double out = decode(type, bits);
    const bool is_exact = bound == 0;
    if (is_exact && holds_bits(type)) {
        if (std::bit_cast<std::uint64_t>(expected) == bits) return;
        return count_wrong(result, index, kInfiniteRatio);
    }
    if (std::isnan(expected)) {
        ++result.expected_nan;
        // A kernel gives another NaN than the poison, so this element was not written.
        if (bits == poison_bits(type)) {
            ++result.nan_count;
            return count_wrong(result, index, kInfiniteRatio);
        }
    }
    const double error = error_of(out, is_exact ? round_to(type, expected) : expected);
    const double ratio = error == 0 ? 0.0 : is_exact || std::isinf(error) ? kInfiniteRatio : error / bound;
    if (std::isnan(out) && !std::isnan(expected)) ++result.nan_count;
    if (ratio > 1) count_wrong(result, index, ratio);
    result.max_ratio = std::max(result.max_ratio, ratio);
    const double rounding = half_spacing(type, expected);
    result.max_accumulation = std::max(result.max_accumulation, accumulation_ratio(error, bound, rounding));
    if (std::isfinite(error) && std::isfinite(expected)) {
        result.sum_error2 += error * error;
        result.sum_expected2 += expected * expected;
    }
}

double norm_ratio(const CompareResult& result) {
    if (result.sum_error2 == 0) return 0;
    return result.sum_expected2 == 0 ? kInfiniteRatio : std::sqrt(result.sum_error2 / result.sum_expected2);
}

bool passes(const OutputCheck& check, const CompareResult& result) {
    if (result.violations != 0) return false;
    return check.max_norm_ratio == 0 || norm_ratio(result) <= check.max_norm_ratio;
}

std::vector<std::int64_t> freivalds_weights(std::uint64_t seed, std::size_t count) {
    std::vector<std::int64_t> weights;
    weights.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t bits = autotune_random::mix(autotune_random::mix(seed) ^ i);
        weights.push_back(static_cast<std::int64_t>(bits % static_cast<std::uint64_t>(kWeights)));
    }
    return weights;
}

std::uint64_t canary_sum(std::uint32_t rounds) {
    // Every new GPU worker waits for this. A single chain of hashes is limited by latency, so several run interleaved.
    constexpr std::uint32_t kLanes = 8;
    static_assert(kCanaryThreads % kLanes == 0);
    std::uint64_t sum = 0;
    for (std::uint32_t thread = 0; thread < kCanaryThreads; thread += kLanes) {
        std::array<std::uint64_t, kLanes> x;
        std::iota(x.begin(), x.end(), thread);
        for (std::uint32_t i = 0; i < rounds; ++i) {
            for (std::uint64_t& lane : x) lane = autotune_random::mix(lane);
        }
        sum = std::accumulate(x.begin(), x.end(), sum);
    }
    return sum;
}

}  // namespace autotune
