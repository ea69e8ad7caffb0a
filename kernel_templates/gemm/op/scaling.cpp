#include "kernel_templates/gemm/op/scaling.h"

#include <algorithm>

#include "src/core/error.h"

namespace autotune::gemm {
namespace {

std::int64_t blocks_of(std::int64_t extent) {
    return (extent + kScaleBlock - 1) / kScaleBlock;
}

std::int64_t extent_of(const std::vector<Extent>& extents, std::string_view name) {
    const auto found = std::find_if(extents.begin(), extents.end(), [&](const Extent& extent) { return extent.name == name; });
    if (found == extents.end()) internal_error("a product has no extent '" + std::string(name) + "'");
    return found->value;
}

Tensor scale_tensor(const char* name, std::vector<Dim> dims) {
    Tensor tensor;
    tensor.name = name;
    tensor.dtype = DType::f32;
    tensor.access = Access::in;
    tensor.dims = std::move(dims);
    tensor.alignment_bytes = 4;
    tensor.is_optional = true;
    return tensor;
}

// The number of scales, rounded up to sixteen bytes.
std::int64_t padded(std::int64_t count) {
    return (count + 3) / 4 * 4;
}

// Dimensions [batch, lines, runs of k], in which neighbouring lines are contiguous.
std::vector<Dim> lines_first(std::int64_t batch, std::int64_t lines, std::int64_t runs) {
    return {{batch, runs * padded(lines)}, {lines, 1}, {runs, padded(lines)}};
}

}  // namespace

bool is_fp8(DType type) {
    return type == DType::e4m3 || type == DType::e5m2;
}

Scaling scaling_of(const Problem& problem) {
    if (!problem.has_attribute("scale")) return Scaling::none;
    const auto word = std::find(kScalings.begin(), kScalings.end(), problem.word("scale"));
    check(word != kScalings.end(), "a product has an unknown scale");
    return static_cast<Scaling>(word - kScalings.begin());
}

bool is_fast(const Problem& problem) {
    return problem.word("acc") == kFast;
}

bool promotes(const Problem& problem) {
    return is_fp8(problem.tensors.front().dtype) && !is_fast(problem);
}

std::vector<Tensor> scale_tensors(Scaling scaling, const std::vector<Extent>& extents) {
    const std::int64_t m = extent_of(extents, "m"), n = extent_of(extents, "n"), k = extent_of(extents, "k");
    const std::int64_t batch = extent_of(extents, "batch");
    const std::int64_t runs = blocks_of(k);
    switch (scaling) {
        case Scaling::none:
            return {};
        case Scaling::tensor:
            return {scale_tensor("scale_a", {{1, 1}}), scale_tensor("scale_b", {{1, 1}})};
        case Scaling::row:
            return {scale_tensor("scale_a", {{batch, m}, {m, 1}}), scale_tensor("scale_b", {{batch, n}, {n, 1}})};
        case Scaling::block:
            return {scale_tensor("scale_a", lines_first(batch, m, runs)),
                    scale_tensor("scale_b", {{batch, blocks_of(n) * padded(runs)}, {blocks_of(n), padded(runs)}, {runs, 1}})};
    }
    return {};
}

std::string scale_form(Scaling scaling, int tensor) {
    switch (scaling) {
        case Scaling::none:
            return "";
        case Scaling::tensor:
            return "one element";
        case Scaling::row:
            return tensor == kScaleA ? "batch x m" : "batch x n";
        case Scaling::block:
            return tensor == kScaleA ? "batch x m x ceil(k/128)" : "batch x ceil(n/128) x ceil(k/128)";
    }
    return "";
}

ScaleStrides scale_strides(const Problem& problem, int tensor) {
    const Scaling scaling = scaling_of(problem);
    if (scaling == Scaling::none || scaling == Scaling::tensor) return {};
    const std::vector<Dim>& dims = problem.tensors[static_cast<std::size_t>(tensor)].dims;
    return {dims[0].stride, dims[1].stride, scaling == Scaling::block ? dims[2].stride : 0};
}

std::vector<Argument> scale_arguments(const Problem& problem) {
    const bool has_any = scaling_of(problem) != Scaling::none;
    std::vector<Argument> arguments;
    for (const int tensor : {kScaleA, kScaleB}) arguments.push_back(has_any ? Argument(TensorArg{tensor}) : Argument(I64Arg{0}));
    for (const int tensor : {kScaleA, kScaleB}) {
        const ScaleStrides strides = scale_strides(problem, tensor);
        for (const std::int64_t stride : {strides.batch, strides.line, strides.k}) arguments.push_back(I64Arg{stride});
    }
    return arguments;
}

// Two scales between 2^-1 and 2^1 shift a sum by at most two bits in either direction. With such scales the sum of 4096 products
// of {-2..2}, and even of 2^18, fits into the 24 bits of f32.
Fill exact_scales() {
    return Fill::powers(-1, 1);
}

Fill usual_scales() {
    return Fill::uniform(0.5F, 1.5F);
}

}  // namespace autotune::gemm
