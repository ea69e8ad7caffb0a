// Packing of operands whose rows are not 16-byte aligned: a copy in the workspace with padded rows. Needs common/types.cuh.
#pragma once

namespace {

// Eight neighbouring 16-bit elements that start at any even address, from the aligned words around them. REQUIRES: the elements
// before and after them exist (an aligned word may hold one of each).
__device__ __forceinline__ uint4 load_eight(const unsigned short* from) {
    const unsigned long long address = reinterpret_cast<unsigned long long>(from);
    const unsigned int* words = reinterpret_cast<const unsigned int*>(address & ~3ull);
    uint4 value{__ldg(words), __ldg(words + 1), __ldg(words + 2), __ldg(words + 3)};
    if (address & 2) {
        const unsigned int after = __ldg(words + 4);
        value = uint4{__funnelshift_r(value.x, value.y, 16), __funnelshift_r(value.y, value.z, 16),
                      __funnelshift_r(value.z, value.w, 16), __funnelshift_r(value.w, after, 16)};
    }
    return value;
}

// One thread per eight elements of a row. The padding is written as zeros.
template <typename T>
__device__ __forceinline__ void pack_rows(const T* from, T* to, int rows, int cols, long long ld, long long ld_packed, int batch,
                                          long long stride) {
    static_assert(sizeof(T) == 2);
    const int chunks = static_cast<int>(ld_packed / 8);
    const long long total = static_cast<long long>(chunks) * rows * batch;
    for (long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x; i < total;
         i += static_cast<long long>(gridDim.x) * blockDim.x) {
        const long long row = i / chunks;
        const int col = static_cast<int>(i - row * chunks) * 8;
        const long long slice = row / rows;
        const unsigned short* source = reinterpret_cast<const unsigned short*>(from) + slice * stride + (row - slice * rows) * ld + col;
        uint4 value;
        if (col > 0 && col + 8 < cols) {
            value = load_eight(source);
        } else {
            unsigned int words[4];
            for (int word = 0; word < 4; ++word) {
                const unsigned int low = col + 2 * word < cols ? source[2 * word] : 0u;
                const unsigned int high = col + 2 * word + 1 < cols ? source[2 * word + 1] : 0u;
                words[word] = low | high << 16;
            }
            value = uint4{words[0], words[1], words[2], words[3]};
        }
        *reinterpret_cast<uint4*>(reinterpret_cast<unsigned short*>(to) + row * ld_packed + col) = value;
    }
}

}  // namespace
