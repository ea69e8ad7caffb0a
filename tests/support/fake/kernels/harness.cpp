// The kernels of kernel_templates/common/harness.cuh on the host, using the product's own host functions.
#include "kernel_templates/harness/harness.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernel_templates/common/random.cuh"
#include "kernel_templates/harness/fill.h"
#include "tests/support/fake/driver/pending.h"
#include "tests/support/fake/kernels/elements.h"
#include "tests/support/fake/kernels/kernels.h"

namespace autotune::fake {
namespace {

// Larger matrices are filled with one number, and larger buffers are left unchanged, because more would take seconds without
// testing anything.
constexpr std::int64_t kMostElements = std::int64_t{1} << 18;
constexpr std::uint64_t kMostBytes = std::uint64_t{16} << 20;

struct Matrix {
    std::int64_t rows, cols, ld, batch, stride;
    std::int64_t elements() const { return rows * cols * batch; }
    std::int64_t span() const { return elements() == 0 ? 0 : (batch - 1) * stride + (rows - 1) * ld + cols; }
    std::int64_t offset(std::int64_t index) const {
        return index / cols / rows * stride + index / cols % rows * ld + index % cols;
    }
};

// The type whose format a parameter describes.
DType type_of(const Launch& launch, const char* parameter = "format") {
    const std::uint64_t format = launch.raw(parameter).value_or(0);
    for (const DTypeTraits& traits : kDTypes) {
        if (harness_format(traits.type) == format) return traits.type;
    }
    return DType::f32;
}

// A tensor as described by LAYOUT and format of harness.h.
Tensor tensor_of(const Launch& launch) {
    Tensor tensor;
    tensor.dtype = type_of(launch);
    for (const char digit : {'0', '1', '2', '3', '4'}) {
        const std::string number(1, digit);
        tensor.dims.push_back({launch.integer("extent" + number, 1), launch.integer("stride" + number, 0)});
    }
    return tensor;
}

Matrix matrix_of(const Launch& launch) {
    return {launch.integer("rows", 0), launch.integer("cols", 0), launch.integer("ld", 0), launch.integer("batch", 1),
            launch.integer("batch_stride", 0)};
}

// The memory that a parameter points to, or nullptr if it is not device memory. Results that are pending there are computed,
// unless they are about to be overwritten.
template <typename T>
T* pointer(const Launch& launch, const char* name, std::uint64_t elements, bool overwrites = false) {
    const Address address = launch.raw(name).value_or(0);
    Pending::get().touch(address, elements * sizeof(T), overwrites);
    return Machine::get().find(address, elements * sizeof(T)) != nullptr ? reinterpret_cast<T*>(address) : nullptr;
}

Fill fill_of(const Launch& launch) {
    Fill fill;
    fill.kind = static_cast<Fill::Kind>(launch.integer("kind", 0));
    fill.centre = launch.f32("centre", 0);
    fill.spread = launch.f32("spread", 1);
    fill.low = launch.integer("low", 0);
    fill.high = launch.integer("high", 0);
    fill.every = launch.integer("every", 1);
    fill.through = type_of(launch, "through");
    return fill;
}

// The memory has contents that are known.
void filled(Address address) {
    skipped().wrong.erase(address);
    skipped().written.erase(address);
    skipped().poisoned.erase(address);
}

CUresult fill(const Launch& launch) {
    const Tensor tensor = tensor_of(launch);
    const std::size_t size = size_bytes(tensor.dtype);
    const auto bytes = static_cast<std::uint64_t>(tensor.span_bytes());
    auto* data = pointer<std::byte>(launch, "data", bytes, !tensor.has_gaps());
    if (data == nullptr && bytes > 0) return CUDA_ERROR_ILLEGAL_ADDRESS;
    filled(launch.raw("data").value_or(0));
    if (tensor.elements() > kMostElements) {
        // The value 0x3c3c is 1.06 in f16 and 0.011 in bf16.
        if (bytes <= kMostBytes) std::memset(data, 0x3c, bytes);
        return CUDA_SUCCESS;
    }
    const Fill how = fill_of(launch);
    const auto seed = static_cast<std::uint64_t>(launch.integer("seed", 1));
    const auto index = static_cast<int>(launch.integer("tensor", 0));
    const std::int64_t rows = tensor.dims[3].extent, cols = tensor.dims[4].extent;
    for (std::int64_t i = 0; i < tensor.elements(); ++i) {
        const FillPlace place{seed, index, i / cols / rows, i / cols % rows, i % cols, cols};
        const std::uint64_t bits = encode(tensor.dtype, fill_value(how, tensor.dtype, place));
        std::memcpy(data + static_cast<std::size_t>(tensor.offset_of(i)) * size, &bits, size);
    }
    return CUDA_SUCCESS;
}

// common/empty_sum.cuh.
CUresult empty_sum(const Launch& launch) {
    const Tensor tensor = tensor_of(launch);
    auto* out = pointer<std::byte>(launch, "out", static_cast<std::uint64_t>(tensor.span_bytes()));
    if (out == nullptr) return CUDA_ERROR_ILLEGAL_ADDRESS;
    const Address base = launch.raw("out").value_or(0), bias = launch.raw("bias").value_or(0);
    const Address scale = launch.raw("scale").value_or(0), amax = launch.raw("amax").value_or(0);
    const float factor = launch.f32("factor", 0), by = scale == 0 ? 1 : static_cast<float>(load(scale, DType::f32, 0));
    const DType bias_type = type_of(launch, "bias_format");
    for (std::int64_t i = 0; i < tensor.elements(); ++i) {
        const std::int64_t at = tensor.offset_of(i);
        float sum = launch.f32("value", 0);
        if (factor != 0) sum += factor * static_cast<float>(load(base, tensor.dtype, at));
        if (bias != 0) sum += static_cast<float>(load(bias, bias_type, i % tensor.dims[4].extent));
        if (amax != 0) store(amax, DType::f32, 0, std::max<double>(load(amax, DType::f32, 0), std::fabs(sum)));
        store(base, tensor.dtype, at, static_cast<double>(sum * by));
    }
    return CUDA_SUCCESS;
}

CUresult poison(const Launch& launch) {
    const auto bytes = static_cast<std::uint64_t>(launch.integer("bytes", 0));
    auto* data = pointer<std::uint8_t>(launch, "data", bytes, true);
    if (data == nullptr && bytes > 0) return CUDA_ERROR_ILLEGAL_ADDRESS;
    skipped().wrong.erase(launch.raw("data").value_or(0));
    skipped().written.erase(launch.raw("data").value_or(0));
    skipped().poisoned.insert(launch.raw("data").value_or(0));
    if (bytes > 0) set_bytes(launch.raw("data").value_or(0), static_cast<unsigned char>(launch.integer("byte", 0)), bytes);
    return CUDA_SUCCESS;
}

CUresult copy(const Launch& launch) {
    const auto bytes = static_cast<std::uint64_t>(launch.integer("bytes", 0));
    const auto* from = pointer<std::uint8_t>(launch, "from", bytes);
    auto* to = pointer<std::uint8_t>(launch, "to", bytes, true);
    if ((from == nullptr || to == nullptr) && bytes > 0) return CUDA_ERROR_ILLEGAL_ADDRESS;
    filled(launch.raw("to").value_or(0));
    if (bytes > 0 && bytes <= kMostBytes) std::memcpy(to, from, bytes);
    return CUDA_SUCCESS;
}

// This machine has no shared memory that persists, so only the launch is checked.
CUresult poison_shared(const Launch& launch) {
    return launch.integer("bytes", 0) > 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult redzone_check(const Launch& launch) {
    const auto bytes = static_cast<std::uint64_t>(launch.integer("bytes", 0));
    const auto* data = pointer<std::uint8_t>(launch, "data", bytes);
    auto* changed = pointer<std::uint64_t>(launch, "changed", 1);
    if ((data == nullptr && bytes > 0) || changed == nullptr) return CUDA_ERROR_ILLEGAL_ADDRESS;
    const auto byte = static_cast<std::uint8_t>(launch.integer("byte", 0));
    if (bytes <= kMostBytes) {
        for (std::uint64_t i = 0; i < bytes; ++i) *changed += data[i] != byte ? 1 : 0;
    }
    return CUDA_SUCCESS;
}

CUresult gap_check(const Launch& launch) {
    const Tensor tensor = tensor_of(launch);
    const std::size_t size = size_bytes(tensor.dtype);
    const auto* data = pointer<std::uint8_t>(launch, "data", static_cast<std::uint64_t>(tensor.span_bytes()));
    auto* changed = pointer<std::uint64_t>(launch, "changed", 1);
    if ((data == nullptr && tensor.span() > 0) || changed == nullptr) return CUDA_ERROR_ILLEGAL_ADDRESS;
    if (tensor.span() > kMostElements) return CUDA_SUCCESS;
    // Every element that does not belong to the tensor is a gap.
    std::vector<bool> held(static_cast<std::size_t>(tensor.span()));
    for (std::int64_t i = 0; i < tensor.elements(); ++i) held[static_cast<std::size_t>(tensor.offset_of(i))] = true;
    const auto byte = static_cast<std::uint8_t>(launch.integer("byte", 0));
    for (std::size_t i = 0; i < held.size() * size; ++i) *changed += !held[i / size] && data[i] != byte ? 1 : 0;
    return CUDA_SUCCESS;
}

CUresult checksum(const Launch& launch) {
    const auto bytes = static_cast<std::uint64_t>(launch.integer("bytes", 0));
    const auto* data = pointer<std::uint8_t>(launch, "data", bytes);
    auto* sum = pointer<std::uint64_t>(launch, "sum", 1);
    if ((data == nullptr && bytes > 0) || sum == nullptr) return CUDA_ERROR_ILLEGAL_ADDRESS;
    // If a wrong result was too large to compute, at least its checksum must differ each time.
    static std::uint64_t wrong_count = 0;
    const bool is_wrong = skipped().wrong.count(launch.raw("data").value_or(0)) > 0;
    *sum += autotune_random::mix(bytes + (is_wrong ? ++wrong_count : 0));
    // The memory still holds the poison, which differs from run to run for integers.
    if (bytes > kMostBytes || skipped().written.contains(launch.raw("data").value_or(0))) return CUDA_SUCCESS;
    const std::uint64_t words = bytes / 8;
    for (std::uint64_t i = 0; i < words; ++i) {
        std::uint64_t word = 0;
        std::memcpy(&word, data + i * 8, 8);
        *sum += autotune_random::mix(word ^ autotune_random::mix(i));
    }
    for (std::uint64_t i = words * 8; i < bytes; ++i) *sum += autotune_random::mix(data[i] ^ autotune_random::mix(~i));
    return CUDA_SUCCESS;
}

// Passes a result as right whose computation was skipped, unless a rule requests a fault.
void judge_skipped(CompareResult& result, bool is_wrong) {
    result.sum_expected2 += 1;
    result.max_ratio = std::max(result.max_ratio, is_wrong ? kInfiniteRatio : 0.25);
    result.max_accumulation = std::max(result.max_accumulation, is_wrong ? kInfiniteRatio : 0.125);
    if (!is_wrong) return;
    ++result.violations;
    result.first_wrong_complement = ~std::uint64_t{0};
    result.sum_error2 += 1;
}

CUresult compare(const Launch& launch) {
    auto* result = pointer<CompareResult>(launch, "result", 1);
    if (result == nullptr) return CUDA_ERROR_ILLEGAL_ADDRESS;
    const Address out = launch.raw("out").value_or(0);
    if (skipped().answers.count(launch.raw("expected").value_or(0)) > 0) {
        judge_skipped(*result, skipped().wrong.count(out) > 0);
        return CUDA_SUCCESS;
    }
    const Tensor tensor = tensor_of(launch);
    const std::size_t size = size_bytes(tensor.dtype);
    const auto count = static_cast<std::uint64_t>(tensor.elements());
    const auto* data = pointer<std::byte>(launch, "out", static_cast<std::uint64_t>(tensor.span_bytes()));
    const auto* expected = pointer<double>(launch, "expected", count);
    const auto* bound = pointer<double>(launch, "bound", count);
    if (count > 0 && (data == nullptr || expected == nullptr || bound == nullptr)) return CUDA_ERROR_ILLEGAL_ADDRESS;
    for (std::int64_t i = 0; i < tensor.elements(); ++i) {
        std::uint64_t bits = 0;
        std::memcpy(&bits, data + static_cast<std::size_t>(tensor.offset_of(i)) * size, size);
        compare_element(*result, tensor.dtype, bits, expected[i], bound[i], static_cast<std::uint64_t>(i));
    }
    return CUDA_SUCCESS;
}

CUresult project(const Launch& launch) {
    const Matrix matrix = matrix_of(launch);
    if (matrix.elements() > kMostElements) return CUDA_SUCCESS;
    const bool transposed = launch.integer("transposed", 0) != 0;
    const DType type = type_of(launch);
    const std::size_t size = size_bytes(type);
    const std::int64_t along = transposed ? matrix.rows : matrix.cols;
    const std::int64_t across = transposed ? matrix.cols : matrix.rows;
    const auto* data = pointer<std::byte>(launch, "data", static_cast<std::uint64_t>(matrix.span()) * size);
    const auto* x = pointer<std::int64_t>(launch, "x", static_cast<std::uint64_t>(along * matrix.batch));
    auto* y = pointer<std::int64_t>(launch, "y", static_cast<std::uint64_t>(across * matrix.batch));
    auto* odd = pointer<std::uint64_t>(launch, "odd", 1);
    if (data == nullptr || x == nullptr || y == nullptr || odd == nullptr) return CUDA_ERROR_ILLEGAL_ADDRESS;
    for (std::int64_t i = 0; i < matrix.elements(); ++i) {
        std::uint64_t bits = 0;
        std::memcpy(&bits, data + static_cast<std::size_t>(matrix.offset(i)) * size, size);
        const double value = decode(type, bits);
        const std::int64_t batch = i / matrix.cols / matrix.rows;
        const std::int64_t row = i / matrix.cols % matrix.rows, col = i % matrix.cols;
        if (value != std::nearbyint(value)) {
            ++*odd;
        } else {
            y[batch * across + (transposed ? col : row)] += std::llround(value) * x[batch * along + (transposed ? row : col)];
        }
    }
    return CUDA_SUCCESS;
}

CUresult canary(const Launch& launch) {
    auto* sum = pointer<std::uint64_t>(launch, "sum", 1);
    if (sum == nullptr) return CUDA_ERROR_ILLEGAL_ADDRESS;
    static auto& known = *new std::map<std::uint32_t, std::uint64_t>;
    const auto rounds = static_cast<std::uint32_t>(launch.integer("rounds", 0));
    const auto found = known.find(rounds);
    *sum += found != known.end() ? found->second : known[rounds] = canary_sum(rounds);
    return CUDA_SUCCESS;
}

CUresult spin(const Launch& launch) {
    auto* spins = pointer<std::uint64_t>(launch, "spins", 1);
    if (spins == nullptr) return CUDA_ERROR_ILLEGAL_ADDRESS;
    Machine& machine = Machine::get();
    const std::chrono::nanoseconds wait(launch.integer("nanoseconds", 0));
    machine.busy_until = std::chrono::steady_clock::now() + wait;
    machine.now_us += static_cast<double>(wait.count()) / 1e3;
    *spins += 1;
    return CUDA_SUCCESS;
}

}  // namespace

std::optional<CUresult> compute_harness(const Launch& launch) {
    const std::string& symbol = launch.function->kernel->symbol;
    if (symbol == "autotune_fill") return fill(launch);
    if (symbol == "autotune_poison") return poison(launch);
    if (symbol == "autotune_copy") return copy(launch);
    if (symbol == "autotune_poison_shared") return poison_shared(launch);
    if (symbol == "autotune_redzone_check") return redzone_check(launch);
    if (symbol == "autotune_gap_check") return gap_check(launch);
    if (symbol == "autotune_checksum") return checksum(launch);
    if (symbol == "autotune_compare") return compare(launch);
    if (symbol == "autotune_project") return project(launch);
    if (symbol == "autotune_canary") return canary(launch);
    if (symbol == "autotune_spin_bounded") return spin(launch);
    if (symbol.starts_with("common_empty_sum_")) return empty_sum(launch);
    return std::nullopt;
}

}  // namespace autotune::fake
