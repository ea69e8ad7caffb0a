// What every attention kernel is called with: the begin of its parameter list, in the order of attention::arguments().
#pragma once

#include "attention/mask.cuh"
#include "common/types.cuh"

// clang-format off
#define ATTENTION_PARAMETERS                                                                                        \
    const Element *q, const Element *k, const Element *v, Element *o, f32 *lse, f32 scale, int batches, int q_heads, \
    int group, int q_len, int kv_len, int mask_low, int mask_high, i64 q_batch, i64 q_head, i64 q_row, i64 k_batch,  \
    i64 k_head, i64 k_row, i64 v_batch, i64 v_head, i64 v_row, i64 o_batch, i64 o_head, i64 o_row
#define ATTENTION_CALL                                                                                              \
    {q, k, v, o, lse, scale, batches, q_heads, group, q_len, kv_len, mask_low, mask_high,                           \
     {q_batch, q_head, q_row}, {k_batch, k_head, k_row}, {v_batch, v_head, v_row}, {o_batch, o_head, o_row}}
// clang-format on

namespace attention {

// Elements from one batch, head and row to the next.
struct Strides {
    i64 batch, head, row;

    __device__ __forceinline__ i64 of_head(int b, int h) const { return b * batch + h * head; }
};

// REQUIRES: scale > 0.
template <class Element>
struct Call {
    const Element *q, *k, *v;
    Element* o;
    f32* lse;  // may be null
    f32 scale;
    int batches, q_heads, group;  // query heads that share a head of k and v
    int q_len, kv_len;
    int mask_low, mask_high;
    Strides q_strides, k_strides, v_strides, o_strides;

    template <bool has_low, bool has_high>
    __device__ __forceinline__ Mask<has_low, has_high> mask() const {
        return {mask_low, mask_high, kv_len};
    }
};

__device__ __forceinline__ f32 minus_infinity() {
    return __uint_as_float(0xFF800000U);
}

// 2^x by the special function unit, subnormal results flushed.
__device__ __forceinline__ f32 exp2_approx(f32 x) {
    f32 y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
__device__ __forceinline__ f32 log2_approx(f32 x) {
    f32 y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

constexpr f32 log2_e = 1.44269504088896341F;
constexpr f32 ln_2 = 0.693147180559945309F;

// The logarithm of a row's sum, from its peak times `unit` and the sum of the weights relative to that. A row without weight has
// -inf.
__device__ __forceinline__ f32 log_sum_exp(f32 peak, f32 sum, f32 unit) {
    return sum == 0.0F ? minus_infinity() : peak * unit + logf(sum);
}

// What a row's sums of weighted values are multiplied by. A row without weight has zeros.
__device__ __forceinline__ f32 inverse_of(f32 sum) {
    return sum == 0.0F ? 0.0F : 1.0F / sum;
}

}  // namespace attention
