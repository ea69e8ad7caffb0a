// wgmma: operands in shared memory given by descriptors, in the canonical layouts of the PTX manual, and the registers of a warp.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "src/core/problem/dtype.h"
#include "tests/support/host_cuda/machine/block_machine.h"

namespace autotune::test::host_cuda {
namespace {

int bytes_of(Multiplier type) {
    return type == Multiplier::tf32 ? 4 : type == Multiplier::f16 || type == Multiplier::bf16 ? 2 : 1;
}

constexpr u32 kInfinity = 0x7F800000U;  // the exponent of infinity and NaN in f32

// Moves fields to their f32 positions. Multiplying by 2^(127 - bias) corrects the exponent, also of subnormal numbers.
inline double widened(u32 magnitude, float of_bias, u32 past_end, u32 sign) {
    const u32 mended = std::bit_cast<u32>(std::bit_cast<float>(magnitude) * of_bias);
    return static_cast<double>(std::bit_cast<float>(mended | past_end | sign));
}

// The value of an element's bits. It has no branch, so that loops over elements are vectorised.
template <Multiplier kType>
double value_of(u32 bits) {
    if constexpr (kType == Multiplier::f16) {
        return widened((bits & 0x7FFFU) << 13, 0x1p112F, (bits & 0x7C00U) == 0x7C00U ? kInfinity : 0U, (bits & 0x8000U) << 16);
    } else if constexpr (kType == Multiplier::bf16) {
        return static_cast<double>(std::bit_cast<float>(bits << 16));
    } else if constexpr (kType == Multiplier::tf32) {
        return static_cast<double>(std::bit_cast<float>(bits & 0xFFFFE000U));
    } else if constexpr (kType == Multiplier::e4m3) {
        return widened((bits & 0x7FU) << 20, 0x1p120F, (bits & 0x7FU) == 0x7FU ? kInfinity : 0U, (bits & 0x80U) << 24);
    } else {  // e5m2: the upper half of f16
        return value_of<Multiplier::f16>(bits << 8);
    }
}

template <Multiplier kType>
using BitsOf = std::conditional_t<kType == Multiplier::tf32, u32,
                                  std::conditional_t<kType == Multiplier::f16 || kType == Multiplier::bf16, u16, unsigned char>>;

// Calls act<type>() for a type that is known only at run time.
template <class Act>
void for_type(Multiplier type, const Act& act) {
    switch (type) {
        case Multiplier::f16:
            return act.template operator()<Multiplier::f16>();
        case Multiplier::bf16:
            return act.template operator()<Multiplier::bf16>();
        case Multiplier::tf32:
            return act.template operator()<Multiplier::tf32>();
        case Multiplier::e4m3:
            return act.template operator()<Multiplier::e4m3>();
        case Multiplier::e5m2:
            return act.template operator()<Multiplier::e5m2>();
    }
}

constexpr std::size_t kChunkBytes = 16;  // a swizzle moves chunks of this size
constexpr std::size_t kStepBytes = 32;   // bytes along K that one wgmma reads
constexpr std::size_t kMostDepth = 32;   // elements along K
constexpr std::size_t kMostLines = 256;  // the largest N
// Not a multiple of a page, because then all elements of a line would use one set of the cache
constexpr std::size_t kPitch = kMostLines + 8;

// Indices are [at][line], so elements that are multiplied by one element of the other operand are adjacent.
using Lines = std::array<std::array<double, kPitch>, kMostDepth>;

// An operand in shared memory. `line` counts along M or N, `at` along K.
class Operand {
  public:
    Operand(const unsigned char* shared, Multiplier type, u64 descriptor, bool transposed)
        : shared_(shared),
          type_(type),
          transposed_(transposed),
          begin_(static_cast<u32>(descriptor & 0x3FFF) << 4),
          leading_(static_cast<u32>(descriptor >> 16 & 0x3FFF) << 4),
          stride_(static_cast<u32>(descriptor >> 32 & 0x3FFF) << 4) {
        const auto mode = static_cast<int>(descriptor >> 62);
        span_ = mode == 0 ? 16 : 256 >> mode;
    }
    // Reads the lines [first, first + count). `first` is a multiple of 16, `count` a multiple of 8.
    void take(Lines& lines, std::size_t first, std::size_t count) const {
        for_type(type_, [&]<Multiplier kType>() {
            transposed_ ? take_along_lines<kType>(lines, first, count) : take_along_k<kType>(lines, first, count);
        });
    }

  private:
    template <Multiplier kType>
    void take_along_k(Lines& lines, std::size_t first, std::size_t count) const {
        constexpr std::size_t depth = kStepBytes / sizeof(BitsOf<kType>);
        std::array<std::array<BitsOf<kType>, depth>, kMostLines> bits;
        for (std::size_t line = 0; line < count; ++line)
            for (std::size_t byte = 0; byte < kStepBytes; byte += kChunkBytes) {
                const auto place = static_cast<u32>(first + line), at = static_cast<u32>(byte);
                copy_chunk(reinterpret_cast<unsigned char*>(bits[line].data()) + byte,
                           place / 8 * stride_ + place % 8 * span_ + (span_ == 16 ? at / 16 * leading_ : at));
            }
        for (std::size_t at = 0; at < depth; ++at)
            for (std::size_t line = 0; line < count; ++line) lines[at][line] = value_of<kType>(bits[line][at]);
    }
    template <Multiplier kType>
    void take_along_lines(Lines& lines, std::size_t first, std::size_t count) const {
        constexpr std::size_t size = sizeof(BitsOf<kType>), depth = kStepBytes / size;
        const u32 in_span = span_ / static_cast<u32>(size);
        std::array<BitsOf<kType>, kMostLines + kChunkBytes> bits;
        for (std::size_t at = 0; at < depth; ++at) {
            const u32 begin = static_cast<u32>(at) / 8 * stride_ + static_cast<u32>(at) % 8 * span_;
            for (std::size_t line = 0; line < count; line += kChunkBytes / size) {
                const auto place = static_cast<u32>(first + line);
                copy_chunk(bits.data() + line, begin + place / in_span * leading_ + place % in_span * static_cast<u32>(size));
            }
            for (std::size_t line = 0; line < count; ++line) lines[at][line] = value_of<kType>(bits[line]);
        }
    }
    void copy_chunk(void* to, u32 offset) const {
        const u32 address = ::host_cuda::swizzled(begin_ + offset, span_ == 16 ? 0 : static_cast<int>(span_));
        std::memcpy(to, shared_ + address, kChunkBytes);
    }

    const unsigned char* shared_;
    Multiplier type_;
    bool transposed_;
    u32 begin_, leading_, stride_, span_ = 0;
};

// A's 16 rows from registers: word w of a lane belongs to row lane / 4 or, if w is odd, to the row 8 further, and to the first
// half of K or, from word 2 on, to the second.
template <Multiplier kType>
void take_rows(Lines& rows, const GroupProduct (&lanes)[32]) {
    constexpr std::size_t in_word = 4 / sizeof(BitsOf<kType>);
    for (std::size_t lane = 0; lane < 32; ++lane)
        for (std::size_t word = 0; word < 4; ++word)
            for (std::size_t i = 0; i < in_word; ++i)
                rows[(lane % 4 + word / 2 * 4) * in_word + i][lane / 4 + word % 2 * 8] =
                    value_of<kType>(static_cast<BitsOf<kType>>(lanes[lane].a[word] >> 32 / in_word * i));
}

// Multiplies one row by all columns. Each sum is added along K, and adjacent sums stay in vector registers.
std::array<double, kMostLines> products_of(const Lines& rows, std::size_t row, const Lines& columns, std::size_t count,
                                           std::size_t depth) {
    constexpr std::size_t together = 8;
    std::array<double, kMostLines> all;
    for (std::size_t first = 0; first < count; first += together) {
        std::array<double, together> sums{};
        for (std::size_t at = 0; at < depth; ++at)
            for (std::size_t i = 0; i < together; ++i) sums[i] += rows[at][row] * columns[at][first + i];
        std::copy(sums.begin(), sums.end(), all.begin() + static_cast<std::ptrdiff_t>(first));
    }
    return all;
}

void add(const GroupProduct& lane, std::size_t slot, double product) {
    if (!lane.has_half_sums) {
        float& sum = static_cast<float*>(lane.sums)[slot];
        sum = static_cast<float>(lane.accumulates ? static_cast<double>(sum) + product : product);
        return;
    }
    u16& sum = static_cast<u16*>(lane.sums)[slot];
    sum = static_cast<u16>(encode(DType::f16, lane.accumulates ? decode(DType::f16, sum) + product : product));
}

}  // namespace

void BlockMachine::perform(const WarpProduct& product) const {
    const GroupProduct& one = product.lanes[0];
    const std::size_t depth = kStepBytes / static_cast<std::size_t>(bytes_of(one.left)), count = static_cast<std::size_t>(one.n);
    static thread_local Lines rows, columns;
    if (one.a_is_register) {
        for_type(one.left, [&]<Multiplier kType>() { take_rows<kType>(rows, product.lanes); });
    } else {
        Operand(shared_, one.left, one.a_descriptor, one.a_transposed)
            .take(rows, static_cast<std::size_t>(product.first_row), 16);
    }
    Operand(shared_, one.right, one.b_descriptor, one.b_transposed).take(columns, 0, count);
    for (std::size_t row = 0; row < 16; ++row) {
        const std::array<double, kMostLines> sums = products_of(rows, row, columns, count, depth);
        for (std::size_t column = 0; column < count; ++column)
            add(product.lanes[row % 8 * 4 + column % 8 / 2], column / 8 * 4 + row / 8 * 2 + column % 2, sums[column]);
    }
}

void BlockMachine::multiply_group(const GroupProduct& product) {
    struct Mine {
        const GroupProduct* product;
        BlockMachine* machine;
    } mine = {&product, this};
    meet(0xFFFFFFFFU, "wgmma", &mine, [](u32 /*mask*/, void* const(&lanes)[32]) {
        BlockMachine& machine = *static_cast<const Mine*>(lanes[0])->machine;
        WarpProduct all;
        for (int lane = 0; lane < 32; ++lane) all.lanes[lane] = *static_cast<const Mine*>(lanes[lane])->product;
        all.first_row = machine.running_ / 32 % 4 * 16;
        if (machine.schedule_.late_products) {
            machine.warp_of(machine.running_).open_products.push_back(all);
        } else {
            machine.perform(all);
        }
    });
}

void BlockMachine::commit_products() {
    BlockMachine* self = this;
    meet(0xFFFFFFFFU, "wgmma.commit_group", &self, [](u32 /*mask*/, void* const(&lanes)[32]) {
        BlockMachine& machine = **static_cast<BlockMachine* const*>(lanes[0]);
        Warp& warp = machine.warp_of(machine.running_);
        warp.pending_products.push_back(std::move(warp.open_products));
        warp.open_products.clear();
    });
}

void BlockMachine::wait_for_products(int pending_groups) {
    struct Mine {
        BlockMachine* machine;
        int pending;
    } mine = {this, pending_groups};
    meet(0xFFFFFFFFU, "wgmma.wait_group", &mine, [](u32 /*mask*/, void* const(&lanes)[32]) {
        const auto& wait = *static_cast<const Mine*>(lanes[0]);
        auto& pending = wait.machine->warp_of(wait.machine->running_).pending_products;
        while (pending.size() > static_cast<std::size_t>(wait.pending)) {
            for (const WarpProduct& product : pending.front()) wait.machine->perform(product);
            pending.erase(pending.begin());
        }
    });
}

}  // namespace autotune::test::host_cuda
