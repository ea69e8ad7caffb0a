// wgmma of tf32 on sm_90a, in addition to hopper.cuh. Operands are contiguous along K: B in shared memory, A there or in registers.
#pragma once

#include "common/types.cuh"
#include "common/wgmma_registers.cuh"

namespace hopper {

// d = A(64 x 8) B(8 x n) + (accumulate ? d : 0); d is n / 2 registers. A comes from shared memory by its descriptor, or from four
// registers per thread: lane 4 r + t of warp w has rows 16 w + r and 16 w + r + 8 at k = t, then the same rows at k = t + 4.
template <int n>
struct WgmmaTf32;

#define AT_WGMMA(n, blocks, x0, x1, x2, x3, x4, x5)                                                                             \
    template <>                                                                                                                \
    struct WgmmaTf32<n> {                                                                                                      \
        static __device__ __forceinline__ void run(float* d, u64 desc_a, u64 desc_b, int accumulate) {                         \
            asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, " x2                                                             \
                         ", 0;\n wgmma.mma_async.sync.aligned.m64n" #n "k8.f32.tf32.tf32 {" AT_WGMMA_R##blocks "}, " x0 ", " x1 \
                         ", p, 1, 1;\n}"                                                                                       \
                         : AT_WGMMA_C##blocks("+f")                                                                            \
                         : "l"(desc_a), "l"(desc_b), "r"(accumulate));                                                         \
        }                                                                                                                      \
        static __device__ __forceinline__ void run(float* d, const u32* a, u64 desc_b, int accumulate) {                       \
            asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, " x5                                                             \
                         ", 0;\n wgmma.mma_async.sync.aligned.m64n" #n "k8.f32.tf32.tf32 {" AT_WGMMA_R##blocks "}, {" x0 "," x1 "," x2 \
                         "," x3 "}, " x4 ", p, 1, 1;\n}"                                                                       \
                         : AT_WGMMA_C##blocks("+f")                                                                            \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(desc_b), "r"(accumulate));                          \
        }                                                                                                                      \
    };

AT_WGMMA(32, 1, "%16", "%17", "%18", "%19", "%20", "%21")
AT_WGMMA(64, 3, "%32", "%33", "%34", "%35", "%36", "%37")
AT_WGMMA(96, 5, "%48", "%49", "%50", "%51", "%52", "%53")
AT_WGMMA(128, 7, "%64", "%65", "%66", "%67", "%68", "%69")
AT_WGMMA(160, 9, "%80", "%81", "%82", "%83", "%84", "%85")
AT_WGMMA(192, 11, "%96", "%97", "%98", "%99", "%100", "%101")
AT_WGMMA(224, 13, "%112", "%113", "%114", "%115", "%116", "%117")
AT_WGMMA(256, 15, "%128", "%129", "%130", "%131", "%132", "%133")

#undef AT_WGMMA

}  // namespace hopper
