// Element types and their conversions, for source that NVRTC compiles without any toolkit header. Every template includes this
// file first. Dtype placeholders become the words f16, bf16, f32, f64.
#pragma once

// The symbol of an instance is AUTOTUNE_KERNEL (defined by the template's first block). AUTOTUNE_ENTRY(_reduce) is that symbol
// with a suffix: the name of a second kernel, LaunchStep::entry. AUTOTUNE_ENTRY() is the main one.
#define AUTOTUNE_PASTE_EXPANDED(symbol, suffix) symbol##suffix
#define AUTOTUNE_PASTE(symbol, suffix) AUTOTUNE_PASTE_EXPANDED(symbol, suffix)
#define AUTOTUNE_ENTRY(suffix) AUTOTUNE_PASTE(AUTOTUNE_KERNEL, suffix)

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using i32 = int;
using i64 = long long;

using f32 = float;
using f64 = double;

struct f16 {
    u16 bits;
};
struct bf16 {
    u16 bits;
};

template <class Left, class Right>
inline constexpr bool is_same = false;
template <class Type>
inline constexpr bool is_same<Type, Type> = true;

// ---- to f32 and f64: exact ----

__device__ __forceinline__ f32 to_f32(f16 x) {
    f32 value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(x.bits));
    return value;
}
__device__ __forceinline__ f32 to_f32(bf16 x) {
    return __uint_as_float(static_cast<u32>(x.bits) << 16);
}
__device__ __forceinline__ f32 to_f32(f32 x) {
    return x;
}

template <class Type>
__device__ __forceinline__ f64 to_f64(Type x) {
    return static_cast<f64>(to_f32(x));
}
template <>
__device__ __forceinline__ f64 to_f64<f64>(f64 x) {
    return x;
}

// ---- from f32 and f64: rounded once, to nearest, ties to even ----

template <class Type>
__device__ __forceinline__ Type from_f32(f32 value);
template <>
__device__ __forceinline__ f16 from_f32<f16>(f32 value) {
    f16 x;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(x.bits) : "f"(value));
    return x;
}
template <>
__device__ __forceinline__ bf16 from_f32<bf16>(f32 value) {
    bf16 x;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(x.bits) : "f"(value));
    return x;
}
template <>
__device__ __forceinline__ f32 from_f32<f32>(f32 value) {
    return value;
}
template <>
__device__ __forceinline__ f64 from_f32<f64>(f32 value) {
    return static_cast<f64>(value);
}

// Truncates, and sets the last bit if the result is inexact. Rounding the result again, to a type at least two bits narrower,
// equals rounding the f64 directly.
__device__ __forceinline__ f32 to_f32_odd(f64 value) {
    f32 narrow;
    asm("cvt.rz.f32.f64 %0, %1;" : "=f"(narrow) : "d"(value));
    const bool is_exact = static_cast<f64>(narrow) == value || value != value;
    return is_exact ? narrow : __uint_as_float(__float_as_uint(narrow) | 1U);
}
template <class Type>
__device__ __forceinline__ Type from_f64(f64 value) {
    return from_f32<Type>(to_f32_odd(value));
}
template <>
__device__ __forceinline__ f32 from_f64<f32>(f64 value) {
    return static_cast<f32>(value);
}
template <>
__device__ __forceinline__ f64 from_f64<f64>(f64 value) {
    return value;
}

// ---- arithmetic in the accumulator's type ----

template <class Type>
__device__ __forceinline__ Type zero_of() {
    return from_f32<Type>(0.0F);
}

// a * b + c, rounded once. The sum's type is the accumulator's.
template <class In>
__device__ __forceinline__ f32 multiply_add(In a, In b, f32 c) {
    return __fmaf_rn(to_f32(a), to_f32(b), c);
}
__device__ __forceinline__ f16 multiply_add(f16 a, f16 b, f16 c) {
    f16 sum;
    asm("fma.rn.f16 %0, %1, %2, %3;" : "=h"(sum.bits) : "h"(a.bits), "h"(b.bits), "h"(c.bits));
    return sum;
}

// ---- several elements in one access ----

template <int bytes>
struct RawBits;
template <>
struct RawBits<1> {
    using Type = u8;
};
template <>
struct RawBits<2> {
    using Type = u16;
};
template <>
struct RawBits<4> {
    using Type = u32;
};
template <>
struct RawBits<8> {
    using Type = uint2;
};
template <>
struct RawBits<16> {
    using Type = uint4;
};

// `count` elements that are moved together, in one load or store of count * sizeof(Type) bytes (at most 16).
template <class Type, int count>
union Pack {
    typename RawBits<static_cast<int>(sizeof(Type)) * count>::Type raw;
    Type at[count];
};

// REQUIRES: `from` is aligned to the pack's size.
template <class Type, int count>
__device__ __forceinline__ Pack<Type, count> load_pack(const Type* from) {
    Pack<Type, count> pack;
    pack.raw = *reinterpret_cast<const decltype(pack.raw)*>(from);
    return pack;
}
template <class Type, int count>
__device__ __forceinline__ void store_pack(Type* to, const Pack<Type, count>& pack) {
    *reinterpret_cast<decltype(pack.raw)*>(to) = pack.raw;
}

template <class Type>
__device__ __forceinline__ constexpr Type smaller(Type left, Type right) {
    return left < right ? left : right;
}
