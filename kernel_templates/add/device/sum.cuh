// Sums of elements, each rounded once to the element's type. f16 and bf16 are added in pairs, with one 32-bit word for a pair.
#pragma once

#include "common/types.cuh"

namespace {

// The elements of one 32-bit word: one f32, or two of 16 bits. For bf16 every GPU has an instruction for a * 1 + b, but only
// sm_90 and later have one for a + b.
template <class Type>
__device__ __forceinline__ u32 sum_of_words(u32 left, u32 right) {
    u32 sum;
    if constexpr (is_same<Type, f32>) {
        sum = __float_as_uint(__fadd_rn(__uint_as_float(left), __uint_as_float(right)));
    } else if constexpr (is_same<Type, f16>) {
        asm("add.rn.f16x2 %0, %1, %2;" : "=r"(sum) : "r"(left), "r"(right));
    } else {
        static_assert(is_same<Type, bf16>, "sums are of f32, f16 or bf16");
        asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(left), "r"(0x3F803F80U), "r"(right));
    }
    return sum;
}

}  // namespace
