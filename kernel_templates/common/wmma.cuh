#pragma once
// wmma.load, wmma.mma and wmma.store through shared memory, for sm_80 and later. A warp multiplies tiles of m x n x 16 with m * n
// = 256 (m is 8, 16 or 32). It is undefined which lane holds which element, so only wmma.store stores tiles.
#include "common/types.cuh"

namespace wmma {

// 32-bit registers of a fragment. `extent` is m of A's, n of B's.
template <class In>
__device__ constexpr int operand_registers(int extent) {
    return is_same<In, bf16> ? extent / 4 : 8;
}

// Sums: f16 in pairs, or f32.
template <class Acc>
struct Sums;
template <>
struct Sums<f32> {
    f32 at[8] = {0, 0, 0, 0, 0, 0, 0, 0};
};
template <>
struct Sums<f16> {
    u32 at[4] = {0, 0, 0, 0};
};

// Inline PTX lists its registers and qualifiers; the macros put both together, one line for each shape.
#define AT_OUT2(r) "=r"(r[0]), "=r"(r[1])
#define AT_OUT4(r) AT_OUT2(r), "=r"(r[2]), "=r"(r[3])
#define AT_OUT8(r) AT_OUT4(r), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]), "=r"(r[7])
#define AT_IN2(r) "r"(r[0]), "r"(r[1])
#define AT_IN4(r) AT_IN2(r), "r"(r[2]), "r"(r[3])
#define AT_IN8(r) AT_IN4(r), "r"(r[4]), "r"(r[5]), "r"(r[6]), "r"(r[7])
#define AT_LIST2 "{%0, %1}, [%2], %3;"
#define AT_LIST4 "{%0, %1, %2, %3}, [%4], %5;"
#define AT_LIST8 "{%0, %1, %2, %3, %4, %5, %6, %7}, [%8], %9;"

#define AT_LOAD(count, operand, layout, shape, type)                                                  \
    asm volatile("wmma.load." operand ".sync.aligned." layout "." shape ".shared." type " " AT_LIST##count \
                 : AT_OUT##count(to)                                                                  \
                 : "r"(address), "r"(stride)                                                          \
                 : "memory")
#define AT_LOAD_LAYOUTS(count, operand, shape, type)        \
    if constexpr (row_major) {                              \
        AT_LOAD(count, operand, "row", shape, type);        \
    } else {                                                \
        AT_LOAD(count, operand, "col", shape, type);        \
    }
#define AT_LOAD_SHAPES(operand, type, count16, count32, count8)             \
    if constexpr (m == 16) {                                                \
        AT_LOAD_LAYOUTS(count16, operand, "m16n16k16", type)                \
    } else if constexpr (m == 32) {                                         \
        AT_LOAD_LAYOUTS(count32, operand, "m32n8k16", type)                 \
    } else {                                                                \
        static_assert(m == 8, "a tile's m is 8, 16 or 32");                 \
        AT_LOAD_LAYOUTS(count8, operand, "m8n32k16", type)                  \
    }

// Loads A's m x 16 elements from `address` on; rows (row_major) or columns are `stride` elements apart.
template <class In, int m, bool row_major>
__device__ __forceinline__ void load_a(u32 (&to)[operand_registers<In>(m)], u32 address, int stride) {
    if constexpr (is_same<In, bf16>) {
        AT_LOAD_SHAPES("a", "bf16", 4, 8, 2)
    } else {
        AT_LOAD_SHAPES("a", "f16", 8, 8, 8)
    }
}

// B's 16 x n elements.
template <class In, int m, bool row_major>
__device__ __forceinline__ void load_b(u32 (&to)[operand_registers<In>(256 / m)], u32 address, int stride) {
    if constexpr (is_same<In, bf16>) {
        AT_LOAD_SHAPES("b", "bf16", 4, 2, 8)
    } else {
        AT_LOAD_SHAPES("b", "f16", 8, 8, 8)
    }
}

#define AT_SUMS_F32 \
    "+f"(sums.at[0]), "+f"(sums.at[1]), "+f"(sums.at[2]), "+f"(sums.at[3]), "+f"(sums.at[4]), "+f"(sums.at[5]), "+f"(sums.at[6]), \
        "+f"(sums.at[7])
#define AT_SUMS_F16 "+r"(sums.at[0]), "+r"(sums.at[1]), "+r"(sums.at[2]), "+r"(sums.at[3])
#define AT_D8 "{%0, %1, %2, %3, %4, %5, %6, %7}"
#define AT_D4 "{%0, %1, %2, %3}"
#define AT_A8B8 "{%8, %9, %10, %11, %12, %13, %14, %15}, {%16, %17, %18, %19, %20, %21, %22, %23}"
#define AT_A4B4 "{%8, %9, %10, %11}, {%12, %13, %14, %15}"
#define AT_A8B2 "{%8, %9, %10, %11, %12, %13, %14, %15}, {%16, %17}"
#define AT_A2B8 "{%8, %9}, {%10, %11, %12, %13, %14, %15, %16, %17}"

#define AT_MMA_F16(layouts, shape)                                                                                     \
    if constexpr (is_same<Acc, f32>) {                                                                                 \
        asm volatile("wmma.mma.sync.aligned." layouts "." shape ".f32.f32 " AT_D8 ", " AT_A8B8 ", " AT_D8 ";"          \
                     : AT_SUMS_F32                                                                                     \
                     : AT_IN8(a), AT_IN8(b));                                                                          \
    } else {                                                                                                           \
        asm volatile("wmma.mma.sync.aligned." layouts "." shape ".f16.f16 " AT_D4                                      \
                     ", {%4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15, %16, %17, %18, %19}, " AT_D4 ";"      \
                     : AT_SUMS_F16                                                                                     \
                     : AT_IN8(a), AT_IN8(b));                                                                          \
    }
#define AT_MMA_BF16(layouts, shape, count_a, count_b)                                                                  \
    asm volatile("wmma.mma.sync.aligned." layouts "." shape ".f32.bf16.bf16.f32 " AT_D8 ", " AT_A##count_a##B##count_b \
                 ", " AT_D8 ";"                                                                                        \
                 : AT_SUMS_F32                                                                                         \
                 : AT_IN##count_a(a), AT_IN##count_b(b));
#define AT_MMA_TYPES(layouts, shape, count_a, count_b)          \
    if constexpr (is_same<In, bf16>) {                          \
        AT_MMA_BF16(layouts, shape, count_a, count_b)           \
    } else {                                                    \
        AT_MMA_F16(layouts, shape)                              \
    }
#define AT_MMA_LAYOUTS(shape, count_a, count_b)                 \
    if constexpr (a_row_major && b_row_major) {                 \
        AT_MMA_TYPES("row.row", shape, count_a, count_b)        \
    } else if constexpr (a_row_major) {                         \
        AT_MMA_TYPES("row.col", shape, count_a, count_b)        \
    } else if constexpr (b_row_major) {                         \
        AT_MMA_TYPES("col.row", shape, count_a, count_b)        \
    } else {                                                    \
        AT_MMA_TYPES("col.col", shape, count_a, count_b)        \
    }

// sums += a b. The layouts must be those with which the fragments were loaded.
template <class In, int m, bool a_row_major, bool b_row_major, class Acc>
__device__ __forceinline__ void multiply(Sums<Acc>& sums, const u32 (&a)[operand_registers<In>(m)],
                                         const u32 (&b)[operand_registers<In>(256 / m)]) {
    static_assert(is_same<In, f16> || is_same<Acc, f32>, "f16 sums are for f16 operands");
    if constexpr (m == 16) {
        AT_MMA_LAYOUTS("m16n16k16", 4, 4)
    } else if constexpr (m == 32) {
        AT_MMA_LAYOUTS("m32n8k16", 8, 2)
    } else {
        static_assert(m == 8, "a tile's m is 8, 16 or 32");
        AT_MMA_LAYOUTS("m8n32k16", 2, 8)
    }
}

#define AT_STORE(shape)                                                                                                          \
    if constexpr (is_same<Acc, f32>) {                                                                                           \
        asm volatile("wmma.store.d.sync.aligned.row." shape ".shared.f32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8}, %9;" ::"r"(address), \
                     "f"(sums.at[0]), "f"(sums.at[1]), "f"(sums.at[2]), "f"(sums.at[3]), "f"(sums.at[4]), "f"(sums.at[5]),       \
                     "f"(sums.at[6]), "f"(sums.at[7]), "r"(stride)                                                               \
                     : "memory");                                                                                                \
    } else {                                                                                                                     \
        asm volatile("wmma.store.d.sync.aligned.row." shape ".shared.f16 [%0], {%1, %2, %3, %4}, %5;" ::"r"(address),            \
                     "r"(sums.at[0]), "r"(sums.at[1]), "r"(sums.at[2]), "r"(sums.at[3]), "r"(stride)                             \
                     : "memory");                                                                                                \
    }

// Stores the tile row by row. Rows begin `stride` elements apart.
template <int m, class Acc>
__device__ __forceinline__ void store(u32 address, const Sums<Acc>& sums, int stride) {
    if constexpr (m == 16) {
        AT_STORE("m16n16k16")
    } else if constexpr (m == 32) {
        AT_STORE("m32n8k16")
    } else {
        static_assert(m == 8, "a tile's m is 8, 16 or 32");
        AT_STORE("m8n32k16")
    }
}

#undef AT_OUT2
#undef AT_OUT4
#undef AT_OUT8
#undef AT_IN2
#undef AT_IN4
#undef AT_IN8
#undef AT_LIST2
#undef AT_LIST4
#undef AT_LIST8
#undef AT_LOAD
#undef AT_LOAD_LAYOUTS
#undef AT_LOAD_SHAPES
#undef AT_SUMS_F32
#undef AT_SUMS_F16
#undef AT_D8
#undef AT_D4
#undef AT_A8B8
#undef AT_A4B4
#undef AT_A8B2
#undef AT_A2B8
#undef AT_MMA_F16
#undef AT_MMA_BF16
#undef AT_MMA_TYPES
#undef AT_MMA_LAYOUTS
#undef AT_STORE

}  // namespace wmma
