// wgmma on fp8, k32. Both operands are K-major in shared memory. Sums are in f32 registers, of which the tensor cores of sm_90
// use about 13 fraction bits when they add. REQUIRES common/fp8.cuh and common/hopper.cuh.
#pragma once

#include "common/wgmma_registers.cuh"

namespace hopper {

// d = A(64 x 32) B(32 x n) + (accumulate ? d : 0); d is n / 2 registers. One specialisation for each n in 16, 32, ..., 256.
template <int n, typename Left, typename Right>
struct WgmmaFp8;

#define AT_ISSUE_FP8(n, types, blocks, a, b, keep)                                                                  \
    asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, " keep                                                         \
                 ", 0;\n wgmma.mma_async.sync.aligned.m64n" #n "k32.f32." types " {" AT_WGMMA_R##blocks "}, " a ", " b ", p, 1, 1;\n}" \
                 : AT_WGMMA_C##blocks("+f")                                                                         \
                 : "l"(desc_a), "l"(desc_b), "r"(accumulate))
#define AT_WGMMA_FP8(n, blocks, a, b, keep)                                                                \
    template <typename Left, typename Right>                                                               \
    struct WgmmaFp8<n, Left, Right> {                                                                      \
        static __device__ __forceinline__ void run(float* d, u64 desc_a, u64 desc_b, int accumulate) {     \
            if constexpr (is_same<Left, e4m3> && is_same<Right, e4m3>)                                     \
                AT_ISSUE_FP8(n, "e4m3.e4m3", blocks, a, b, keep);                                          \
            else if constexpr (is_same<Left, e4m3>)                                                        \
                AT_ISSUE_FP8(n, "e4m3.e5m2", blocks, a, b, keep);                                          \
            else if constexpr (is_same<Right, e4m3>)                                                       \
                AT_ISSUE_FP8(n, "e5m2.e4m3", blocks, a, b, keep);                                          \
            else                                                                                           \
                AT_ISSUE_FP8(n, "e5m2.e5m2", blocks, a, b, keep);                                          \
        }                                                                                                  \
    };

AT_WGMMA_FP8(16, 0, "%8", "%9", "%10")
AT_WGMMA_FP8(32, 1, "%16", "%17", "%18")
AT_WGMMA_FP8(48, 2, "%24", "%25", "%26")
AT_WGMMA_FP8(64, 3, "%32", "%33", "%34")
AT_WGMMA_FP8(80, 4, "%40", "%41", "%42")
AT_WGMMA_FP8(96, 5, "%48", "%49", "%50")
AT_WGMMA_FP8(112, 6, "%56", "%57", "%58")
AT_WGMMA_FP8(128, 7, "%64", "%65", "%66")
AT_WGMMA_FP8(144, 8, "%72", "%73", "%74")
AT_WGMMA_FP8(160, 9, "%80", "%81", "%82")
AT_WGMMA_FP8(176, 10, "%88", "%89", "%90")
AT_WGMMA_FP8(192, 11, "%96", "%97", "%98")
AT_WGMMA_FP8(208, 12, "%104", "%105", "%106")
AT_WGMMA_FP8(224, 13, "%112", "%113", "%114")
AT_WGMMA_FP8(240, 14, "%120", "%121", "%122")
AT_WGMMA_FP8(256, 15, "%128", "%129", "%130")

#undef AT_ISSUE_FP8
#undef AT_WGMMA_FP8

}  // namespace hopper
