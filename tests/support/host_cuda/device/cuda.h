// The part of CUDA C++ that our templates use, for g++. It is prepended to a rendered text, in which inline PTX was replaced by
// calls of ptx.h.
#pragma once

#include "machine.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(bytes) __attribute__((aligned(bytes)))

#define threadIdx (host_cuda_machine->thread)
#define blockIdx (host_cuda_machine->block)
#define blockDim (host_cuda_machine->block_extent)
#define gridDim (host_cuda_machine->grid_extent)

extern "C" {
// Set by the tests before they launch a kernel.
host_cuda::Machine* host_cuda_machine;
// Dynamic shared memory of the running block. It is in the kernel's own library, like static shared memory, so that 32-bit
// offsets reach both.
alignas(1024) unsigned char host_cuda_shared[256 << 10];
// Static shared memory, a section of its own; absent if the text has none.
extern unsigned char __start_host_cuda_static[] __attribute__((weak)), __stop_host_cuda_static[] __attribute__((weak));
unsigned char* host_cuda_static_begin() {
    return __start_host_cuda_static;
}
unsigned char* host_cuda_static_end() {
    return __stop_host_cuda_static;
}

float expf(float) noexcept;
float exp2f(float) noexcept;
float logf(float) noexcept;
float log2f(float) noexcept;
float fmaxf(float, float) noexcept;
float fminf(float, float) noexcept;
float fabsf(float) noexcept;
double exp(double) noexcept;
double log(double) noexcept;
double fabs(double) noexcept;
double fmax(double, double) noexcept;
double fmin(double, double) noexcept;
double fma(double, double, double) noexcept;
float fmaf(float, float, float) noexcept;
}

struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
inline uint2 make_uint2(unsigned x, unsigned y) {
    return {x, y};
}
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
    return {x, y, z, w};
}
inline float2 make_float2(float x, float y) {
    return {x, y};
}
inline float4 make_float4(float x, float y, float z, float w) {
    return {x, y, z, w};
}

inline int min(int left, int right) {
    return left < right ? left : right;
}
inline int max(int left, int right) {
    return left > right ? left : right;
}
inline long long min(long long left, long long right) {
    return left < right ? left : right;
}
inline long long max(long long left, long long right) {
    return left > right ? left : right;
}
inline unsigned min(unsigned left, unsigned right) {
    return left < right ? left : right;
}
inline unsigned max(unsigned left, unsigned right) {
    return left > right ? left : right;
}

template <class To, class From>
inline To host_cuda_bits(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    __builtin_memcpy(&to, &from, sizeof(to));
    return to;
}
inline float __uint_as_float(unsigned bits) {
    return host_cuda_bits<float>(bits);
}
inline float __int_as_float(int bits) {
    return host_cuda_bits<float>(bits);
}
inline unsigned __float_as_uint(float value) {
    return host_cuda_bits<unsigned>(value);
}
inline double __longlong_as_double(long long bits) {
    return host_cuda_bits<double>(bits);
}
inline long long __double_as_longlong(double value) {
    return host_cuda_bits<long long>(value);
}

inline float __fmaf_rn(float a, float b, float c) {
    return __builtin_fmaf(a, b, c);
}
inline float __fmul_rn(float a, float b) {
    return a * b;
}
inline float __fadd_rn(float a, float b) {
    return a + b;
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
    return static_cast<unsigned>((static_cast<unsigned long long>(high) << 32 | low) >> (shift & 31));
}
inline unsigned __byte_perm(unsigned low, unsigned high, unsigned selector) {
    const unsigned long long bytes = static_cast<unsigned long long>(high) << 32 | low;
    unsigned result = 0;
    for (int i = 0; i < 4; ++i) result |= static_cast<unsigned>(bytes >> (selector >> 4 * i & 7) * 8 & 0xFF) << 8 * i;
    return result;
}

// Blocks run one after the other, and a thread runs until it waits, so every access is atomic.
template <class Type>
inline Type __ldcg(const Type* from) {
    return *from;
}
template <class Type>
inline void __stcg(Type* to, Type value) {
    *to = value;
}
template <class Type>
inline Type atomicAdd(Type* at, Type value) {
    const Type before = *at;
    *at = before + value;
    return before;
}
template <class Type>
inline Type atomicMax(Type* at, Type value) {
    const Type before = *at;
    *at = before < value ? value : before;
    return before;
}
inline unsigned atomicInc(unsigned* at, unsigned last) {
    const unsigned before = *at;
    *at = before >= last ? 0 : before + 1;
    return before;
}
inline void __threadfence() {}

// Addresses of shared memory count from the start of the dynamic part.
inline unsigned long long __cvta_generic_to_shared(const void* pointer) {
    return static_cast<unsigned>(static_cast<const unsigned char*>(pointer) - host_cuda_shared);
}

inline void __syncthreads() {
    host_cuda_machine->barrier(0, 0);
}

namespace host_cuda {

// Each lane's value, of up to eight bytes.
template <class Type>
struct Lanes {
    u64 words[32];

    Lanes(u32 mask, const char* instruction, Type mine) {
        u64 word = 0;
        __builtin_memcpy(&word, &mine, sizeof(mine));
        host_cuda_machine->gather(mask, instruction, word, words);
    }
    Type at(int lane) const {
        Type value;
        __builtin_memcpy(&value, &words[lane], sizeof(value));
        return value;
    }
};
inline int lane() {
    return static_cast<int>(host_cuda_machine->thread.x % 32);
}

// A kernel in the form that tests call: each parameter is one word, larger ones as many words as they need.
template <class... Parameters>
struct Call {
    void (*kernel)(Parameters...);

    template <class Parameter>
    static constexpr int words_of = (sizeof(Parameter) + sizeof(u64) - 1) / sizeof(u64);

    template <class Parameter>
    static Parameter taken(const u64*& words) {
        Parameter parameter;
        __builtin_memcpy(&parameter, words, sizeof(parameter));
        words += words_of<Parameter>;
        return parameter;
    }
    // A braced list evaluates its elements from left to right.
    struct Run {
        template <class... Taken>
        Run(void (*kernel)(Parameters...), Taken... parameters) {
            kernel(parameters...);
        }
    };
    void operator()(const u64* words) const { Run{kernel, taken<Parameters>(words)...}; }
    static constexpr int count = (0 + ... + words_of<Parameters>);
};
template <class... Parameters>
Call<Parameters...> call(void (*kernel)(Parameters...)) {
    return {kernel};
}

}  // namespace host_cuda

inline void __syncwarp(unsigned mask = 0xffffffffU) {
    host_cuda::Lanes<int>(mask, "__syncwarp", 0);
}
template <class Type>
inline Type __shfl_xor_sync(unsigned mask, Type mine, int bits, int width = 32) {
    const host_cuda::Lanes<Type> all(mask, "__shfl_xor_sync", mine);
    const int from = host_cuda::lane() ^ bits;
    return from / width <= host_cuda::lane() / width ? all.at(from) : mine;
}
template <class Type>
inline Type __shfl_sync(unsigned mask, Type mine, int from, int width = 32) {
    const host_cuda::Lanes<Type> all(mask, "__shfl_sync", mine);
    return all.at(host_cuda::lane() / width * width + from % width);
}
inline int __any_sync(unsigned mask, bool mine) {
    const host_cuda::Lanes<bool> all(mask, "__any_sync", mine);
    bool any = false;
    for (int lane = 0; lane < 32; ++lane) any = any || ((mask >> lane & 1) != 0 && all.at(lane));
    return any;
}
inline unsigned __reduce_add_sync(unsigned mask, unsigned mine) {
    const host_cuda::Lanes<unsigned> all(mask, "__reduce_add_sync", mine);
    unsigned sum = 0;
    for (int lane = 0; lane < 32; ++lane) sum += (mask >> lane & 1) != 0 ? all.at(lane) : 0;
    return sum;
}
inline unsigned __reduce_max_sync(unsigned mask, unsigned mine) {
    const host_cuda::Lanes<unsigned> all(mask, "__reduce_max_sync", mine);
    unsigned largest = 0;
    for (int lane = 0; lane < 32; ++lane) largest = (mask >> lane & 1) != 0 && all.at(lane) > largest ? all.at(lane) : largest;
    return largest;
}

#include "ptx.h"
