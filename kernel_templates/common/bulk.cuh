// PTX of sm_90 and later: copies of contiguous bytes between global and shared memory that the hardware carries out by itself
// (cp.async.bulk). Their barriers are those of ptx.cuh. Addresses and sizes are multiples of 16 bytes.
#pragma once

#include "common/ptx.cuh"

namespace bulk {

// L2 policies, encoded as createpolicy would.
constexpr u64 policy_normal = 0x1000000000000000ull;
constexpr u64 policy_evict_first = 0x12F0000000000000ull;

// Makes initialised barriers visible to the copies.
__device__ __forceinline__ void fence_barrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
// Arrives, and makes the barrier's phase wait for `bytes` of copies.
__device__ __forceinline__ void barrier_expect(u32 barrier, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ __forceinline__ void load(u32 to, const void* from, u32 bytes, u32 barrier, u64 policy) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(to),
        "l"(from), "r"(bytes), "r"(barrier), "l"(policy)
        : "memory");
}
// The copies of a thread's store() calls up to commit() are a group.
__device__ __forceinline__ void store(void* to, u32 from, u32 bytes, u64 policy) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%0], [%1], %2, %3;" ::"l"(to), "r"(from), "r"(bytes),
                 "l"(policy)
                 : "memory");
}
__device__ __forceinline__ void commit() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// Waits until at most `pending` of this thread's groups still read shared memory.
template <int pending>
__device__ __forceinline__ void wait_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(pending) : "memory");
}
__device__ __forceinline__ void wait_all() {
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
// Orders this thread's ordinary accesses to shared memory before copies that are issued after a barrier.
__device__ __forceinline__ void fence_shared() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace bulk
