// wgmma on fp8, k32: both operands K-major in shared memory, sums in f32 registers (of which the tensor cores of sm_90 use about 13
// fraction bits when they add). After common/fp8.cuh and common/hopper.cuh.
#pragma once

namespace hopper {

// d = A(64 x 32) B(32 x n) + (accumulate ? d : 0); d is n / 2 registers. One specialisation for each n in 16, 32, ..., 256.
template <int n, typename Left, typename Right>
struct WgmmaFp8;

#define AT_R0 "%0,%1,%2,%3,%4,%5,%6,%7"
#define AT_R1 AT_R0 "," "%8,%9,%10,%11,%12,%13,%14,%15"
#define AT_R2 AT_R1 "," "%16,%17,%18,%19,%20,%21,%22,%23"
#define AT_R3 AT_R2 "," "%24,%25,%26,%27,%28,%29,%30,%31"
#define AT_R4 AT_R3 "," "%32,%33,%34,%35,%36,%37,%38,%39"
#define AT_R5 AT_R4 "," "%40,%41,%42,%43,%44,%45,%46,%47"
#define AT_R6 AT_R5 "," "%48,%49,%50,%51,%52,%53,%54,%55"
#define AT_R7 AT_R6 "," "%56,%57,%58,%59,%60,%61,%62,%63"
#define AT_R8 AT_R7 "," "%64,%65,%66,%67,%68,%69,%70,%71"
#define AT_R9 AT_R8 "," "%72,%73,%74,%75,%76,%77,%78,%79"
#define AT_R10 AT_R9 "," "%80,%81,%82,%83,%84,%85,%86,%87"
#define AT_R11 AT_R10 "," "%88,%89,%90,%91,%92,%93,%94,%95"
#define AT_R12 AT_R11 "," "%96,%97,%98,%99,%100,%101,%102,%103"
#define AT_R13 AT_R12 "," "%104,%105,%106,%107,%108,%109,%110,%111"
#define AT_R14 AT_R13 "," "%112,%113,%114,%115,%116,%117,%118,%119"
#define AT_R15 AT_R14 "," "%120,%121,%122,%123,%124,%125,%126,%127"
#define AT_FOUR(c, i) c(d[i]), c(d[i + 1]), c(d[i + 2]), c(d[i + 3])
#define AT_EIGHT(c, i) AT_FOUR(c, i), AT_FOUR(c, i + 4)
#define AT_C0(c) AT_EIGHT(c, 0)
#define AT_C1(c) AT_C0(c), AT_EIGHT(c, 8)
#define AT_C2(c) AT_C1(c), AT_EIGHT(c, 16)
#define AT_C3(c) AT_C2(c), AT_EIGHT(c, 24)
#define AT_C4(c) AT_C3(c), AT_EIGHT(c, 32)
#define AT_C5(c) AT_C4(c), AT_EIGHT(c, 40)
#define AT_C6(c) AT_C5(c), AT_EIGHT(c, 48)
#define AT_C7(c) AT_C6(c), AT_EIGHT(c, 56)
#define AT_C8(c) AT_C7(c), AT_EIGHT(c, 64)
#define AT_C9(c) AT_C8(c), AT_EIGHT(c, 72)
#define AT_C10(c) AT_C9(c), AT_EIGHT(c, 80)
#define AT_C11(c) AT_C10(c), AT_EIGHT(c, 88)
#define AT_C12(c) AT_C11(c), AT_EIGHT(c, 96)
#define AT_C13(c) AT_C12(c), AT_EIGHT(c, 104)
#define AT_C14(c) AT_C13(c), AT_EIGHT(c, 112)
#define AT_C15(c) AT_C14(c), AT_EIGHT(c, 120)
#define AT_ISSUE_FP8(n, types, blocks, a, b, keep)                                                                  \
    asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, " keep                                                         \
                 ", 0;\n wgmma.mma_async.sync.aligned.m64n" #n "k32.f32." types " {" AT_R##blocks "}, " a ", " b ", p, 1, 1;\n}" \
                 : AT_C##blocks("+f")                                                                               \
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

#undef AT_R0
#undef AT_C0
#undef AT_R1
#undef AT_C1
#undef AT_R2
#undef AT_C2
#undef AT_R3
#undef AT_C3
#undef AT_R4
#undef AT_C4
#undef AT_R5
#undef AT_C5
#undef AT_R6
#undef AT_C6
#undef AT_R7
#undef AT_C7
#undef AT_R8
#undef AT_C8
#undef AT_R9
#undef AT_C9
#undef AT_R10
#undef AT_C10
#undef AT_R11
#undef AT_C11
#undef AT_R12
#undef AT_C12
#undef AT_R13
#undef AT_C13
#undef AT_R14
#undef AT_C14
#undef AT_R15
#undef AT_C15
#undef AT_FOUR
#undef AT_EIGHT
#undef AT_ISSUE_FP8
#undef AT_WGMMA_FP8

}  // namespace hopper
