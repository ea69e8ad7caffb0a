// Rows of 16-bit elements in shared memory, in chunks of 16 bytes, as cp.async fills them and ldmatrix reads them.
#pragma once

#include "common/ptx.cuh"

namespace attention {

// Rows of `columns` elements, padded with zeros to whole mma steps of 16. The same chunk of eight rows lies in different banks.
// For this, chunks are permuted by XOR with the row (swizzle; a row must have a multiple of 8 chunks), or rows are one chunk
// longer.
template <int columns, bool swizzle>
struct Rows {
    static constexpr int chunks = (columns + 15) / 16 * 2;
    static constexpr int filled_chunks = columns / 8;
    static constexpr int row_bytes = chunks * 16 + (swizzle ? 0 : 16);
    static_assert(!swizzle || chunks % 8 == 0, "a row has a multiple of 8 chunks");

    static __device__ __forceinline__ u32 offset(int row, int chunk) {
        return row * row_bytes + (swizzle ? chunk ^ (row & 7) : chunk) * 16;
    }
};

// Copies one chunk from memory that is aligned to `align` bytes. Bytes that do not exist become zeros.
template <int align>
__device__ __forceinline__ void copy_chunk(u32 to, const void* from, bool is_there) {
    if constexpr (align >= 4) {
#pragma unroll
        for (int at = 0; at < 16; at += align)
            ptx::cp_async<align>(to + at, static_cast<const char*>(from) + at, is_there ? align : 0);
    } else {  // cp.async cannot copy 2 bytes
        Pack<u16, 8> chunk;
#pragma unroll
        for (int i = 0; i < 8; ++i) chunk.at[i] = is_there ? static_cast<const u16*>(from)[i] : u16{0};
        ptx::st_shared(to, chunk.raw);
    }
}

// Copies `rows` rows with `threads` threads.
template <int rows, int columns, bool swizzle, int align, int threads>
struct RowCopier {
    using Layout = Rows<columns, swizzle>;
    // Threads along a row: the largest power of two that divides its chunks.
    static __device__ constexpr int lanes_of(int chunks) {
        int lanes = 1;
        while (chunks % (2 * lanes) == 0 && 2 * lanes <= threads) lanes *= 2;
        return lanes;
    }
    static constexpr int lanes = lanes_of(Layout::chunks);
    static constexpr int pieces = Layout::chunks / lanes;
    static constexpr int rows_a_pass = threads / lanes;
    static constexpr int passes = (rows + rows_a_pass - 1) / rows_a_pass;

    // `source`: the first row; rows from `count` on become zeros. `row_elements`: elements from one row to the next.
    template <class Element>
    static __device__ __forceinline__ void copy(u32 to, const Element* source, i64 row_elements, int count) {
        const int row = threadIdx.x / lanes;
        const int lane = threadIdx.x % lanes;
        const Element* from = source + row * row_elements + lane * 8;
#pragma unroll
        for (int pass = 0; pass < passes; ++pass) {
            const int at = pass * rows_a_pass + row;
            if (rows % rows_a_pass == 0 || at < rows) {
#pragma unroll
                for (int piece = 0; piece < pieces; ++piece) {
                    const int chunk = piece * lanes + lane;
                    const bool is_there =
                        at < count && (Layout::chunks == Layout::filled_chunks || chunk < Layout::filled_chunks);
                    copy_chunk<align>(to + Layout::offset(at, chunk), from + piece * lanes * 8, is_there);
                }
            }
            from += rows_a_pass * row_elements;
        }
    }
};

// Stores one chunk to memory that is aligned to `align` bytes.
template <int align>
__device__ __forceinline__ void store_chunk(void* to, uint4 chunk) {
    if constexpr (align == 16) {
        *static_cast<uint4*>(to) = chunk;
    } else if constexpr (align == 8) {
        static_cast<uint2*>(to)[0] = make_uint2(chunk.x, chunk.y);
        static_cast<uint2*>(to)[1] = make_uint2(chunk.z, chunk.w);
    } else {
        const u32 words[4] = {chunk.x, chunk.y, chunk.z, chunk.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if constexpr (align == 4) {
                static_cast<u32*>(to)[i] = words[i];
            } else {
                static_cast<u16*>(to)[2 * i] = static_cast<u16>(words[i]);
                static_cast<u16*>(to)[2 * i + 1] = static_cast<u16>(words[i] >> 16);
            }
        }
    }
}

__device__ __forceinline__ uint4 load_shared_chunk(u32 from) {
    uint4 chunk;
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(chunk.x), "=r"(chunk.y), "=r"(chunk.z), "=r"(chunk.w)
                 : "r"(from)
                 : "memory");
    return chunk;
}
__device__ __forceinline__ void store_shared_word(u32 to, u32 word) {
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(word) : "memory");
}

}  // namespace attention
