// PTX of sm_90a: mbarriers, bulk tensor copies (TMA), warpgroup matrix multiply (wgmma), clusters, register reallocation.
// Spellings: PTX ISA 8.7; descriptors: its section on wgmma shared-memory matrix layouts.
#pragma once

#include "common/types.cuh"
#include "common/wgmma_registers.cuh"

namespace hopper {

struct alignas(64) TensorMap {
    u64 words[16];
};

__device__ __forceinline__ u32 smem_address(const void* pointer) { return static_cast<u32>(__cvta_generic_to_shared(pointer)); }

// ---- mbarrier ----

__device__ __forceinline__ void barrier_init(u32 barrier, u32 arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
// Makes initialised barriers visible to the cluster and to the asynchronous proxy.
__device__ __forceinline__ void fence_barrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ __forceinline__ void barrier_expect(u32 barrier, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrier_arrive(u32 barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// Arrives on the barrier at the same offset in block `rank` of the cluster.
__device__ __forceinline__ void barrier_arrive_remote(u32 barrier, u32 rank) {
    asm volatile(
        "{\n .reg .b32 remote;\n mapa.shared::cluster.u32 remote, %0, %1;\n"
        " mbarrier.arrive.shared::cluster.b64 _, [remote];\n}" ::"r"(barrier),
        "r"(rank)
        : "memory");
}
// Waits until the phase with that parity has completed; in each try the hardware suspends the thread for a while. The barrier
// guards memory that TMA and wgmma read and write, and these order their accesses themselves. With .cluster scope, each arrival
// and wait became a fence for the whole block, and blocks in clusters of two took 1.5 times as long (H200, 2026-11-21).
__device__ __forceinline__ void barrier_wait(u32 barrier, u32 parity) {
    asm volatile(
        "{\n .reg .pred done;\n"
        "again:\n mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n @done bra finished;\n bra again;\n"
        "finished:\n}" ::"r"(barrier),
        "r"(parity)
        : "memory");
}
// Waits for data that other blocks of the cluster wrote with st.async. Call it once, not in a loop (see above).
__device__ __forceinline__ void barrier_wait_cluster(u32 barrier, u32 parity) {
    asm volatile(
        "{\n .reg .pred done;\n"
        "again:\n mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n @done bra finished;\n bra again;\n"
        "finished:\n}" ::"r"(barrier),
        "r"(parity)
        : "memory");
}

// ---- TMA ----

__device__ __forceinline__ void prefetch_map(const TensorMap* map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
// L2 policies, encoded as createpolicy would.
constexpr u64 policy_normal = 0x1000000000000000ull;
constexpr u64 policy_evict_first = 0x12F0000000000000ull;

__device__ __forceinline__ void load_box(u32 destination, const TensorMap* map, u32 barrier, int x, int y, int z, u64 policy) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
        " [%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(destination),
        "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "l"(policy)
        : "memory");
}
// Loads to the same offset in every block of `mask`, and signals the barrier at the same offset there.
__device__ __forceinline__ void load_box_multicast(u32 destination, const TensorMap* map, u32 barrier, int x, int y, int z,
                                                   u64 policy, unsigned short mask) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint"
        " [%0], [%1, {%3, %4, %5}], [%2], %6, %7;" ::"r"(destination),
        "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z), "h"(mask), "l"(policy)
        : "memory");
}
// Into L2 alone.
__device__ __forceinline__ void prefetch_box(const TensorMap* map, int x, int y, int z) {
    asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global.tile [%0, {%1, %2, %3}];" ::"l"(map), "r"(x), "r"(y), "r"(z)
                 : "memory");
}
__device__ __forceinline__ void store_box(const TensorMap* map, u32 source, int x, int y, int z) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map), "r"(source),
                 "r"(x), "r"(y), "r"(z)
                 : "memory");
}
__device__ __forceinline__ void store_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Waits until at most `pending` of this thread's store groups still read shared memory.
template <int pending>
__device__ __forceinline__ void store_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(pending) : "memory");
}
// Orders this thread's ordinary shared-memory writes before later reads by TMA or wgmma.
__device__ __forceinline__ void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// ---- warps, warpgroups, clusters ----

template <int registers>
__device__ __forceinline__ void give_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}
template <int registers>
__device__ __forceinline__ void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}
__device__ __forceinline__ void named_barrier(int id, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ __forceinline__ u32 cluster_rank() {
    u32 rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
// Waits for all threads of the cluster. Orders no writes but those of barriers after fence_barrier_init, because a release here would wait
// for every write that is still on its way to memory.
__device__ __forceinline__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// ---- wgmma ----

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int pending>
__device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

// Shared-memory matrix descriptor. swizzle_bytes in {32, 64, 128}; `leading` and `stride` are byte offsets. K-major operands: leading is
// unused, stride spans 8 rows. MN-major: leading is the distance from one swizzle span of M or N to the next, stride spans 8 rows of K.
__device__ __forceinline__ u64 matrix_descriptor(u32 address, u32 leading, u32 stride, int swizzle_bytes) {
    const u64 mode = swizzle_bytes == 128 ? 1 : swizzle_bytes == 64 ? 2 : 3;
    return static_cast<u64>((address & 0x3FFFF) >> 4) | static_cast<u64>(leading >> 4) << 16 |
           static_cast<u64>(stride >> 4) << 32 | mode << 62;
}

// Stores four 8x8 matrices of 16-bit elements from the accumulator layout to shared memory; each lane gives the address of one row.
__device__ __forceinline__ void store_matrices(u32 address, u32 r0, u32 r1, u32 r2, u32 r3) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(r0), "r"(r1), "r"(r2),
                 "r"(r3)
                 : "memory");
}

// Stores with each 8x8 matrix transposed. Each lane gives the address of one column.
__device__ __forceinline__ void store_matrices_transposed(u32 address, u32 r0, u32 r1, u32 r2, u32 r3) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(r0), "r"(r1),
                 "r"(r2), "r"(r3)
                 : "memory");
}

// ---- communication between the blocks of a cluster ----

// Sends four floats to `address` in block `rank`; the barrier there counts 16 bytes. Both are offsets that are valid in every block.
__device__ __forceinline__ void send_remote(u32 address, u32 barrier, u32 rank, const float* values) {
    asm volatile(
        "{\n .reg .b32 to, counter;\n mapa.shared::cluster.u32 to, %0, %2;\n mapa.shared::cluster.u32 counter, %1, %2;\n"
        " st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [to], {%3, %4, %5, %6}, [counter];\n}" ::"r"(address),
        "r"(barrier), "r"(rank), "f"(values[0]), "f"(values[1]), "f"(values[2]), "f"(values[3])
        : "memory");
}
// Sends two registers of f16 pairs, counted as 8 bytes.
__device__ __forceinline__ void send_remote(u32 address, u32 barrier, u32 rank, const u32* pairs) {
    asm volatile(
        "{\n .reg .b32 to, counter;\n mapa.shared::cluster.u32 to, %0, %2;\n mapa.shared::cluster.u32 counter, %1, %2;\n"
        " st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.b32 [to], {%3, %4}, [counter];\n}" ::"r"(address),
        "r"(barrier), "r"(rank), "r"(pairs[0]), "r"(pairs[1])
        : "memory");
}
__device__ __forceinline__ void load_shared(u32 address, float* values) {
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(values[0]), "=f"(values[1]), "=f"(values[2]), "=f"(values[3])
                 : "r"(address)
                 : "memory");
}
__device__ __forceinline__ void load_shared(u32 address, u32* pairs) {
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(pairs[0]), "=r"(pairs[1]) : "r"(address) : "memory");
}

// ---- multiplications ----

// d = A(64 x 16) B(16 x n) + (accumulate ? d : 0), A and B in shared memory; d is n / 2 registers of f32, or n / 4 of f16 pairs
// in the same positions. One specialisation for each n in 16, 32, ..., 256: inline PTX needs its register list spelled out
// (common/wgmma_registers.cuh).
template <int n, typename In, typename Acc, int trans_a, int trans_b>
struct Wgmma;

#define AT_ISSUE(n, types, c, blocks, a, b, keep, ta, tb)                                                           \
    asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, " keep                                                         \
                 ", 0;\n wgmma.mma_async.sync.aligned.m64n" #n "k16." types " {" AT_WGMMA_R##blocks "}, " a ", " b ", p, 1, 1, " ta ", " tb \
                 ";\n}"                                                                                             \
                 : AT_WGMMA_C##blocks(c)                                                                            \
                 : "l"(desc_a), "l"(desc_b), "r"(accumulate), "n"(trans_a), "n"(trans_b))
#define AT_WGMMA(n, blocks, a, b, keep, ta, tb)                                                        \
    template <typename In, int trans_a, int trans_b>                                                   \
    struct Wgmma<n, In, f32, trans_a, trans_b> {                                                       \
        static __device__ __forceinline__ void run(float* d, u64 desc_a, u64 desc_b, int accumulate) { \
            if constexpr (is_same<In, bf16>)                                                           \
                AT_ISSUE(n, "f32.bf16.bf16", "+f", blocks, a, b, keep, ta, tb);                        \
            else                                                                                       \
                AT_ISSUE(n, "f32.f16.f16", "+f", blocks, a, b, keep, ta, tb);                          \
        }                                                                                              \
    };
#define AT_WGMMA_F16(n, blocks, a, b, keep, ta, tb)                                                  \
    template <int trans_a, int trans_b>                                                              \
    struct Wgmma<n, f16, f16, trans_a, trans_b> {                                                    \
        static __device__ __forceinline__ void run(u32* d, u64 desc_a, u64 desc_b, int accumulate) { \
            AT_ISSUE(n, "f16.f16.f16", "+r", blocks, a, b, keep, ta, tb);                            \
        }                                                                                            \
    };

AT_WGMMA(16, 0, "%8", "%9", "%10", "%11", "%12")
AT_WGMMA(32, 1, "%16", "%17", "%18", "%19", "%20")
AT_WGMMA(48, 2, "%24", "%25", "%26", "%27", "%28")
AT_WGMMA(64, 3, "%32", "%33", "%34", "%35", "%36")
AT_WGMMA(80, 4, "%40", "%41", "%42", "%43", "%44")
AT_WGMMA(96, 5, "%48", "%49", "%50", "%51", "%52")
AT_WGMMA(112, 6, "%56", "%57", "%58", "%59", "%60")
AT_WGMMA(128, 7, "%64", "%65", "%66", "%67", "%68")
AT_WGMMA(144, 8, "%72", "%73", "%74", "%75", "%76")
AT_WGMMA(160, 9, "%80", "%81", "%82", "%83", "%84")
AT_WGMMA(176, 10, "%88", "%89", "%90", "%91", "%92")
AT_WGMMA(192, 11, "%96", "%97", "%98", "%99", "%100")
AT_WGMMA(208, 12, "%104", "%105", "%106", "%107", "%108")
AT_WGMMA(224, 13, "%112", "%113", "%114", "%115", "%116")
AT_WGMMA(240, 14, "%120", "%121", "%122", "%123", "%124")
AT_WGMMA(256, 15, "%128", "%129", "%130", "%131", "%132")

AT_WGMMA_F16(16, 0h, "%4", "%5", "%6", "%7", "%8")
AT_WGMMA_F16(32, 0, "%8", "%9", "%10", "%11", "%12")
AT_WGMMA_F16(48, 1h, "%12", "%13", "%14", "%15", "%16")
AT_WGMMA_F16(64, 1, "%16", "%17", "%18", "%19", "%20")
AT_WGMMA_F16(80, 2h, "%20", "%21", "%22", "%23", "%24")
AT_WGMMA_F16(96, 2, "%24", "%25", "%26", "%27", "%28")
AT_WGMMA_F16(112, 3h, "%28", "%29", "%30", "%31", "%32")
AT_WGMMA_F16(128, 3, "%32", "%33", "%34", "%35", "%36")
AT_WGMMA_F16(144, 4h, "%36", "%37", "%38", "%39", "%40")
AT_WGMMA_F16(160, 4, "%40", "%41", "%42", "%43", "%44")
AT_WGMMA_F16(176, 5h, "%44", "%45", "%46", "%47", "%48")
AT_WGMMA_F16(192, 5, "%48", "%49", "%50", "%51", "%52")
AT_WGMMA_F16(208, 6h, "%52", "%53", "%54", "%55", "%56")
AT_WGMMA_F16(224, 6, "%56", "%57", "%58", "%59", "%60")
AT_WGMMA_F16(240, 7h, "%60", "%61", "%62", "%63", "%64")
AT_WGMMA_F16(256, 7, "%64", "%65", "%66", "%67", "%68")

#undef AT_ISSUE
#undef AT_WGMMA
#undef AT_WGMMA_F16

}  // namespace hopper
