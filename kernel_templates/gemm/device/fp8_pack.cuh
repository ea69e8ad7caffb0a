// Packs fp8 operands whose rows are not 16-byte aligned: copies them to the workspace with rows padded to 16 bytes by zeros.
#pragma once

namespace {

// Reads four bytes from an address of any alignment; only the first `count` are needed.
__device__ __forceinline__ u32 gather_word(const u8* from, int count) {
    u32 word = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) word |= (i < count ? static_cast<u32>(from[i]) : 0u) << (8 * i);
    return word;
}

// The grid may have any size. A thread copies 16 bytes at a time.
__device__ __forceinline__ void pack_bytes(const u8* from, u8* to, int rows, int cols, i64 ld, i64 ld_packed, int batch, i64 stride) {
    const i64 chunks = ld_packed / 16;
    const i64 all = chunks * rows * batch;
    for (i64 at = static_cast<i64>(blockIdx.x) * blockDim.x + threadIdx.x; at < all; at += static_cast<i64>(gridDim.x) * blockDim.x) {
        const i64 line = at / chunks, column = (at - line * chunks) * 16;
        const i64 matrix = line / rows, row = line - matrix * rows;
        const u8* source = from + matrix * stride + row * ld + column;
        const int left = static_cast<int>(cols - column);
        u32 words[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) words[i] = gather_word(source + 4 * i, left - 4 * i);
        *reinterpret_cast<uint4*>(to + line * ld_packed + column) = make_uint4(words[0], words[1], words[2], words[3]);
    }
}

}  // namespace
