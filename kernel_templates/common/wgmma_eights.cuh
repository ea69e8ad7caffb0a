// wgmma of sm_90a for widths that are odd multiples of eight, with sums in f32. hopper.cuh has the multiples of 16.
#pragma once

#include "common/hopper.cuh"

// Continues the lists of wgmma_registers.cuh.
#define AT_WGMMA_R8h AT_WGMMA_R7 "," "%64,%65,%66,%67"
#define AT_WGMMA_R9h AT_WGMMA_R8 "," "%72,%73,%74,%75"
#define AT_WGMMA_R10h AT_WGMMA_R9 "," "%80,%81,%82,%83"
#define AT_WGMMA_R11h AT_WGMMA_R10 "," "%88,%89,%90,%91"
#define AT_WGMMA_R12h AT_WGMMA_R11 "," "%96,%97,%98,%99"
#define AT_WGMMA_R13h AT_WGMMA_R12 "," "%104,%105,%106,%107"
#define AT_WGMMA_R14h AT_WGMMA_R13 "," "%112,%113,%114,%115"
#define AT_WGMMA_R15h AT_WGMMA_R14 "," "%120,%121,%122,%123"
#define AT_WGMMA_C8h(c) AT_WGMMA_C7(c), AT_WGMMA_FOUR(c, 64)
#define AT_WGMMA_C9h(c) AT_WGMMA_C8(c), AT_WGMMA_FOUR(c, 72)
#define AT_WGMMA_C10h(c) AT_WGMMA_C9(c), AT_WGMMA_FOUR(c, 80)
#define AT_WGMMA_C11h(c) AT_WGMMA_C10(c), AT_WGMMA_FOUR(c, 88)
#define AT_WGMMA_C12h(c) AT_WGMMA_C11(c), AT_WGMMA_FOUR(c, 96)
#define AT_WGMMA_C13h(c) AT_WGMMA_C12(c), AT_WGMMA_FOUR(c, 104)
#define AT_WGMMA_C14h(c) AT_WGMMA_C13(c), AT_WGMMA_FOUR(c, 112)
#define AT_WGMMA_C15h(c) AT_WGMMA_C14(c), AT_WGMMA_FOUR(c, 120)

namespace hopper {

#define AT_ISSUE(n, type, blocks, a, b, keep, ta, tb)                                                                               \
    asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, " keep                                                                         \
                 ", 0;\n wgmma.mma_async.sync.aligned.m64n" #n "k16.f32." type "." type " {" AT_WGMMA_R##blocks "}, " a ", " b        \
                 ", p, 1, 1, " ta ", " tb ";\n}"                                                                                    \
                 : AT_WGMMA_C##blocks("+f")                                                                                         \
                 : "l"(desc_a), "l"(desc_b), "r"(accumulate), "n"(trans_a), "n"(trans_b))
#define AT_WGMMA(n, blocks, a, b, keep, ta, tb)                                                        \
    template <typename In, int trans_a, int trans_b>                                                   \
    struct Wgmma<n, In, f32, trans_a, trans_b> {                                                       \
        static __device__ __forceinline__ void run(float* d, u64 desc_a, u64 desc_b, int accumulate) { \
            if constexpr (is_same<In, bf16>)                                                           \
                AT_ISSUE(n, "bf16", blocks, a, b, keep, ta, tb);                                       \
            else                                                                                       \
                AT_ISSUE(n, "f16", blocks, a, b, keep, ta, tb);                                        \
        }                                                                                              \
    };

AT_WGMMA(24, 1h, "%12", "%13", "%14", "%15", "%16")
AT_WGMMA(40, 2h, "%20", "%21", "%22", "%23", "%24")
AT_WGMMA(56, 3h, "%28", "%29", "%30", "%31", "%32")
AT_WGMMA(72, 4h, "%36", "%37", "%38", "%39", "%40")
AT_WGMMA(88, 5h, "%44", "%45", "%46", "%47", "%48")
AT_WGMMA(104, 6h, "%52", "%53", "%54", "%55", "%56")
AT_WGMMA(120, 7h, "%60", "%61", "%62", "%63", "%64")
AT_WGMMA(136, 8h, "%68", "%69", "%70", "%71", "%72")
AT_WGMMA(152, 9h, "%76", "%77", "%78", "%79", "%80")
AT_WGMMA(168, 10h, "%84", "%85", "%86", "%87", "%88")
AT_WGMMA(184, 11h, "%92", "%93", "%94", "%95", "%96")
AT_WGMMA(200, 12h, "%100", "%101", "%102", "%103", "%104")
AT_WGMMA(216, 13h, "%108", "%109", "%110", "%111", "%112")
AT_WGMMA(232, 14h, "%116", "%117", "%118", "%119", "%120")
AT_WGMMA(248, 15h, "%124", "%125", "%126", "%127", "%128")

#undef AT_ISSUE
#undef AT_WGMMA

}  // namespace hopper
