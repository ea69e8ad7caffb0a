// 16-bit numbers, and operations of a warp on fragments of them: ldmatrix and mma.sync, in the layouts of the PTX manual.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "src/core/problem/dtype.h"
#include "tests/support/host_cuda/machine/block_machine.h"

namespace autotune::test::host_cuda {
namespace {

const std::array<float, 65536>& halves() {
    static const std::array<float, 65536> all = [] {
        std::array<float, 65536> values{};
        for (u32 bits = 0; bits < values.size(); ++bits) values[bits] = static_cast<float>(decode(DType::f16, bits));
        return values;
    }();
    return all;
}

// Element `i` of the one or two in a register.
double element(Multiplier type, u32 word, int i) {
    const u32 bits = word >> 16 * i & 0xFFFF;
    if (type == Multiplier::f16) return static_cast<double>(halves()[bits]);
    if (type == Multiplier::bf16) return static_cast<double>(std::bit_cast<float>(bits << 16));
    return static_cast<double>(std::bit_cast<float>(word & 0xFFFFE000U));  // tf32: 10 bits of mantissa
}

struct Operands {
    Multiplier type;
    void* sums;
    const u32 *a, *b;
};

// A of 16 x k and B of k x 8 from the registers of a warp.
struct Matrices {
    static constexpr int kMost = 16;
    int k;
    double a[16][kMost], b[8][kMost];

    explicit Matrices(void* const (&lanes)[32]) {
        const Multiplier type = static_cast<const Operands*>(lanes[0])->type;
        const int in_word = type == Multiplier::tf32 ? 1 : 2;
        k = 8 * in_word;
        for (int lane = 0; lane < 32; ++lane) {
            const auto& mine = *static_cast<const Operands*>(lanes[lane]);
            for (int i = 0; i < in_word; ++i) {
                const int at = lane % 4 * in_word + i;
                for (int word = 0; word < 4; ++word)
                    a[lane / 4 + word % 2 * 8][at + word / 2 * 4 * in_word] = element(type, mine.a[word], i);
                for (int word = 0; word < 2; ++word) b[lane / 4][at + word * 4 * in_word] = element(type, mine.b[word], i);
            }
        }
    }
    double product(int row, int column) const {
        double sum = 0;
        for (int i = 0; i < k; ++i) sum += a[row][i] * b[column][i];
        return sum;
    }
};

void add_products(u32 /*mask*/, void* const (&lanes)[32]) {
    const Matrices matrices(lanes);
    for (int lane = 0; lane < 32; ++lane) {
        auto* const sums = static_cast<float*>(static_cast<const Operands*>(lanes[lane])->sums);
        for (int i = 0; i < 4; ++i)
            sums[i] =
                static_cast<float>(static_cast<double>(sums[i]) + matrices.product(lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2));
    }
}

void add_products_f16(u32 /*mask*/, void* const (&lanes)[32]) {
    const Matrices matrices(lanes);
    for (int lane = 0; lane < 32; ++lane) {
        auto* const sums = static_cast<u32*>(static_cast<const Operands*>(lanes[lane])->sums);
        for (int word = 0; word < 2; ++word) {
            u32 pair = 0;
            for (int i = 0; i < 2; ++i) {
                const double sum =
                    element(Multiplier::f16, sums[word], i) + matrices.product(lane / 4 + word * 8, lane % 4 * 2 + i);
                pair |= static_cast<u32>(encode(DType::f16, sum)) << 16 * i;
            }
            sums[word] = pair;
        }
    }
}

struct Rows {
    u32* to;
    const void* row;
};

template <bool transposed>
void load(u32 /*mask*/, void* const (&lanes)[32]) {
    for (int matrix = 0; matrix < 4; ++matrix) {
        u16 elements[8][8];
        for (int row = 0; row < 8; ++row)
            std::memcpy(elements[row], static_cast<const Rows*>(lanes[matrix * 8 + row])->row, sizeof(elements[row]));
        for (int lane = 0; lane < 32; ++lane) {
            u32 pair = 0;
            for (int i = 0; i < 2; ++i) {
                const int row = lane / 4, column = lane % 4 * 2 + i;
                pair |= static_cast<u32>(transposed ? elements[column][row] : elements[row][column]) << 16 * i;
            }
            static_cast<const Rows*>(lanes[lane])->to[matrix] = pair;
        }
    }
}

struct StoredRows {
    void* row;
    const u32* from;
};

template <bool transposed>
void store(u32 /*mask*/, void* const (&lanes)[32]) {
    for (int matrix = 0; matrix < 4; ++matrix) {
        u16 elements[8][8];
        for (int lane = 0; lane < 32; ++lane) {
            const u32 pair = static_cast<const StoredRows*>(lanes[lane])->from[matrix];
            for (int i = 0; i < 2; ++i) {
                const int row = lane / 4, column = lane % 4 * 2 + i;
                (transposed ? elements[column][row] : elements[row][column]) = static_cast<u16>(pair >> 16 * i);
            }
        }
        for (int row = 0; row < 8; ++row)
            std::memcpy(static_cast<const StoredRows*>(lanes[matrix * 8 + row])->row, elements[row], sizeof(elements[row]));
    }
}

constexpr u32 kWholeWarp = 0xFFFFFFFFU;

}  // namespace

void BlockMachine::load_matrices(u32 (&to)[4], const void* row, bool transposed) {
    if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0) return fail("gives ldmatrix a row that is not aligned to 16 bytes");
    Rows mine = {to, row};
    meet(kWholeWarp, transposed ? "ldmatrix.trans" : "ldmatrix", &mine, transposed ? load<true> : load<false>);
}

void BlockMachine::store_matrices(void* row, const u32 (&from)[4], bool transposed) {
    if (reinterpret_cast<std::uintptr_t>(row) % 16 != 0) return fail("gives stmatrix a row that is not aligned to 16 bytes");
    StoredRows mine = {row, from};
    meet(kWholeWarp, transposed ? "stmatrix.trans" : "stmatrix", &mine, transposed ? store<true> : store<false>);
}

void BlockMachine::multiply(Multiplier type, float (&sums)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    Operands mine = {type, sums, a, b};
    meet(kWholeWarp, "mma.sync", &mine, add_products);
}

void BlockMachine::multiply_f16(u32 (&sums)[2], const u32 (&a)[4], const u32 (&b)[2]) {
    Operands mine = {Multiplier::f16, sums, a, b};
    meet(kWholeWarp, "mma.sync with f16 sums", &mine, add_products_f16);
}

u16 BlockMachine::to_half(double value) {
    return static_cast<u16>(encode(DType::f16, value));
}
u16 BlockMachine::to_bfloat(double value) {
    return static_cast<u16>(encode(DType::bf16, value));
}
float BlockMachine::from_half(u16 bits) {
    return halves()[bits];
}
u16 BlockMachine::to_e4m3(float value) {
    return static_cast<u16>(encode(DType::e4m3, static_cast<double>(std::clamp(value, -448.0F, 448.0F))));
}
u16 BlockMachine::to_e5m2(float value) {
    return static_cast<u16>(encode(DType::e5m2, static_cast<double>(std::clamp(value, -57344.0F, 57344.0F))));
}

}  // namespace autotune::test::host_cuda
