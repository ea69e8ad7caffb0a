// A thread's sums as wgmma and mma.sync leave them in registers, in pairs of neighbouring columns. REQUIRES common/types.cuh and,
// as a constant before the include: converts_pairs (1: one PTX instruction rounds both elements of a pair; 0: one each). ptxas
// compiles both to one instruction, but with different operand registers. Winners were measured with one of them, so the choice
// is part of the code.
#pragma once

namespace {

// A register of sums: an f32, or the f16 of two neighbouring columns.
template <typename Sum>
struct RegisterOf {
    using Type = float;
};
template <>
struct RegisterOf<f16> {
    using Type = u32;
};

// Two neighbouring columns: pair `i` of a run of registers.
struct Pair {
    float low, high;
};
__device__ __forceinline__ Pair pair_of(const float* registers, int i) { return {registers[2 * i], registers[2 * i + 1]}; }
__device__ __forceinline__ Pair pair_of(const u32* registers, int i) {
    return {to_f32(f16{static_cast<u16>(registers[i])}), to_f32(f16{static_cast<u16>(registers[i] >> 16)})};
}
template <typename To>
__device__ __forceinline__ u32 pack2(float low, float high) {
    if constexpr (converts_pairs) {
        u32 pair;
        if constexpr (is_same<To, bf16>)
            asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
        else
            asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
        return pair;
    }
    return static_cast<u32>(from_f32<To>(low).bits) | static_cast<u32>(from_f32<To>(high).bits) << 16;
}

}  // namespace
