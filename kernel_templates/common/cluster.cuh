// Communication between the blocks of a cluster (sm_90 and later). On older GPUs a cluster is one block and nothing here is called.
#pragma once

#include "common/ptx.cuh"

namespace cluster {

__device__ __forceinline__ u32 rank() {
    u32 value = 0;
#if __CUDA_ARCH__ >= 900
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(value));
#endif
    return value;
}

// Every thread of the cluster arrives. What was written before to any of its blocks' shared memory can be read afterwards.
__device__ __forceinline__ void sync() {
#if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

// Stores a pair to shared address `to` of the block of that rank. REQUIRES: `to` is a multiple of 8.
__device__ __forceinline__ void store_pair(u32 to, u32 of_rank, float2 pair) {
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\nst.shared::cluster.v2.f32 [remote], {%2, %3};\n}" ::"r"(
            to),
        "r"(of_rank), "f"(pair.x), "f"(pair.y)
        : "memory");
#endif
}

}  // namespace cluster
