#include "kernel_templates/gemm/op/epilogue.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernel_templates/gemm/op/gemm_problem.h"
#include "kernel_templates/gemm/op/scaling.h"

namespace autotune::gemm {
namespace {

Tensor vector_of(std::string_view name, DType dtype, std::int64_t count, Access access = Access::in) {
    Tensor tensor;
    tensor.name = name;
    tensor.dtype = dtype;
    tensor.access = access;
    tensor.dims = {{count, 1}};
    tensor.alignment_bytes = static_cast<int>(size_bytes(dtype));
    tensor.is_optional = true;
    return tensor;
}

Tensor absent(std::string_view name) {
    Tensor tensor = vector_of(name, DType::f32, 1);
    tensor.dims.clear();
    tensor.is_absent = true;
    return tensor;
}

// The factor of C is a power of two with which few sums saturate. So exact sums stay exact, and rounding hides few errors.
Fill epilogue_fill(const Problem& problem, const Tensor& tensor, bool is_typical, double largest) {
    if (tensor.is_absent) return Fill::constant(0);
    if (tensor.name == kBias) return is_typical ? Fill::normal() : Fill::integers();
    if (tensor.name == kAmaxD) return Fill::constant(is_typical ? 0.5F : 0.0F);
    const int exponent = std::ilogb(saturation_of(problem.tensors[kC].dtype) / largest);
    return Fill::constant(static_cast<float>(std::ldexp(is_typical ? 1.25 : 1.0, exponent)));
}

}  // namespace

void add_absent_scales(std::vector<Tensor>& tensors) {
    for (const char* name : {"scale_a", "scale_b"}) tensors.push_back(absent(name));
}

Epilogue epilogue_of(const Problem& problem) {
    Epilogue epilogue;
    if (problem.has_attribute("bias")) epilogue.bias = parse_dtype(problem.word("bias"));
    epilogue.writes_fp8 = is_fp8(problem.tensors[kC].dtype);
    epilogue.scales_c = problem.has_attribute("scale_d");
    epilogue.keeps_amax = problem.has_attribute("amax");
    return epilogue;
}

// A call's addresses are in the op's order, so a missing tensor before a given one keeps its place.
std::vector<Tensor> epilogue_tensors(const Epilogue& epilogue, std::int64_t n, int alignment) {
    std::vector<Tensor> tensors;
    if (epilogue.keeps_amax) tensors.push_back(vector_of(kAmaxD, DType::f32, 1, Access::inout));
    if (epilogue.scales_c || !tensors.empty())
        tensors.push_back(epilogue.scales_c ? vector_of(kScaleD, DType::f32, 1) : absent(kScaleD));
    if (epilogue.bias || !tensors.empty()) tensors.push_back(epilogue.bias ? vector_of(kBias, *epilogue.bias, n) : absent(kBias));
    for (Tensor& tensor : tensors) tensor.alignment_bytes = std::max(tensor.alignment_bytes, alignment);
    std::reverse(tensors.begin(), tensors.end());
    return tensors;
}

std::optional<int> find_tensor(const Problem& problem, std::string_view name) {
    for (std::size_t i = 0; i < problem.tensors.size(); ++i) {
        if (problem.tensors[i].name == name && !problem.tensors[i].is_absent) return static_cast<int>(i);
    }
    return std::nullopt;
}

Argument address_of(const Problem& problem, std::string_view name) {
    const std::optional<int> tensor = find_tensor(problem, name);
    return tensor ? Argument(TensorArg{*tensor}) : Argument(I64Arg{0});
}

std::vector<Binding> epilogue_facts(const Problem& problem) {
    const Epilogue epilogue = epilogue_of(problem);
    return {{"epilogue", epilogue.is_any() ? 1 : 0},
            {"bias_type", epilogue.bias.value_or(DType::f32)},
            {"has_bias", epilogue.bias ? 1 : 0},
            {"scales_c", epilogue.scales_c ? 1 : 0},
            {"keeps_amax", epilogue.keeps_amax ? 1 : 0}};
}

void add_scales_and_epilogue(std::vector<Argument>& arguments, const Problem& problem) {
    const std::vector<Argument> scales = scale_arguments(problem);
    arguments.insert(arguments.end(), scales.begin(), scales.end());
    if (!epilogue_of(problem).is_any()) return;
    for (const std::string_view name : {kBias, kScaleD, kAmaxD}) arguments.push_back(address_of(problem, name));
}

double saturation_of(DType type) {
    if (!is_fp8(type)) return std::numeric_limits<double>::infinity();
    return type == DType::e4m3 ? 448 : 57344;
}

void add_epilogue(const Problem& problem, OpTest& test, double largest) {
    for (std::size_t i = test.fills.size(); i < problem.tensors.size(); ++i)
        test.fills.push_back(epilogue_fill(problem, problem.tensors[i], test.is_typical, largest));
    if (epilogue_of(problem).keeps_amax) test.outputs.push_back({.tensor = static_cast<int>(problem.tensors.size()) - 1});
}

}  // namespace autotune::gemm
