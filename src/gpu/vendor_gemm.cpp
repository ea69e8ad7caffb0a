#include <cstring>
#include <limits>

#include "src/core/dtype.h"
#include "src/gpu/vendor_blas_api.h"

namespace autotune::gpu {
namespace {

// cuBLAS's words for the types that are compared.
std::optional<int> data_type(DType type) {
    constexpr std::array<std::pair<DType, int>, 4> kTypes = {
        {{DType::f16, blas::kR16F}, {DType::bf16, blas::kR16BF}, {DType::f32, blas::kR32F}, {DType::f64, blas::kR64F}}};
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

std::array<std::byte, 8> scalar_bytes(double value, int scale_type) {
    std::array<std::byte, 8> bytes{};
    const auto narrow = static_cast<float>(value);
    if (scale_type == blas::kR16F) {
        const auto half = static_cast<std::uint16_t>(encode(DType::f16, value));
        std::memcpy(bytes.data(), &half, sizeof(half));
    } else if (scale_type == blas::kR64F) {
        std::memcpy(bytes.data(), &value, sizeof(value));
    } else {
        std::memcpy(bytes.data(), &narrow, sizeof(narrow));
    }
    return bytes;
}

// The vendor's matrix for a tensor: what is stored row by row is, column by column, its transpose.
VendorGemm::Matrix matrix(const Problem& problem, int index) {
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

// Sets compute and scale type; a reason if there is none for these words. f32 by three products of tf32 parts, which cuBLAS does
// not have, is compared with what gives as accurate an answer: f32.
std::string choose_arithmetic(const Problem& problem, VendorGemm& gemm) {
    const DType in = problem.tensors[0].dtype;
    const DType out = problem.tensors[2].dtype;
    const bool is_narrow = in == DType::f16 || in == DType::bf16;
    if (problem.tensors[1].dtype != in) return "A and B differ in type";
    if (in == DType::f64) {
        gemm.compute = blas::kCompute64F;
        gemm.scale_type = blas::kR64F;
        return out == DType::f64 ? "" : "f64 inputs with another output type";
    }
    if (has_word(problem, "acc", "f16")) {
        if (in != DType::f16 || out != DType::f16) return "an f16 accumulator needs f16 tensors";
        gemm.compute = blas::kCompute16F;
        gemm.scale_type = blas::kR16F;
        return "";
    }
    if (!has_word(problem, "acc", "f32")) return "no entry for this accumulator";
    if (out != in && !(is_narrow && out == DType::f32)) return "no entry for this output type";
    if (in == DType::f32 && has_word(problem, "compute", "tf32")) {
        gemm.compute = blas::kCompute32FFastTf32;
    } else if (in == DType::f32 && !has_word(problem, "compute", "f32") && !has_word(problem, "compute", "tf32x3")) {
        return "no entry for this compute type";
    }
    return "";
}

bool fits_int(const VendorGemm& gemm) {
    for (const std::int64_t value : {gemm.m, gemm.n, gemm.k, gemm.batch, gemm.first.ld, gemm.second.ld, gemm.out.ld}) {
        if (value > std::numeric_limits<int>::max()) return false;
    }
    return true;
}

}  // namespace

std::optional<VendorGemm> vendor_gemm(const Problem& problem, std::string* why) {
    const auto refuse = [why](const std::string& reason) {
        if (why != nullptr) *why = "cuBLAS: " + reason;
        return std::nullopt;
    };
    if (problem.op != "gemm" || problem.tensors.size() != 3) return refuse("only gemm is compared, not " + problem.op);
    for (const Tensor& tensor : problem.tensors) {
        if (!data_type(tensor.dtype)) return refuse("no entry for " + std::string(to_string(tensor.dtype)));
    }
    VendorGemm gemm;
    if (const std::string reason = choose_arithmetic(problem, gemm); !reason.empty()) return refuse(reason);

    const std::string& layout = problem.word("layout");
    gemm.first = matrix(problem, 1);
    gemm.second = matrix(problem, 0);
    gemm.out = matrix(problem, 2);
    gemm.first_op = layout.at(1) == 't' ? blas::kTransposed : blas::kPlain;
    gemm.second_op = layout.at(0) == 't' ? blas::kTransposed : blas::kPlain;
    gemm.m = problem.extent("n");
    gemm.n = problem.extent("m");
    gemm.k = problem.extent("k");
    gemm.batch = problem.extent("batch");
    if (!fits_int(gemm)) return refuse("an extent or leading dimension is above 2^31 - 1");
    gemm.alpha = scalar_bytes(scalar(problem, "alpha"), gemm.scale_type);
    gemm.beta = scalar_bytes(scalar(problem, "beta"), gemm.scale_type);
    return gemm;
}

}  // namespace autotune::gpu
