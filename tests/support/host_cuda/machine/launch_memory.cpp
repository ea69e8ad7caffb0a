#include "tests/support/host_cuda/machine/launch_memory.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "kernel_templates/harness/fill.h"
#include "kernel_templates/harness/harness.h"
#include "src/core/error.h"

namespace autotune::test::host_cuda {
namespace {

constexpr std::uint64_t kSeed = 1;
constexpr std::byte kUnwritten{static_cast<unsigned char>(kPoisonByte)};

u64 address_of(const GuardedArray& array) {
    return reinterpret_cast<u64>(array.bytes().data());
}

std::vector<double> doubles_of(const GuardedArray& array) {
    std::vector<double> values(array.bytes().size() / sizeof(double));
    std::memcpy(values.data(), array.bytes().data(), array.bytes().size());
    return values;
}

}  // namespace

std::vector<std::vector<double>> filled_tensors(const Problem& problem, const OpTest& test) {
    std::vector<std::vector<double>> tensors;
    for (std::size_t i = 0; i < problem.tensors.size(); ++i)
        tensors.push_back(problem.tensors[i].is_absent
                              ? std::vector<double>()
                              : filled_tensor(test.fills[i], problem.tensors[i], static_cast<int>(i), kSeed));
    return tensors;
}

Bits encoded(DType type, const std::vector<double>& values) {
    const std::size_t size = size_bytes(type);
    Bits bytes(values.size() * size);
    for (std::size_t i = 0; i < values.size(); ++i) {
        const std::uint64_t bits = encode(type, values[i]);
        std::memcpy(bytes.data() + i * size, &bits, size);
    }
    return bytes;
}

LaunchMemory::LaunchMemory(const Problem& problem, const LaunchPlan& plan, const std::vector<Bits>& contents,
                           GuardedArray::Side side, const std::vector<std::int64_t>& answers)
    : problem_(problem), plan_(plan), workspace_(plan.workspace_bytes, 16, side) {
    for (std::size_t i = 0; i < contents.size(); ++i) {
        arrays_.emplace_back(contents[i].size(), static_cast<std::size_t>(problem.tensors[i].alignment_bytes), side);
        std::copy(contents[i].begin(), contents[i].end(), arrays_.back().bytes().begin());
    }
    for (const std::int64_t elements : answers) {
        for (std::vector<GuardedArray>* const arrays : {&expected_, &bounds_}) {
            arrays->emplace_back(static_cast<std::size_t>(elements) * sizeof(double), sizeof(double), side);
            std::fill(arrays->back().bytes().begin(), arrays->back().bytes().end(), kUnwritten);
        }
    }
    std::fill(workspace_.bytes().begin(), workspace_.bytes().end(), kUnwritten);
    std::fill_n(workspace_.bytes().begin(), plan.workspace_zero_bytes, std::byte{0});
}

std::vector<u64> LaunchMemory::words(const LaunchStep& step) const {
    std::vector<u64> words;
    for (const Argument& argument : step.arguments) {
        if (const auto* const map = std::get_if<TensorMapArg>(&argument)) {
            constexpr std::size_t map_words = 16;  // the size of a map in a kernel's declaration
            const ::host_cuda::TensorMap encoded = map_of(*map);
            words.resize(words.size() + map_words);
            std::memcpy(&words[words.size() - map_words], &encoded, sizeof(encoded));
        } else {
            words.push_back(word(argument));
        }
    }
    return words;
}

::host_cuda::TensorMap LaunchMemory::map_of(const TensorMapArg& argument) const {
    const bool is_workspace = argument.tensor < 0;
    const auto index = static_cast<std::size_t>(is_workspace ? 0 : argument.tensor);
    const DType type = is_workspace ? argument.workspace_type : problem_.tensors[index].dtype;
    const u64 base = is_workspace ? address_of(workspace_) + argument.workspace_offset_bytes : address_of(arrays_[index]);
    ::host_cuda::TensorMap map{};
    map.base = reinterpret_cast<unsigned char*>(base);
    std::copy(argument.dims.begin(), argument.dims.end(), map.extents);
    std::copy(argument.strides_bytes.begin(), argument.strides_bytes.end(), map.strides);
    std::copy(argument.box.begin(), argument.box.end(), map.boxes);
    map.rank = static_cast<u16>(argument.rank);
    map.element_bytes = static_cast<u16>(size_bytes(type));
    map.swizzle_bytes = static_cast<u16>(argument.tma_swizzle_bytes);
    return map;
}

u64 LaunchMemory::word(const Argument& argument) const {
    const auto at = [](int index) { return static_cast<std::size_t>(index); };
    if (const auto* const tensor = std::get_if<TensorArg>(&argument))
        return problem_.tensors[at(tensor->index)].is_absent ? 0 : address_of(arrays_[at(tensor->index)]) + tensor->offset_bytes;
    if (const auto* const scalar = std::get_if<ScalarArg>(&argument)) return problem_.scalars[at(scalar->index)].bits();
    if (const auto* const place = std::get_if<WorkspaceArg>(&argument)) return address_of(workspace_) + place->offset_bytes;
    if (const auto* const number = std::get_if<I32Arg>(&argument)) return static_cast<u32>(number->value);
    if (const auto* const number = std::get_if<I64Arg>(&argument)) return static_cast<u64>(number->value);
    if (const auto* const number = std::get_if<F32Arg>(&argument)) return std::bit_cast<u32>(number->value);
    if (const auto* const answer = std::get_if<ExpectedArg>(&argument)) return address_of(expected_[at(answer->output)]);
    if (const auto* const answer = std::get_if<BoundArg>(&argument)) return address_of(bounds_[at(answer->output)]);
    throw Error(ErrorCode::internal, "an argument of another kind");
}

Expected LaunchMemory::answer(std::size_t output) const {
    return {doubles_of(expected_[output]), doubles_of(bounds_[output])};
}

std::string LaunchMemory::damage(const std::vector<Bits>& before) const {
    for (std::size_t i = 0; i < arrays_.size(); ++i) {
        const Tensor& tensor = problem_.tensors[i];
        if (!arrays_[i].is_whole()) return "writes outside tensor " + tensor.name;
        const bool is_as_before = std::equal(before[i].begin(), before[i].end(), arrays_[i].bytes().begin());
        if (tensor.access == Access::in && !is_as_before) return "changes its input " + tensor.name;
        if (tensor.is_written() && tensor.has_gaps() && !gaps_are_as_before(i, before[i]))
            return "writes between the elements of " + tensor.name;
    }
    if (!workspace_.is_whole()) return "writes outside its workspace";
    const auto zeros = workspace_.bytes().first(plan_.workspace_zero_bytes);
    const bool is_zero = std::all_of(zeros.begin(), zeros.end(), [](std::byte each) { return each == std::byte{0}; });
    return is_zero ? "" : "leaves workspace that must be zero for the next run with other bytes";
}

std::string LaunchMemory::place_of(const void* address) const {
    for (std::size_t i = 0; i < arrays_.size(); ++i)
        if (const auto place = arrays_[i].place_of(address)) return *place + " of tensor " + problem_.tensors[i].name;
    if (const auto place = workspace_.place_of(address)) return *place + " of the workspace";
    return "far from every tensor";
}

bool LaunchMemory::gaps_are_as_before(std::size_t index, const Bits& before) const {
    const Tensor& tensor = problem_.tensors[index];
    const std::size_t size = size_bytes(tensor.dtype);
    std::vector<bool> is_element(before.size() / size, false);
    for (std::int64_t i = 0; i < tensor.elements(); ++i) is_element[static_cast<std::size_t>(tensor.offset_of(i))] = true;
    for (std::size_t i = 0; i < before.size(); ++i)
        if (!is_element[i / size] && arrays_[index].bytes()[i] != before[i]) return false;
    return true;
}

}  // namespace autotune::test::host_cuda
