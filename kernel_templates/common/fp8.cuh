// The two 8-bit floating-point types. After common/types.cuh. e4m3 has no infinity: its largest number is 448, a NaN is all ones; e5m2 has
// infinities and reaches 57344.
#pragma once

struct e4m3 {
    u8 bits;
};
struct e5m2 {
    u8 bits;
};

__device__ __forceinline__ f32 to_f32(e4m3 x) {
    const u32 magnitude = x.bits & 0x7Fu, sign = static_cast<u32>(x.bits & 0x80u) << 24;
    if (magnitude == 0x7Fu) return __uint_as_float(sign | 0x7FC00000u);
    // Below 8 the number is a multiple of 2^-9 without a leading one, so its units are counted and scaled.
    const f32 small = static_cast<f32>(magnitude) * 0.001953125f;
    return __uint_as_float(sign | (magnitude < 8 ? __float_as_uint(small) : (magnitude << 20) + (120u << 23)));
}
// ---- from f32: rounded once, to nearest, ties to even; values that are too large become the largest number ----

__device__ __forceinline__ u16 fp8_pair(e4m3, f32 low, f32 high) {
    u16 pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
    return pair;
}
__device__ __forceinline__ u16 fp8_pair(e5m2, f32 low, f32 high) {
    u16 pair;
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
    return pair;
}
template <>
__device__ __forceinline__ e4m3 from_f32<e4m3>(f32 value) {
    return {static_cast<u8>(fp8_pair(e4m3{}, value, 0.0F))};
}
template <>
__device__ __forceinline__ e5m2 from_f32<e5m2>(f32 value) {
    return {static_cast<u8>(fp8_pair(e5m2{}, value, 0.0F))};
}

// The bits of an e5m2 are the upper half of an f16's bits.
__device__ __forceinline__ f32 to_f32(e5m2 x) { return to_f32(f16{static_cast<u16>(x.bits << 8)}); }
