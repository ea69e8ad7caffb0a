// Packs operands whose rows are not 16-byte aligned: copies them to the workspace with padded rows. Needs common/types.cuh.
#pragma once

namespace {

// The sixteen bytes that begin at byte `shift` (even, below 16) of the thirty-two in `low` and `high`.
__device__ __forceinline__ uint4 realigned(const uint4& low, const uint4& high, u32 shift) {
    const u32 words[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    u32 by_eight[6], by_four[5];
#pragma unroll
    for (int i = 0; i < 6; ++i) by_eight[i] = (shift & 8) != 0 ? words[i + 2] : words[i];
#pragma unroll
    for (int i = 0; i < 5; ++i) by_four[i] = (shift & 4) != 0 ? by_eight[i + 1] : by_eight[i];
    const u32 bits = (shift & 2) * 8;
    return uint4{__funnelshift_r(by_four[0], by_four[1], bits), __funnelshift_r(by_four[1], by_four[2], bits),
                 __funnelshift_r(by_four[2], by_four[3], bits), __funnelshift_r(by_four[3], by_four[4], bits)};
}

// The first `count` of eight 16-bit elements, the others zero.
__device__ __forceinline__ uint4 first_of(const uint4& value, int count) {
    const auto word = [&](u32 bits, int before) { return count >= before + 2 ? bits : count == before + 1 ? bits & 0xFFFFu : 0u; };
    return uint4{word(value.x, 0), word(value.y, 2), word(value.z, 4), word(value.w, 6)};
}

// Eight neighbouring 16-bit elements from `from` on: the first `count`, then zeros. It reads the aligned 16 bytes around them,
// but only between `begin` and `end`, the bounds of the operand.
__device__ __forceinline__ uint4 load_eight(const u16* from, int count, const u16* begin, const u16* end) {
    const u64 address = reinterpret_cast<u64>(from);
    const uint4* const aligned = reinterpret_cast<const uint4*>(address & ~15ull);
    const u32 shift = static_cast<u32>(address & 15);
    if (reinterpret_cast<u64>(aligned) >= reinterpret_cast<u64>(begin) &&
        reinterpret_cast<u64>(aligned + (shift == 0 ? 1 : 2)) <= reinterpret_cast<u64>(end)) {
        const uint4 low = aligned[0];
        const uint4 high = shift == 0 ? low : aligned[1];
        return first_of(realigned(low, high, shift), count);
    }
    u32 words[4];
#pragma unroll
    for (int word = 0; word < 4; ++word) {
        const u32 low = 2 * word < count ? from[2 * word] : 0u;
        const u32 high = 2 * word + 1 < count ? from[2 * word + 1] : 0u;
        words[word] = low | high << 16;
    }
    return uint4{words[0], words[1], words[2], words[3]};
}

// Each thread packs eight elements of a row. The padding is written as zeros. REQUIRES: the grid has fewer than 2^32 threads.
template <typename T>
__device__ __forceinline__ void pack_rows(const T* from, T* to, int rows, int cols, long long ld, long long ld_packed, int batch,
                                          long long stride) {
    static_assert(sizeof(T) == 2);
    const u16* const begin = reinterpret_cast<const u16*>(from);
    const u16* const end = begin + (batch - 1) * stride + (rows - 1) * ld + cols;
    const u32 chunks = static_cast<u32>(ld_packed / 8);
    const u32 first = blockIdx.x * blockDim.x + threadIdx.x;
    const u32 threads = gridDim.x * blockDim.x;
    u32 chunk = first % chunks;
    for (long long row = first / chunks; row < static_cast<long long>(rows) * batch; row += threads / chunks) {
        const long long slice = batch == 1 ? 0 : row / rows;
        const int col = static_cast<int>(chunk) * 8;
        const u16* const source = begin + slice * stride + (row - slice * rows) * ld + col;
        *reinterpret_cast<uint4*>(reinterpret_cast<u16*>(to) + row * ld_packed + col) = load_eight(source, cols - col, begin, end);
        chunk += threads % chunks;
        if (chunk >= chunks) {
            chunk -= chunks;
            ++row;
        }
    }
}

}  // namespace
