#pragma once
// PTX of sm_80 and later that the tensor-core families share: cp.async, ldmatrix, mma.sync and 16-bit conversions.
// Every wrapper with an effect is volatile, so that the source's order is the program's order.
#include "common/types.cuh"

namespace ptx {

// Converts a generic pointer to shared memory to the address that shared-memory instructions take.
__device__ __forceinline__ u32 shared_address(const void* pointer) {
    return static_cast<u32>(__cvta_generic_to_shared(pointer));
}

// ---- asynchronous copies ----

// Copies the first `valid_bytes` of `Bytes` (4, 8 or 16) from global memory and fills the rest with zeros. Nothing is read
// when valid_bytes is 0, so `source` may then point anywhere. REQUIRES: both addresses are multiples of Bytes.
template <int Bytes>
__device__ __forceinline__ void cp_async(u32 destination, const void* source, int valid_bytes) {
    static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16, "cp.async copies 4, 8 or 16 bytes");
    if constexpr (Bytes == 16) {
        asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(destination), "l"(source), "r"(valid_bytes)
                     : "memory");
    } else {
        asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], %3, %2;" ::"r"(destination), "l"(source), "r"(valid_bytes),
                     "n"(Bytes)
                     : "memory");
    }
}

__device__ __forceinline__ void cp_async_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until at most `Pending` of this thread's newest groups are unfinished.
template <int Pending>
__device__ __forceinline__ void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}

__device__ __forceinline__ void st_shared(u32 address, uint4 value) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w)
                 : "memory");
}

// ---- mbarrier of one block: a barrier whose arrival and wait are two instructions ----

// REQUIRES: one thread calls this, and the block synchronises before the first arrival.
__device__ __forceinline__ void mbarrier_init(u32 barrier, int arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void mbarrier_arrive(u32 barrier) {
    asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared.b64 state, [%0];\n}" ::"r"(barrier) : "memory");
}

__device__ __forceinline__ bool mbarrier_is_over(u32 barrier, u32 parity) {
    u32 over;
#if __CUDA_ARCH__ >= 900
    asm volatile("{\n.reg .pred over;\nmbarrier.try_wait.parity.shared.b64 over, [%1], %2;\nselp.u32 %0, 1, 0, over;\n}"
                 : "=r"(over)
                 : "r"(barrier), "r"(parity)
                 : "memory");
#else
    asm volatile("{\n.reg .pred over;\nmbarrier.test_wait.parity.shared.b64 over, [%1], %2;\nselp.u32 %0, 1, 0, over;\n}"
                 : "=r"(over)
                 : "r"(barrier), "r"(parity)
                 : "memory");
#endif
    return over != 0;
}

// Waits until the phase of this parity (0 for the first, 1 for the second, 0 again ...) is over.
__device__ __forceinline__ void mbarrier_wait(u32 barrier, u32 parity) {
    while (!mbarrier_is_over(barrier, parity)) {
    }
}

// ---- fragments ----

// Four 8x8 matrices of 16-bit elements; lanes 8i..8i+7 give the row addresses of matrix i (16 bytes each, 16-byte aligned).
__device__ __forceinline__ void ldmatrix_x4(u32 (&to)[4], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
}

// The same, each matrix transposed.
__device__ __forceinline__ void ldmatrix_x4_trans(u32 (&to)[4], u32 address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(address)
                 : "memory");
}

// ---- mma.sync m16n8k16: acc += a * b. In is f16 or bf16; accumulators are four floats or two packed pairs of f16. ----

template <typename In>
__device__ __forceinline__ void mma_m16n8k16(float (&acc)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    if constexpr (is_same<In, bf16>) {
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    } else {
        static_assert(is_same<In, f16>, "mma.sync m16n8k16 multiplies f16 or bf16");
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
}

template <typename In>
__device__ __forceinline__ void mma_m16n8k16(u32 (&acc)[2], const u32 (&a)[4], u32 b0, u32 b1) {
    static_assert(is_same<In, f16>, "f16 accumulation is for f16 inputs");
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
                 : "+r"(acc[0]), "+r"(acc[1])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// ---- pairs of 16-bit floats in one register, the first in the low half ----

template <typename T>
__device__ __forceinline__ u32 pack_pair(float low, float high) {
    u32 pair;
    if constexpr (is_same<T, bf16>) {
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    } else {
        static_assert(is_same<T, f16>, "pairs are of f16 or bf16");
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    }
    return pair;
}

template <typename T>
__device__ __forceinline__ float2 unpack_pair(u32 pair) {
    float2 values;
    if constexpr (is_same<T, bf16>) {
        values.x = __uint_as_float(pair << 16);
        values.y = __uint_as_float(pair & 0xffff0000u);
    } else {
        static_assert(is_same<T, f16>, "pairs are of f16 or bf16");
        asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %2;\ncvt.f32.f16 %0, low;\ncvt.f32.f16 %1, high;\n}"
            : "=f"(values.x), "=f"(values.y)
            : "r"(pair));
    }
    return values;
}

}  // namespace ptx
