#include "kernel_templates/gemm/op/gemm_problem.h"

#include <algorithm>

#include "kernel_templates/gemm/op/scaling.h"
#include "src/core/error.h"
#include "src/core/integer_math.h"

namespace autotune::gemm {
namespace {

DType dtype_word(const Problem& problem, std::string_view name) {
    const std::optional<DType> type = parse_dtype(problem.word(name));
    if (!type) internal_error("attribute '" + std::string(name) + "' is no element type");
    return *type;
}

}  // namespace

View::View(const Problem& problem)
    : m(problem.extent("m")),
      n(problem.extent("n")),
      k(problem.extent("k")),
      batch(problem.extent("batch")),
      in(dtype_word(problem, "a")),
      out(dtype_word(problem, "c")),
      acc(is_fast(problem) ? DType::f32 : dtype_word(problem, "acc")),
      fast(is_fast(problem)),
      trans_a(problem.word("layout")[0] == 't'),
      trans_b(problem.word("layout")[1] == 't'),
      reads_c(problem.word("beta") != "zero"),
      a(matrix_view(problem.tensors[kA])),
      b(matrix_view(problem.tensors[kB])),
      c(matrix_view(problem.tensors[kC])) {}

std::array<TypedMatrix, 3> matrices(const Problem& problem) {
    return {matrix_view(problem.tensors[kA]), matrix_view(problem.tensors[kB]), matrix_view(problem.tensors[kC])};
}

std::vector<Binding> facts(const Problem& problem) {
    const View view(problem);
    return {{"in_type", view.in},
            {"out_type", view.out},
            {"acc_type", view.acc},
            {"trans_a", view.trans_a ? 1 : 0},
            {"trans_b", view.trans_b ? 1 : 0},
            {"align_a", view.a.alignment_bytes},
            {"align_b", view.b.alignment_bytes},
            {"align_c", view.c.alignment_bytes},
            {"reads_c", view.reads_c ? 1 : 0}};
}

std::vector<Argument> arguments(const Problem& problem) {
    const View view(problem);
    return {TensorArg{kA},
            TensorArg{kB},
            TensorArg{kC},
            ScalarArg{kAlpha},
            ScalarArg{kBeta},
            I32Arg{narrow<std::int32_t>(view.m)},
            I32Arg{narrow<std::int32_t>(view.n)},
            I32Arg{narrow<std::int32_t>(view.k)},
            I64Arg{view.a.ld},
            I64Arg{view.b.ld},
            I64Arg{view.c.ld},
            I32Arg{narrow<std::int32_t>(view.batch)},
            I64Arg{view.a.batch_stride},
            I64Arg{view.b.batch_stride},
            I64Arg{view.c.batch_stride},
            WorkspaceArg{0}};
}

std::int64_t access_width(const TypedMatrix& matrix, std::int64_t vec) {
    return std::min(vec, matrix.alignment_bytes / static_cast<std::int64_t>(size_bytes(matrix.dtype)));
}

}  // namespace autotune::gemm
