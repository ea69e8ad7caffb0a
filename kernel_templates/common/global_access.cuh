// Accesses to global memory with cache hints. Every wrapper is volatile, so loads stay before the stores that follow them in the source:
// outputs may overlap inputs.
#pragma once

#include "common/types.cuh"

namespace global {

enum LoadHint : int { load_default = 0, load_no_allocate = 1, load_streaming = 2, load_prefetch = 3 };
enum StoreHint : int { store_default = 0, store_streaming = 1 };

template <int hint>
struct Load;
template <int hint>
struct Store;

#define AT_LOADS(hint, modifiers)                                                                                           \
    template <>                                                                                                             \
    struct Load<hint> {                                                                                                     \
        static __device__ __forceinline__ void run(u16& to, const void* from) {                                             \
            asm volatile("ld.global" modifiers ".u16 %0, [%1];" : "=h"(to) : "l"(from));                                    \
        }                                                                                                                   \
        static __device__ __forceinline__ void run(u32& to, const void* from) {                                             \
            asm volatile("ld.global" modifiers ".u32 %0, [%1];" : "=r"(to) : "l"(from));                                    \
        }                                                                                                                   \
        static __device__ __forceinline__ void run(uint2& to, const void* from) {                                           \
            asm volatile("ld.global" modifiers ".v2.u32 {%0, %1}, [%2];" : "=r"(to.x), "=r"(to.y) : "l"(from));             \
        }                                                                                                                   \
        static __device__ __forceinline__ void run(uint4& to, const void* from) {                                           \
            asm volatile("ld.global" modifiers ".v4.u32 {%0, %1, %2, %3}, [%4];"                                            \
                         : "=r"(to.x), "=r"(to.y), "=r"(to.z), "=r"(to.w)                                                   \
                         : "l"(from));                                                                                      \
        }                                                                                                                   \
    };

#define AT_STORES(hint, modifiers)                                                                                          \
    template <>                                                                                                             \
    struct Store<hint> {                                                                                                    \
        static __device__ __forceinline__ void run(void* to, u16 value) {                                                   \
            asm volatile("st.global" modifiers ".u16 [%0], %1;" ::"l"(to), "h"(value) : "memory");                          \
        }                                                                                                                   \
        static __device__ __forceinline__ void run(void* to, u32 value) {                                                   \
            asm volatile("st.global" modifiers ".u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");                          \
        }                                                                                                                   \
        static __device__ __forceinline__ void run(void* to, uint2 value) {                                                 \
            asm volatile("st.global" modifiers ".v2.u32 [%0], {%1, %2};" ::"l"(to), "r"(value.x), "r"(value.y) : "memory"); \
        }                                                                                                                   \
        static __device__ __forceinline__ void run(void* to, uint4 value) {                                                 \
            asm volatile("st.global" modifiers ".v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(value.x), "r"(value.y),     \
                         "r"(value.z), "r"(value.w)                                                                         \
                         : "memory");                                                                                       \
        }                                                                                                                   \
    };

AT_LOADS(load_default, "")
AT_LOADS(load_no_allocate, ".L1::no_allocate")
AT_LOADS(load_streaming, ".cs")
AT_LOADS(load_prefetch, ".L1::no_allocate.L2::256B")
AT_STORES(store_default, "")
AT_STORES(store_streaming, ".cs")

#undef AT_LOADS
#undef AT_STORES

}  // namespace global
