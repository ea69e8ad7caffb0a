#include "tests/support/fake/kernels/elements.h"

#include <array>
#include <cstring>
#include <vector>

#include "tests/support/fake/driver/pending.h"

namespace autotune::fake {
namespace {

// All 16-bit values of a type. They are decoded once.
const std::vector<float>& decoded_16(DType type) {
    // It is an array and not a search, because each element of a product uses it. It is never destroyed, because calls are made
    // until the process ends.
    static auto& tables = *new std::array<std::vector<float>, 256>;
    std::vector<float>& table = tables[static_cast<std::uint8_t>(type)];
    if (table.empty()) {
        for (std::uint64_t bits = 0; bits < 65536; ++bits) table.push_back(static_cast<float>(decode(type, bits)));
    }
    return table;
}

}  // namespace

DType type_of(const std::string& word) {
    return parse_dtype(word).value_or(DType::f16);
}

double load(Address base, DType type, std::int64_t index) {
    if (type == DType::f32) return static_cast<double>(reinterpret_cast<const float*>(base)[index]);
    const std::size_t size = size_bytes(type);
    std::uint64_t bits = 0;
    std::memcpy(&bits, reinterpret_cast<const std::byte*>(base) + static_cast<std::size_t>(index) * size, size);
    return size == 2 ? static_cast<double>(decoded_16(type)[bits]) : decode(type, bits);
}

void store(Address base, DType type, std::int64_t index, double value) {
    const std::size_t size = size_bytes(type);
    const std::uint64_t bits = encode(type, value);
    std::memcpy(reinterpret_cast<std::byte*>(base) + static_cast<std::size_t>(index) * size, &bits, size);
}

std::int64_t span(std::int64_t rows, std::int64_t cols, std::int64_t ld, std::int64_t batch, std::int64_t stride) {
    return rows * cols == 0 ? 0 : (batch - 1) * stride + (rows - 1) * ld + cols;
}

bool is_mapped(Address base, std::int64_t elements, std::size_t element_bytes) {
    return elements == 0 || Machine::get().find(base, static_cast<std::size_t>(elements) * element_bytes) != nullptr;
}

void spoil(const Output& out, const Effects& effects) {
    const std::int64_t middle = out.rows / 2 * out.ld + out.cols / 2;
    if (effects.wrong == "element") store(out.base, out.type, middle, load(out.base, out.type, middle) + 64);
    if (effects.wrong == "garbage") store(out.base, out.type, middle, static_cast<double>(effects.count % 1000));
    // Every second time the result differs by one unit in the last place. This is within any tolerance, but not deterministic.
    if (effects.wrong == "flaky" && effects.count % 2 == 1) {
        auto* bits = reinterpret_cast<std::uint8_t*>(out.base) + static_cast<std::size_t>(middle) * size_bytes(out.type);
        *bits ^= 1;
    }
    if (effects.wrong == "input") *reinterpret_cast<std::uint8_t*>(out.input) ^= 1;
    if (effects.wrong != "zeros") return;
    for (std::int64_t batch = 0; batch < out.batch; ++batch) {
        for (std::int64_t i = 0; i < out.rows; ++i) {
            for (std::int64_t j = 0; j < out.cols; ++j) store(out.base, out.type, batch * out.stride + i * out.ld + j, 0);
        }
    }
}

CUresult write_behind(const Output& out, long bytes) {
    const auto elements = static_cast<std::size_t>(span(out.rows, out.cols, out.ld, out.batch, out.stride));
    const Address end = out.base + elements * size_bytes(out.type);
    if (Machine::get().find(end, static_cast<std::size_t>(bytes)) == nullptr) return CUDA_ERROR_ILLEGAL_ADDRESS;
    Pending::get().touch(end, static_cast<std::size_t>(bytes));
    std::memset(reinterpret_cast<void*>(end), 0x5a, static_cast<std::size_t>(bytes));
    return CUDA_SUCCESS;
}

}  // namespace autotune::fake
