// What kernels of fp8 write: pairs of sums, and C. After common/fp8.cuh and common/hopper.cuh; REQUIRES Out and Register.
#pragma once

namespace {

using hopper::TensorMap;

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
    u32 pair;
    if constexpr (is_same<To, bf16>)
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    else
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

struct Output {
    Out* c;
    const TensorMap* map;
    u64 policy;
    float alpha, beta;
    long long ldc, stride_c;
    Register* partial;  // slots of block_m * block_n sums
    u32* counters;      // parts finished, one per tile and math group; zero between launches
};

}  // namespace
