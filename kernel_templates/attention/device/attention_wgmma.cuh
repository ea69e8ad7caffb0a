// PTX of sm_90a for attention, in addition to common/hopper.cuh: wgmma with A in registers, boxes of rank 4, and barriers on
// which some warpgroups only arrive.
#pragma once

#include "common/hopper.cuh"

namespace hopper {

// ---- TMA of four dimensions: column, row, head, batch ----

__device__ __forceinline__ void load_box(u32 destination, const TensorMap* map, u32 barrier, int column, int row, int head,
                                         int batch, u64 policy) {
    asm volatile(
        "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
        " [%0], [%1, {%3, %4, %5, %6}], [%2], %7;" ::"r"(destination),
        "l"(map), "r"(barrier), "r"(column), "r"(row), "r"(head), "r"(batch), "l"(policy)
        : "memory");
}
__device__ __forceinline__ void store_box(const TensorMap* map, u32 source, int column, int row, int head, int batch) {
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(map), "r"(source),
                 "r"(column), "r"(row), "r"(head), "r"(batch)
                 : "memory");
}

// Arrives on a named barrier that other warps wait on. `threads` counts both arriving and waiting threads.
__device__ __forceinline__ void named_barrier_arrive(int id, int threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// ---- d = A(64 x 16) B(16 x n) + (accumulate ? d : 0), A in four registers of pairs, B in shared memory stored along N ----
// d is n / 2 registers of f32. A thread's registers of A are those of accumulators 8 i to 8 i + 7 of an earlier product, in
// pairs.
template <int n, typename In>
struct WgmmaFromRegisters;

#define AT_L0 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define AT_L1 AT_L0 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define AT_L2 AT_L1 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define AT_L3 AT_L2 ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define AT_L4 AT_L3 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"
#define AT_L5 AT_L4 ",%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define AT_L6 AT_L5 ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111"
#define AT_L7 AT_L6 ",%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define AT_Q(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define AT_S(i) AT_Q(i), AT_Q(i + 4), AT_Q(i + 8), AT_Q(i + 12)
#define AT_D0 AT_S(0)
#define AT_D1 AT_D0, AT_S(16)
#define AT_D2 AT_D1, AT_S(32)
#define AT_D3 AT_D2, AT_S(48)
#define AT_D4 AT_D3, AT_S(64)
#define AT_D5 AT_D4, AT_S(80)
#define AT_D6 AT_D5, AT_S(96)
#define AT_D7 AT_D6, AT_S(112)
#define AT_ISSUE(n, types, blocks, a0, a1, a2, a3, b, keep, tb)                                                        \
    asm volatile("{\n .reg .pred p;\n setp.ne.b32 p, " keep ", 0;\n wgmma.mma_async.sync.aligned.m64n" #n "k16." types \
                 " {" AT_L##blocks "}, {" a0 ", " a1 ", " a2 ", " a3 "}, " b ", p, 1, 1, " tb ";\n}"                   \
                 : AT_D##blocks                                                                                        \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(desc_b), "r"(accumulate), "n"(trans_b))
#define AT_FROM_REGISTERS(n, blocks, a0, a1, a2, a3, b, keep, tb)                                        \
    template <typename In>                                                                               \
    struct WgmmaFromRegisters<n, In> {                                                                   \
        template <int trans_b>                                                                           \
        static __device__ __forceinline__ void run(float* d, const u32* a, u64 desc_b, int accumulate) { \
            if constexpr (is_same<In, bf16>)                                                             \
                AT_ISSUE(n, "f32.bf16.bf16", blocks, a0, a1, a2, a3, b, keep, tb);                       \
            else                                                                                         \
                AT_ISSUE(n, "f32.f16.f16", blocks, a0, a1, a2, a3, b, keep, tb);                         \
        }                                                                                                \
    };

AT_FROM_REGISTERS(32, 0, "%16", "%17", "%18", "%19", "%20", "%21", "%22")
AT_FROM_REGISTERS(64, 1, "%32", "%33", "%34", "%35", "%36", "%37", "%38")
AT_FROM_REGISTERS(96, 2, "%48", "%49", "%50", "%51", "%52", "%53", "%54")
AT_FROM_REGISTERS(128, 3, "%64", "%65", "%66", "%67", "%68", "%69", "%70")
AT_FROM_REGISTERS(160, 4, "%80", "%81", "%82", "%83", "%84", "%85", "%86")
AT_FROM_REGISTERS(192, 5, "%96", "%97", "%98", "%99", "%100", "%101", "%102")
AT_FROM_REGISTERS(224, 6, "%112", "%113", "%114", "%115", "%116", "%117", "%118")
AT_FROM_REGISTERS(256, 7, "%128", "%129", "%130", "%131", "%132", "%133", "%134")

#undef AT_L0
#undef AT_L1
#undef AT_L2
#undef AT_L3
#undef AT_L4
#undef AT_L5
#undef AT_L6
#undef AT_L7
#undef AT_Q
#undef AT_S
#undef AT_D0
#undef AT_D1
#undef AT_D2
#undef AT_D3
#undef AT_D4
#undef AT_D5
#undef AT_D6
#undef AT_D7
#undef AT_ISSUE
#undef AT_FROM_REGISTERS

}  // namespace hopper
