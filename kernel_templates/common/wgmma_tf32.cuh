// wgmma of tf32 on sm_90a, in addition to hopper.cuh: B, and A too or else in registers, in shared memory, contiguous along K.
#pragma once

#include "common/types.cuh"

namespace hopper {

// d = A(64 x 8) B(8 x n) + (accumulate ? d : 0); d is n / 2 registers. A comes from shared memory by its descriptor, or from four
// registers a thread: of warp w and lane 4 r + t rows 16 w + r and 16 w + r + 8 at k = t, then the same at k = t + 4.
template <int n>
struct WgmmaTf32;

#define AT_R16 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define AT_R32 AT_R16 "," "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define AT_R48 AT_R32 "," "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define AT_R64 AT_R48 "," "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define AT_R80 AT_R64 "," "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"
#define AT_R96 AT_R80 "," "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define AT_R112 AT_R96 "," "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111"
#define AT_R128 AT_R112 "," "%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define AT_FOUR(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define AT_SIXTEEN(i) AT_FOUR(i), AT_FOUR(i + 4), AT_FOUR(i + 8), AT_FOUR(i + 12)
#define AT_C16 AT_SIXTEEN(0)
#define AT_C32 AT_C16, AT_SIXTEEN(16)
#define AT_C48 AT_C32, AT_SIXTEEN(32)
#define AT_C64 AT_C48, AT_SIXTEEN(48)
#define AT_C80 AT_C64, AT_SIXTEEN(64)
#define AT_C96 AT_C80, AT_SIXTEEN(80)
#define AT_C112 AT_C96, AT_SIXTEEN(96)
#define AT_C128 AT_C112, AT_SIXTEEN(112)
#define AT_WGMMA(n, count, x0, x1, x2, x3, x4, x5)                                                                              \
    template <>                                                                                                                \
    struct WgmmaTf32<n> {                                                                                                      \
        static __device__ __forceinline__ void run(float* d, u64 desc_a, u64 desc_b, int accumulate) {                         \
            asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, " x2                                                             \
                         ", 0;\n wgmma.mma_async.sync.aligned.m64n" #n "k8.f32.tf32.tf32 {" AT_R##count "}, " x0 ", " x1        \
                         ", p, 1, 1;\n}"                                                                                       \
                         : AT_C##count                                                                                         \
                         : "l"(desc_a), "l"(desc_b), "r"(accumulate));                                                         \
        }                                                                                                                      \
        static __device__ __forceinline__ void run(float* d, const u32* a, u64 desc_b, int accumulate) {                       \
            asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, " x5                                                             \
                         ", 0;\n wgmma.mma_async.sync.aligned.m64n" #n "k8.f32.tf32.tf32 {" AT_R##count "}, {" x0 "," x1 "," x2 \
                         "," x3 "}, " x4 ", p, 1, 1;\n}"                                                                       \
                         : AT_C##count                                                                                         \
                         : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(desc_b), "r"(accumulate));                          \
        }                                                                                                                      \
    };

AT_WGMMA(32, 16, "%16", "%17", "%18", "%19", "%20", "%21")
AT_WGMMA(64, 32, "%32", "%33", "%34", "%35", "%36", "%37")
AT_WGMMA(96, 48, "%48", "%49", "%50", "%51", "%52", "%53")
AT_WGMMA(128, 64, "%64", "%65", "%66", "%67", "%68", "%69")
AT_WGMMA(160, 80, "%80", "%81", "%82", "%83", "%84", "%85")
AT_WGMMA(192, 96, "%96", "%97", "%98", "%99", "%100", "%101")
AT_WGMMA(224, 112, "%112", "%113", "%114", "%115", "%116", "%117")
AT_WGMMA(256, 128, "%128", "%129", "%130", "%131", "%132", "%133")

#undef AT_R16
#undef AT_C16
#undef AT_R32
#undef AT_C32
#undef AT_R48
#undef AT_C48
#undef AT_R64
#undef AT_C64
#undef AT_R80
#undef AT_C80
#undef AT_R96
#undef AT_C96
#undef AT_R112
#undef AT_C112
#undef AT_R128
#undef AT_C128
#undef AT_FOUR
#undef AT_SIXTEEN
#undef AT_WGMMA

}  // namespace hopper
