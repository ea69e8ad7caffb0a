// Makes a problem from a Spec, and checks what requests and descriptions must both satisfy.
#include <algorithm>
#include <array>

#include "kernel_templates/gemm/op/epilogue.h"
#include "kernel_templates/gemm/op/gemm_problem.h"
#include "kernel_templates/gemm/op/scaling.h"
#include "kernel_templates/request.h"
#include "src/core/error.h"
#include "src/core/integer_math.h"

namespace autotune::gemm {
namespace {

// A matrix as it is stored, before its strides are known.
struct UnstridedMatrix {
    std::string name;  // "a"
    DType type;
    Access access;
    std::int64_t rows, cols;
};

std::int64_t checked_ld(const UnstridedMatrix& matrix, const Spec::Stored& stored) {
    const std::int64_t ld = stored.ld.value_or(matrix.cols);
    if (ld == 0 && matrix.rows > 1 && matrix.cols > 0)
        refuse("tensor " + matrix.name + " repeats one row (a stride of 0); gemm takes one matrix for all of a batch, and " +
               "no such rows: make it contiguous");
    if (ld < matrix.cols) {
        refuse("ld" + matrix.name + " is " + std::to_string(ld) + ", but a row of " + matrix.name + " as stored has " +
               std::to_string(matrix.cols) + " elements; give that or more");
    }
    return ld;
}

// An operand may have one matrix for a whole batch; the matrices of C must be apart.
void check_stride(const UnstridedMatrix& matrix, const Matrix& stored) {
    if (stored.batch_stride == 0 && matrix.access == Access::in) return;
    const std::int64_t least = (stored.rows - 1) * stored.ld + stored.cols;
    if (stored.batch_stride == 0 && stored.batch > 1)
        refuse("tensor " + matrix.name + " repeats one matrix for all of the batch (a stride of 0), but each is written; give " +
               std::to_string(least) + " or more");
    if (stored.batch_stride < least && stored.batch > 1) {
        refuse("stride_" + matrix.name + " is " + std::to_string(stored.batch_stride) + ", but one matrix of " + matrix.name +
               " spans " + std::to_string(least) + " elements; give that or more");
    }
}

// The largest alignment that base address, rows and batches share.
int shared_alignment(const Matrix& matrix, std::int64_t element_bytes, int base_alignment) {
    int alignment = std::min(base_alignment, alignment_of_stride(matrix.ld, element_bytes));
    if (matrix.batch > 1) alignment = std::min(alignment, alignment_of_stride(matrix.batch_stride, element_bytes));
    return alignment;
}

Tensor make_tensor(const UnstridedMatrix& extents, const Spec& spec, const Spec::Stored& stored) {
    Tensor tensor;
    tensor.name = extents.name;
    tensor.dtype = extents.type;
    tensor.access = extents.access;
    Matrix matrix{extents.rows, extents.cols, checked_ld(extents, stored), 1, 0};
    tensor.dims = matrix.dims();
    check_tensor_size(tensor);  // checked before any product of extents is computed
    matrix.batch = spec.batch;
    const bool is_empty = matrix.batch == 0 || tensor.is_empty();
    matrix.batch_stride = is_empty ? 0 : stored.stride.value_or(matrix.rows * matrix.ld);
    if (!is_empty) check_stride(extents, matrix);
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

// The distance between batches if it continues the distance between rows, so that all rows of a batch belong to one matrix.
// `rows` is the number of rows of each batch.
std::optional<std::int64_t> even_distance(const Spec::Stored& stored, std::int64_t rows, std::int64_t cols) {
    const std::int64_t ld = stored.ld.value_or(cols);
    const std::optional<std::int64_t> of_batch = checked_product(rows, ld);
    const std::int64_t stride = stored.stride.value_or(of_batch.value_or(0));
    if (stride < cols || (rows > 1 && of_batch != stride)) return std::nullopt;
    return rows > 1 ? ld : stride;
}

// A batch with one B (a weight) becomes one taller product, if the rows of A and C continue evenly from batch to batch. So
// configs tuned for that product serve it, and families need not know of repeated matrices.
Spec folded(const Spec& given) {
    Spec spec = given;
    const bool is_repeated = spec.batch > 1 && spec.stored[kB].stride == 0 && !spec.trans_a;
    const bool has_scales_of_batches = spec.types.scale != kScalings[0] && spec.types.scale != "tensor";
    const std::optional<std::int64_t> rows = checked_product(spec.batch, spec.m);
    if (!is_repeated || has_scales_of_batches || !rows || *rows < 1 || *rows > kLargestExtent || spec.k < 1 || spec.n < 1)
        return spec;
    const auto ld_a = even_distance(spec.stored[kA], spec.m, spec.k), ld_c = even_distance(spec.stored[kC], spec.m, spec.n);
    if (!ld_a || !ld_c) return spec;
    spec.m = *rows;
    spec.batch = 1;
    spec.stored[kA].ld = ld_a, spec.stored[kC].ld = ld_c;
    for (Spec::Stored& stored : spec.stored) stored.stride.reset();
    return spec;
}

}  // namespace

void check_extent(const char* name, std::int64_t value) {
    if (value < 0 || value > kLargestExtent)
        refuse(std::string(name) + " is " + std::to_string(value) + "; give a whole number from 0 to " +
               std::to_string(kLargestExtent));
}

Problem make_problem(const Spec& given) {
    check_extent("m", given.m), check_extent("n", given.n), check_extent("k", given.k), check_extent("batch", given.batch);
    const Spec spec = folded(given);
    const Types types = checked_types(spec.types);
    const bool of_fp8 = is_fp8(types.a);
    if (of_fp8 && (spec.trans_a || !spec.trans_b))
        refuse(std::string("fp8 is multiplied along K: layout nt alone, A stored [M, K] and B [N, K]; store ") +
               (spec.trans_a ? "A" : "B") + " transposed");
    const std::array<UnstridedMatrix, 3> extents = {{
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
