#pragma once
// f32 operands for tensor cores that take tf32, which is f32 truncated to 10 bits of mantissa: the hardware ignores the other
// bits. Needs common/types.cuh.

namespace {

// Splits an element into a sum of two. `high` is rounded to tf32; `low` is the exact remainder, of which the hardware drops at
// most one bit. Rounding may overflow to infinity, and `low` of an infinity is NaN, so results that are not finite are computed
// again (see exact_sum).
struct TwoParts {
    u32 high, low;
};
__device__ __forceinline__ TwoParts split_in_two(u32 bits) {
    const u32 high = (bits + 0x1000U) & 0xFFFFE000U;
    return {high, __float_as_uint(__uint_as_float(bits) - __uint_as_float(high))};
}

__device__ __forceinline__ bool is_finite(f32 value) {
    return (__float_as_uint(value) & 0x7F800000U) != 0x7F800000U;
}

// acc += a b of 16 x 8 by 8 x 8 elements.
__device__ __forceinline__ void mma_m16n8k8_tf32(float (&acc)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// One element of C, summed on CUDA cores. Overflow, infinities and NaN are as in IEEE arithmetic.
__device__ __forceinline__ f32 exact_sum(const f32* a, i64 step_a, const f32* b, i64 step_b, int k) {
    f32 sum = 0.0F;
#pragma unroll 1
    for (int i = 0; i < k; ++i) sum = __fmaf_rn(a[i * step_a], b[i * step_b], sum);
    return sum;
}

}  // namespace
