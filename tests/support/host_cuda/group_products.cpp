// wgmma: operands in shared memory by their descriptors, as the PTX manual's canonical layouts say, and the registers of a warp.
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "src/core/dtype.h"
#include "tests/support/host_cuda/block_machine.h"

namespace autotune::test::host_cuda {
namespace {

int bytes_of(Multiplier type) {
    return type == Multiplier::tf32 ? 4 : type == Multiplier::f16 || type == Multiplier::bf16 ? 2 : 1;
}

// What the bits of an element are worth.
const std::array<double, 256>& values_of_bytes(DType type) {
    static const auto make = [](DType of) {
        std::array<double, 256> values{};
        for (u32 bits = 0; bits < values.size(); ++bits) values[bits] = decode(of, bits);
        return values;
    };
    static const std::array<double, 256> e4m3 = make(DType::e4m3), e5m2 = make(DType::e5m2);
    return type == DType::e4m3 ? e4m3 : e5m2;
}

double value_of(Multiplier type, u32 bits) {
    switch (type) {
        case Multiplier::f16:
            return decode(DType::f16, bits);
        case Multiplier::bf16:
            return static_cast<double>(std::bit_cast<float>(bits << 16));
        case Multiplier::tf32:
            return static_cast<double>(std::bit_cast<float>(bits & 0xFFFFE000U));
        case Multiplier::e4m3:
            return values_of_bytes(DType::e4m3)[bits];
        case Multiplier::e5m2:
            return values_of_bytes(DType::e5m2)[bits];
    }
    return 0;
}

// An operand in shared memory. `line`: of M or N; `at`: along K.
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
    double value(int line, int at) const {
        const u32 address = ::host_cuda::swizzled(begin_ + offset(static_cast<u32>(line), static_cast<u32>(at)),
                                                  span_ == 16 ? 0 : static_cast<int>(span_));
        u32 bits = 0;
        std::memcpy(&bits, shared_ + address, static_cast<std::size_t>(bytes_of(type_)));
        return value_of(type_, bits);
    }

  private:
    u32 offset(u32 line, u32 at) const {
        const auto size = static_cast<u32>(bytes_of(type_));
        if (transposed_) {
            const u32 in_span = span_ / size;
            return line / in_span * leading_ + at / 8 * stride_ + at % 8 * span_ + line % in_span * size;
        }
        const u32 bytes = at * size;
        return line / 8 * stride_ + line % 8 * span_ + (span_ == 16 ? bytes / 16 * leading_ + bytes % 16 : bytes);
    }

    const unsigned char* shared_;
    Multiplier type_;
    bool transposed_;
    u32 begin_, leading_, stride_, span_ = 0;
};

constexpr int kMostDepth = 32;  // elements along K

using Lines = std::array<std::array<double, kMostDepth>, 256>;

// A's 16 rows from registers: word w of a lane is of row lane / 4 or, if w is odd, 8 rows further, and of the first or, from 2
// on, the second half of K.
void take_rows(Lines& rows, const GroupProduct (&lanes)[32]) {
    const Multiplier type = lanes[0].left;
    const int size = bytes_of(type), in_word = 4 / size;
    for (int lane = 0; lane < 32; ++lane)
        for (int word = 0; word < 4; ++word)
            for (int i = 0; i < in_word; ++i) {
                const u32 bits = lanes[lane].a[word] >> 8 * size * i & (size == 4 ? 0xFFFFFFFFU : (1U << 8 * size) - 1);
                rows[static_cast<std::size_t>(lane / 4 + word % 2 * 8)]
                    [static_cast<std::size_t>((lane % 4 + word / 2 * 4) * in_word + i)] = value_of(type, bits);
            }
}

void take_lines(Lines& lines, int count, int depth, const Operand& operand, int first) {
    for (int line = 0; line < count; ++line)
        for (int at = 0; at < depth; ++at)
            lines[static_cast<std::size_t>(line)][static_cast<std::size_t>(at)] = operand.value(first + line, at);
}

double product_of(const std::array<double, kMostDepth>& left, const std::array<double, kMostDepth>& right, int depth) {
    double sum = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(depth); ++i) sum += left[i] * right[i];
    return sum;
}

void add(const GroupProduct& lane, int slot, double product) {
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
    const int depth = 32 / bytes_of(one.left);
    static thread_local Lines rows, columns;
    if (one.a_is_register) {
        take_rows(rows, product.lanes);
    } else {
        take_lines(rows, 16, depth, Operand(shared_, one.left, one.a_descriptor, one.a_transposed), product.first_row);
    }
    take_lines(columns, one.n, depth, Operand(shared_, one.right, one.b_descriptor, one.b_transposed), 0);
    for (int lane = 0; lane < 32; ++lane)
        for (int slot = 0; slot < one.n / 2; ++slot) {
            const auto row = static_cast<std::size_t>(lane / 4 + slot / 2 % 2 * 8);
            const auto column = static_cast<std::size_t>(slot / 4 * 8 + lane % 4 * 2 + slot % 2);
            add(product.lanes[lane], slot, product_of(rows[row], columns[column], depth));
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
