// From a Spec to a problem: what words and descriptions are checked for alike.
#include <algorithm>
#include <array>

#include "kernel_templates/gemm/epilogue.h"
#include "kernel_templates/gemm/gemm_problem.h"
#include "kernel_templates/gemm/scaling.h"
#include "kernel_templates/request.h"
#include "src/core/error.h"

namespace autotune::gemm {
namespace {

// A matrix as stored, before its distances are known.
struct MatrixShape {
    std::string name;  // "a"
    DType type;
    Access access;
    std::int64_t rows, cols;
};

std::int64_t checked_ld(const MatrixShape& matrix, const Spec::Stored& stored) {
    const std::int64_t ld = stored.ld == 0 ? matrix.cols : stored.ld;
    if (ld < matrix.cols) {
        refuse("ld" + matrix.name + " is " + std::to_string(ld) + ", but a row of " + matrix.name + " as stored has " +
               std::to_string(matrix.cols) + " elements; give that or more");
    }
    return ld;
}

void check_stride(const MatrixShape& matrix, const Matrix& stored) {
    const std::int64_t least = (stored.rows - 1) * stored.ld + stored.cols;
    if (stored.batch_stride < least && stored.batch > 1) {
        refuse("stride_" + matrix.name + " is " + std::to_string(stored.batch_stride) + ", but one matrix of " + matrix.name +
               " spans " + std::to_string(least) + " elements; give that or more");
    }
}

// The largest alignment that base address, rows and batches share.
int shared_alignment(const Matrix& matrix, std::int64_t element_bytes, int base_alignment) {
    int alignment = std::min(base_alignment, alignment_class(matrix.ld * element_bytes));
    if (matrix.batch > 1) alignment = std::min(alignment, alignment_class(matrix.batch_stride * element_bytes));
    return alignment;
}

Tensor make_tensor(const MatrixShape& extents, const Spec& spec, const Spec::Stored& stored) {
    Tensor tensor;
    tensor.name = extents.name;
    tensor.dtype = extents.type;
    tensor.access = extents.access;
    Matrix matrix{extents.rows, extents.cols, checked_ld(extents, stored), 1, 0};
    tensor.dims = matrix.dims();
    check_tensor_size(tensor);  // before a product of its numbers is taken
    matrix.batch = spec.batch;
    matrix.batch_stride = stored.stride == 0 ? matrix.rows * matrix.ld : stored.stride;
    check_stride(extents, matrix);
    tensor.dims = matrix.dims();
    check_tensor_size(tensor);
    const auto element_bytes = static_cast<std::int64_t>(size_bytes(extents.type));
    tensor.alignment_bytes = shared_alignment(matrix, element_bytes, stored.alignment_bytes);
    return tensor;
}

std::string alignment_word(const std::vector<Tensor>& tensors) {
    std::string word;
    for (const Tensor& tensor : tensors) word += (word.empty() ? "" : ",") + std::to_string(tensor.alignment_bytes);
    return word;
}

}  // namespace

Problem make_problem(const Spec& spec) {
    const Types types = checked_types(spec.types);
    const bool of_fp8 = is_fp8(types.a);
    if (of_fp8 && (spec.trans_a || !spec.trans_b))
        refuse(std::string("fp8 is multiplied along K: layout nt alone, A stored [M, K] and B [N, K]; store ") +
               (spec.trans_a ? "A" : "B") + " transposed");
    const std::array<MatrixShape, 3> extents = {{
        {"a", types.a, Access::in, spec.trans_a ? spec.k : spec.m, spec.trans_a ? spec.m : spec.k},
        {"b", types.b, Access::in, spec.trans_b ? spec.n : spec.k, spec.trans_b ? spec.k : spec.n},
        {"c", types.c, spec.reads_c ? Access::inout : Access::out, spec.m, spec.n},
    }};
    Problem problem;
    problem.op = "gemm";
    problem.extents = {{"m", spec.m}, {"n", spec.n}, {"k", spec.k}, {"batch", spec.batch}};
    for (std::size_t i = 0; i < extents.size(); ++i) problem.tensors.push_back(make_tensor(extents[i], spec, spec.stored[i]));
    const std::string layout = std::string(spec.trans_a ? "t" : "n") + (spec.trans_b ? "t" : "n");
    problem.attributes = {{"a", std::string(to_string(types.a))},
                          {"b", std::string(to_string(types.b))},
                          {"c", std::string(to_string(types.c))},
                          {"compute", types.compute},
                          {"acc", types.acc},
                          {"layout", layout},
                          {"beta", spec.reads_c ? "any" : "zero"},
                          {"align", alignment_word(problem.tensors)}};
    if (of_fp8) problem.attributes.push_back({"scale", types.scale});
    const std::array<std::array<std::string, 3>, 3> epilogue = {
        {{"bias", types.bias, kBiases[0]}, {"scale_d", types.scale_d, kScalesOfC[0]}, {"amax", types.amax, kAmaxes[0]}}};
    for (const auto& [name, word, usual] : epilogue) {
        if (word != usual) problem.attributes.push_back({name, word});
    }
    std::vector<Tensor> dense = scale_tensors(scaling_of(problem), problem.extents);
    for (Tensor& scale : dense) scale.alignment_bytes = std::max(scale.alignment_bytes, spec.vector_alignment);
    const std::vector<Tensor>& scales = spec.scales.empty() ? dense : spec.scales;
    problem.tensors.insert(problem.tensors.end(), scales.begin(), scales.end());
    const std::vector<Tensor> last = epilogue_tensors(epilogue_of(problem), spec.n, spec.vector_alignment);
    if (!last.empty() && scales.empty()) add_absent_scales(problem.tensors);
    problem.tensors.insert(problem.tensors.end(), last.begin(), last.end());
    problem.scalars = {{"alpha", spec.alpha}, {"beta", spec.beta}};
    return problem;
}

}  // namespace autotune::gemm
