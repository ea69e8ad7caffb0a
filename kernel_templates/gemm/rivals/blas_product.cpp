#include "kernel_templates/gemm/rivals/blas_product.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "kernel_templates/gemm/op/epilogue.h"
#include "kernel_templates/gemm/op/gemm_problem.h"
#include "kernel_templates/gemm/op/scaling.h"
#include "src/core/problem/dtype.h"

namespace autotune::gemm {
namespace {

namespace blas = gpu::blas;
using gpu::BlasProduct;

// cuBLAS's number for a type, or nullopt if it has none.
std::optional<int> data_type(DType type) {
    constexpr std::array<std::pair<DType, int>, 6> kTypes = {{{DType::f16, blas::kR16F},
                                                              {DType::bf16, blas::kR16BF},
                                                              {DType::f32, blas::kR32F},
                                                              {DType::f64, blas::kR64F},
                                                              {DType::e4m3, blas::kR8E4M3},
                                                              {DType::e5m2, blas::kR8E5M2}}};
    for (const auto& [known, code] : kTypes) {
        if (known == type) return code;
    }
    return std::nullopt;
}

double scalar(const Problem& problem, std::string_view name) {
    for (const Scalar& candidate : problem.scalars) {
        if (candidate.name == name) return candidate.number();
    }
    return name == "alpha" ? 1.0 : 0.0;
}

// The vendor's matrix for a tensor: read column by column, a matrix that is stored row by row is its transpose.
BlasProduct::Matrix matrix(const Problem& problem, int index) {
    const TypedMatrix stored = matrix_view(problem.tensors.at(static_cast<std::size_t>(index)));
    return {.tensor = index,
            .type = data_type(stored.dtype).value_or(blas::kR32F),
            .rows = stored.cols,
            .cols = stored.rows,
            .ld = stored.ld,
            .batch_stride = stored.batch_stride,
            .alignment_bytes = static_cast<std::uint32_t>(stored.alignment_bytes)};
}

bool has_word(const Problem& problem, std::string_view name, std::string_view word) {
    return problem.has_attribute(name) && problem.word(name) == word;
}

// cuBLASLt's numbers for how many elements share a scale: the tensor, a row, a vector of 128 k, a block of 128 x 128.
enum ScaleMode : std::int32_t { kOfTensor = 0, kOfRows = 3, kOfVectors = 4, kOfBlocks = 5 };

// Whether block scales have cuBLASLt's layout. Scales of A must be stored by columns without gaps, and those of B by rows of a
// multiple of four.
bool lie_as_expected(const Problem& problem) {
    const ScaleStrides a = scale_strides(problem, kScaleA), b = scale_strides(problem, kScaleB);
    const std::int64_t runs = (problem.extent("k") + kScaleBlock - 1) / kScaleBlock;
    return a.line == 1 && a.k == problem.extent("m") && b.k == 1 && b.line == (runs + 3) / 4 * 4;
}

// The part of the epilogue that cuBLASLt cannot do, or "".
std::string refuses_epilogue(const Problem& problem, const Epilogue& epilogue) {
    if (epilogue.writes_fp8 && problem.word("beta") != "zero") return "no entry for a C in fp8 that is read";
    if (epilogue.keeps_amax && !epilogue.writes_fp8) return "no entry for amax of a C that is not fp8";
    return epilogue.bias == DType::f32 ? "no entry for a bias in f32" : "";
}

// Whether cuBLASLt 13.1 can read scales and bias at their addresses. It refuses scales at other addresses, and its kernels fault
// on a bias at an odd multiple of 2 (H200, 2026-11-24).
bool has_aligned_vectors(const Problem& problem) {
    return std::all_of(problem.tensors.begin(), problem.tensors.end(), [](const Tensor& tensor) {
        const int least = tensor.name == kBias ? 4 : tensor.name.starts_with("scale_") && tensor.name != kScaleD ? 16 : 1;
        return tensor.is_absent || tensor.alignment_bytes >= least;
    });
}

// Sets the epilogue.
std::string choose_epilogue(const Problem& problem, BlasProduct& product) {
    const Epilogue epilogue = epilogue_of(problem);
    if (std::string reason = refuses_epilogue(problem, epilogue); !reason.empty()) return reason;
    const auto bind = [&](int name, std::string_view tensor) {
        if (const auto index = find_tensor(problem, tensor)) product.addresses.push_back({name, *index});
    };
    if (epilogue.writes_fp8) product.added_type = epilogue.bias == DType::f16 ? blas::kR16F : blas::kR16BF;
    if (epilogue.bias) {
        product.attributes.push_back({blas::kEpilogue, blas::kAddBias});
        product.attributes.push_back({blas::kBiasType, data_type(*epilogue.bias).value_or(blas::kR16BF)});
    }
    bind(blas::kBias, kBias);
    bind(blas::kScaleOfD, kScaleD);
    bind(blas::kAmaxOfD, kAmaxD);
    return "";
}

// Sets accumulation and scales of an fp8 product. The product's first matrix is our B.
std::string choose_fp8(const Problem& problem, BlasProduct& product) {
    product.attributes.push_back({blas::kFastAccumulation, is_fast(problem) ? 1 : 0, 1});
    if (!has_aligned_vectors(problem)) return "no entry for scales at addresses that are no multiples of 16, or a bias of 4";
    if (std::string reason = choose_epilogue(problem, product); !reason.empty()) return reason;
    const Scaling scaling = scaling_of(problem);
    if (scaling == Scaling::none) return "";
    if (problem.extent("batch") > 1 && scaling != Scaling::tensor) return "no entry for batches with scales of their own";
    if (scaling == Scaling::block && !lie_as_expected(problem)) return "its block scales lie otherwise in memory";
    product.addresses.push_back({blas::kScaleOfA, kScaleB});
    product.addresses.push_back({blas::kScaleOfB, kScaleA});
    const std::int32_t first = scaling == Scaling::tensor ? kOfTensor : scaling == Scaling::row ? kOfRows : kOfBlocks;
    const std::int32_t second = scaling == Scaling::block ? kOfVectors : first;
    if (scaling != Scaling::tensor) {
        product.attributes.push_back({blas::kScaleModeOfA, first});
        product.attributes.push_back({blas::kScaleModeOfB, second});
    }
    return "";
}

// Sets compute and scale type, or returns why these words have none. cuBLAS has no tf32x3, so it is compared with f32, which has
// the same accuracy.
std::string choose_arithmetic(const Problem& problem, BlasProduct& product) {
    const DType in = problem.tensors[kA].dtype;
    const DType out = problem.tensors[kC].dtype;
    const bool is_narrow = in == DType::f16 || in == DType::bf16;
    if (is_fp8(in)) return choose_fp8(problem, product);
    if (problem.tensors[kB].dtype != in) return "A and B differ in type";
    if (in == DType::f64) {
        product.compute = blas::kCompute64F;
        product.scale_type = blas::kR64F;
        return out == DType::f64 ? "" : "f64 inputs with another output type";
    }
    if (has_word(problem, "acc", "f16")) {
        if (in != DType::f16 || out != DType::f16) return "an f16 accumulator needs f16 tensors";
        product.compute = blas::kCompute16F;
        product.scale_type = blas::kR16F;
        return "";
    }
    if (!has_word(problem, "acc", "f32")) return "no entry for this accumulator";
    if (out != in && !(is_narrow && out == DType::f32)) return "no entry for this output type";
    if (in == DType::f32 && has_word(problem, "compute", "tf32")) {
        product.compute = blas::kCompute32FFastTf32;
    } else if (in == DType::f32 && !has_word(problem, "compute", "f32") && !has_word(problem, "compute", "tf32x3")) {
        return "no entry for this compute type";
    }
    return "";
}

bool fits_int(const BlasProduct& product) {
    for (const std::int64_t value :
         {product.m, product.n, product.k, product.batch, product.first.ld, product.second.ld, product.out.ld}) {
        if (value > std::numeric_limits<int>::max()) return false;
    }
    return true;
}

}  // namespace

std::optional<BlasProduct> blas_product(const Problem& problem, std::string* why) {
    const auto refuse = [why](const std::string& reason) {
        if (why != nullptr) *why = "cuBLAS: " + reason;
        return std::nullopt;
    };
    for (const Tensor& tensor : problem.tensors) {
        if (!data_type(tensor.dtype)) return refuse("no entry for " + std::string(to_string(tensor.dtype)));
    }
    BlasProduct product;
    if (const std::string reason = choose_arithmetic(problem, product); !reason.empty()) return refuse(reason);

    const std::string& layout = problem.word("layout");
    product.first = matrix(problem, kB);
    product.second = matrix(problem, kA);
    product.out = matrix(problem, kC);
    product.first_op = layout.at(1) == 't' ? blas::kTransposed : blas::kPlain;
    product.second_op = layout.at(0) == 't' ? blas::kTransposed : blas::kPlain;
    product.m = problem.extent("n");
    product.n = problem.extent("m");
    product.k = problem.extent("k");
    product.batch = problem.extent("batch");
    if (!fits_int(product)) return refuse("an extent or leading dimension is above 2^31 - 1");
    product.alpha = gpu::blas_scalar(scalar(problem, "alpha"), product.scale_type);
    product.beta = gpu::blas_scalar(scalar(problem, "beta"), product.scale_type);
    return product;
}

}  // namespace autotune::gemm
