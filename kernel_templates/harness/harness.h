#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "src/core/op/oracle.h"
#include "src/core/problem/tensor.h"

namespace autotune {

// The host's counterpart of the kernels in harness.cuh: codes, result layouts and launch shapes. All kernels walk their data in a
// grid-stride loop, so any grid of whole warps is correct; kHarnessThreads threads per block and a few blocks per SM are fast.
// Element types are passed as formats (number_format.cuh), tensors as layouts of five dimensions. Kernels and their parameters,
// in order:
//
// - autotune_fill (void* data, u64 format, FILL, u64 through, u64 seed, int tensor, LAYOUT)
// - autotune_poison (void* data, u64 bytes, u32 byte): sets every byte
// - autotune_poison_shared (u32 bytes, u32 byte): sets a block's dynamic shared memory
// - autotune_redzone_check (const void* data, u64 bytes, u32 byte, u64* changed): counts bytes that are not `byte`
// - autotune_gap_check (const void* data, u64 format, u32 byte, u64* changed, LAYOUT): the same for the gaps between elements
// - autotune_checksum (const void* data, u64 bytes, u64* sum): adds a position-dependent hash of all bytes
// - autotune_compare (const void* out, u64 format, const f64* expected, const f64* bound, CompareResult* result, LAYOUT)
// - autotune_copy (const void* from, void* to, u64 bytes)
// - autotune_project (const void* data, u64 format, int transposed, const i64* x, i64* y, u64* odd, MATRIX): y += M x
// - autotune_canary (u64* sum, u32 rounds): fixed work: canary_sum() for any grid of exactly kCanaryThreads threads in all
// - autotune_spin_bounded (u64 nanoseconds, u64* spins): keeps the device busy for a limited time
// - autotune_filler (f32* data): runs before a timed launch
// - autotune_trigger_filler (f32* data): the same, but lets the next kernel start while it runs
//
// with these groups of parameters:
//
// - LAYOUT: i64 extent0 .. extent4, i64 stride0 .. stride4 (leading extents of 1 for fewer dimensions), in elements
// - MATRIX: i64 rows, i64 cols, i64 ld, i64 batch, i64 batch_stride
// - FILL: int kind, f32 centre, f32 spread, i64 low, i64 high, i64 every
//
// `changed`, `sum`, `spins`, `odd`, `y` and CompareResult must be zero before the launch: kernels add to them.

constexpr int kHarnessThreads = 256;
constexpr std::uint32_t kCanaryThreads = 64 * 256;

// As f16, bf16, f32, f64, e4m3 and e5m2, bytes of all ones are a NaN.
constexpr std::uint32_t kPoisonByte = 0xFF;
constexpr std::uint32_t kRedzoneByte = 0xA5;

// A type's properties packed into bits: autotune_number::Format.
constexpr std::uint64_t harness_format(DType type) {
    const DTypeTraits& traits = traits_of(type);
    return static_cast<std::uint64_t>(traits.bits) | static_cast<std::uint64_t>(traits.exponent_bits) << 8 |
           static_cast<std::uint64_t>(traits.mantissa_bits) << 16 | (traits.has_infinity ? std::uint64_t{1} << 24 : 0);
}

// A tensor's dimensions in the layout that the harness kernels take.
struct HarnessLayout {
    explicit HarnessLayout(const Tensor& tensor);
    std::array<std::int64_t, Tensor::kMostDims> extents, strides;
};

// Sums and maxima of autotune_compare over all elements. An element is wrong if its error is above the bound; with a bound of 0
// it must have the bits of the expected value rounded once to the type.
struct CompareResult {
    std::uint64_t violations = 0;
    // the complement of the lowest wrong index, or 0 if there is none; first_wrong() converts it
    std::uint64_t first_wrong_complement = 0;
    double max_ratio = 0;  // largest error / bound; 0 / 0 is 0, anything above a zero bound is kInfiniteRatio
    double sum_error2 = 0;
    double sum_expected2 = 0;
    std::uint64_t nan_count = 0;  // NaN although a number was expected
    // The largest (error - rounding) / (bound - rounding), with rounding = half a unit in the last place
    double max_accumulation = 0;
    std::uint64_t expected_nan = 0;  // elements whose expected value is NaN

    // The lowest wrong element, by its number in the logical order. REQUIRES: violations > 0.
    std::uint64_t first_wrong() const { return ~first_wrong_complement; }
};
static_assert(sizeof(CompareResult) == 64, "the device writes this layout");
constexpr double kInfiniteRatio = 1e300;

// The largest change that rounding a number once to the type can make: half the distance to the next number of the type.
double half_spacing(DType type, double value);

// Compares one element in the same way as autotune_compare. Used by host-side tests and for samples.
void compare_element(CompareResult& result, DType type, std::uint64_t bits, double expected, double bound, std::uint64_t index);

// ||out - expected|| / ||expected||; 0 if there is no error, kInfiniteRatio if only the expected norm is 0.
double norm_ratio(const CompareResult& result);
// Whether a whole comparison satisfies the check: no wrong element, and the norm ratio within its bound if there is one.
bool passes(const OutputCheck& check, const CompareResult& result);

// Freivalds' check multiplies both sides by vectors of independent weights, uniform in {0 .. kWeights - 1}: a wrong answer passes
// one of them with a probability of at most 1 / kWeights.
constexpr std::int64_t kWeights = 1 << 16;
std::vector<std::int64_t> freivalds_weights(std::uint64_t seed, std::size_t count);

// The result of autotune_canary in `sum`.
std::uint64_t canary_sum(std::uint32_t rounds);

}  // namespace autotune
