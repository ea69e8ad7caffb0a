// The first parameters of every attention kernel, in the order of attention::arguments().
#pragma once

#include "attention/device/mask.cuh"
#include "common/types.cuh"

// clang-format off
// A template that takes packed sequences says ATTENTION_PACKED before: 1 where the problem has them.
#if ATTENTION_PACKED
#define ATTENTION_PACKING_PARAMETERS , const int *q_offsets, const int *kv_offsets, int total_q, int total_kv, int bottom_right
#define ATTENTION_PACKING , {q_offsets, kv_offsets, total_q, total_kv, bottom_right}
#else
#define ATTENTION_PACKING_PARAMETERS
#define ATTENTION_PACKING
#endif
#define ATTENTION_PARAMETERS                                                                                        \
    const Element *q, const Element *k, const Element *v, Element *o, f32 *lse, f32 scale, int batches, int q_heads, \
    int group, int q_len, int kv_len, int mask_low, int mask_high, i64 q_batch, i64 q_head, i64 q_row, i64 k_batch,  \
    i64 k_head, i64 k_row, i64 v_batch, i64 v_head, i64 v_row, i64 o_batch, i64 o_head, i64 o_row              \
    ATTENTION_PACKING_PARAMETERS
#define ATTENTION_CALL                                                                                              \
    {q, k, v, o, lse, scale, batches, q_heads, group, q_len, kv_len, mask_low, mask_high,                           \
     {q_batch, q_head, q_row}, {k_batch, k_head, k_row}, {v_batch, v_head, v_row}, {o_batch, o_head, o_row}       \
     ATTENTION_PACKING}
// clang-format on

namespace attention {

// Elements from one batch, head and row to the next.
struct Strides {
    i64 batch, head, row;

    __device__ __forceinline__ i64 of_head(int b, int h) const { return b * batch + h * head; }
};

// The rows of a sequence in its tensors.
struct Sequence {
    int first_q, first_kv, q_len, kv_len;
    int diagonal;  // key at which the diagonal of its mask begins

    // Bounds of the mask, for queries and keys counted from the start of the sequence.
    __device__ __forceinline__ int low(int mask_low) const { return max(mask_low + diagonal, -q_len); }
    __device__ __forceinline__ int high(int mask_high) const { return min(mask_high + diagonal, kv_len); }
};

// Packed sequences, one after the other. Offsets come from memory: whatever their values, the kernel reads and writes nothing
// outside the tensors, and computes no more rows than the longest length that the launch was planned for.
struct Packing {
    const int *q_offsets, *kv_offsets;  // the offsets, one more than there are sequences
    int total_q, total_kv;
    int bottom_right;  // 1: the last query of a sequence sees its last key

    __device__ __forceinline__ Sequence sequence(int b, int longest_q, int longest_kv) const {
        const int first_q = clamped(q_offsets[b], 0, total_q), first_kv = clamped(kv_offsets[b], 0, total_kv);
        const int q_len = clamped(min(q_offsets[b + 1], total_q) - first_q, 0, longest_q);
        const int kv_len = clamped(min(kv_offsets[b + 1], total_kv) - first_kv, 0, longest_kv);
        return {first_q, first_kv, q_len, kv_len, bottom_right != 0 ? kv_len - q_len : 0};
    }
};

// REQUIRES: scale > 0.
template <class Element>
struct Call {
    const Element *q, *k, *v;
    Element* o;
    f32* lse;  // may be null
    f32 scale;
    int batches, q_heads, group;  // `group`: the query heads that share a head of k and v
    int q_len, kv_len;
    int mask_low, mask_high;
    Strides q_strides, k_strides, v_strides, o_strides;
#if ATTENTION_PACKED
    Packing packing;
    int first_q;  // the first query of the sequence that of_batch() chose
#endif

    // The call for one batch. Without packing it is this call; otherwise it has the lengths, bounds and first rows of the
    // sequence.
    __device__ __forceinline__ Call of_batch(int b) const {
        Call call = *this;
#if ATTENTION_PACKED
        const Sequence sequence = packing.sequence(b, q_len, kv_len);
        call.q += sequence.first_q * q_strides.row;
        call.k += sequence.first_kv * k_strides.row;
        call.v += sequence.first_kv * v_strides.row;
        call.o += sequence.first_q * o_strides.row;
        call.first_q = sequence.first_q;
        call.q_len = sequence.q_len;
        call.kv_len = sequence.kv_len;
        call.mask_low = sequence.low(mask_low);
        call.mask_high = sequence.high(mask_high);
#endif
        return call;
    }
    // Number of a head's first row among all rows of the output. For the call of one batch.
    __device__ __forceinline__ i64 line_of_head(int b, int head) const {
#if ATTENTION_PACKED
        return static_cast<i64>(head) * packing.total_q + first_q;
#else
        return (static_cast<i64>(b) * q_heads + head) * q_len;
#endif
    }

    template <bool has_low, bool has_high>
    __device__ __forceinline__ Mask<has_low, has_high> mask() const {
        return {mask_low, mask_high, kv_len};
    }
};

__device__ __forceinline__ f32 minus_infinity() {
    return __uint_as_float(0xFF800000U);
}

// 2^x by the special function unit; subnormal results become 0.
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

// The logarithm of a row's sum, from its peak times `unit` and the sum of the weights relative to the peak. -inf for a row
// without weight.
__device__ __forceinline__ f32 log_sum_exp(f32 peak, f32 sum, f32 unit) {
    return sum == 0.0F ? minus_infinity() : peak * unit + logf(sum);
}

// The factor by which a row's weighted sums are multiplied: 0 for a row without weight.
__device__ __forceinline__ f32 inverse_of(f32 sum) {
    return sum == 0.0F ? 0.0F : 1.0F / sum;
}

}  // namespace attention
