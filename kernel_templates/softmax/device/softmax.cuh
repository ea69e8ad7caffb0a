// The arithmetic that the softmax families share. A row's values are read with the sign of the scale applied, so the largest value is the
// peak in any case. Weights are powers of two: 2^((value - peak) * slope) with slope = |scale| log2(e).
#pragma once

#include "common/types.cuh"

namespace softmax {

// Hardware functions, accurate to 2 ulp. exp2 is 0 below the least normal number, log2 needs a normal number, and the inverse a
// number of at least 1.
__device__ __forceinline__ f32 exp2_of(f32 x) {
    f32 power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}
__device__ __forceinline__ f32 log2_of(f32 x) {
    f32 exponent;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(exponent) : "f"(x));
    return exponent;
}
__device__ __forceinline__ f32 reciprocal_of(f32 x) {
    f32 inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(x));
    return inverse;
}

__device__ __forceinline__ f32 minus_infinity() {
    return __int_as_float(static_cast<int>(0xFF800000U));
}

// A part of a row: its largest value, and the sum of its weights relative to that. A part that is empty or all -inf has no peak, and its
// sum is 0. A NaN or +inf makes the sum NaN.
struct Part {
    f32 peak = minus_infinity();
    f32 sum = 0;
};

// The number that is subtracted from values: the peak or, without one, 0, because -inf - -inf is NaN.
__device__ __forceinline__ f32 origin_of(f32 peak) {
    return peak == minus_infinity() ? 0.0F : peak;
}

__device__ __forceinline__ f32 weight(f32 value, f32 origin, f32 slope) {
    return exp2_of((value - origin) * slope);
}

// The bits of the result depend on the order of joins, so callers always join in the same order.
__device__ __forceinline__ Part join(const Part& left, const Part& right, f32 slope) {
    Part whole;
    whole.peak = fmaxf(left.peak, right.peak);
    const f32 origin = origin_of(whole.peak);
    whole.sum = left.sum * weight(left.peak, origin, slope) + right.sum * weight(right.peak, origin, slope);
    return whole;
}

// 1 / sum; 0 for a row without weight, whose results are zeros.
__device__ __forceinline__ f32 inverse_of(f32 sum) {
    return sum == 0.0F ? 0.0F : reciprocal_of(sum);
}

// The logarithm of the sum of e^(scale x) over the row, with the scale's magnitude; -inf for a row without weight.
__device__ __forceinline__ f32 log_sum_exp(const Part& row, f32 magnitude) {
    constexpr f32 ln2 = 0.693147180559945309F;
    return row.sum == 0.0F ? minus_infinity() : __fmaf_rn(row.peak, magnitude, log2_of(row.sum) * ln2);
}

// An element with weight 0, for positions beyond the end of a row.
template <class Element, bool negative>
__device__ __forceinline__ Element nothing() {
    return from_f32<Element>(negative ? -minus_infinity() : minus_infinity());
}

// An element as a value of the arithmetic.
template <bool negative, class Element>
__device__ __forceinline__ f32 value_of(Element element) {
    const f32 value = to_f32(element);
    return negative ? -value : value;
}

}  // namespace softmax
