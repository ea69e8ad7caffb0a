#include "src/runtime/gemm_problem.h"

#include <algorithm>
#include <string>

#include "src/runtime/settings.h"
#include "src/runtime/status.h"

namespace autotune::runtime {
namespace {

[[noreturn]] void refuse(const std::string& message) {
    throw Failure(AUTOTUNE_INVALID_ARGUMENT, message);
}

// One operand of the row-major problem, with the caller's name for messages.
struct Matrix {
    const char* name;
    std::int64_t rows, cols;  // as stored, row-major
    std::int64_t ld;          // 0: dense
    std::int64_t stride;      // 0: dense
    int align;                // 0: 16
    DType type;
};

DType dtype_of(autotune_dtype type, const char* member) {
    switch (type) {
        case AUTOTUNE_F16:
            return DType::f16;
        case AUTOTUNE_BF16:
            return DType::bf16;
        case AUTOTUNE_F32:
            return DType::f32;
        case AUTOTUNE_DTYPE_RANGE:
            break;
    }
    refuse(std::string(member) + " is " + std::to_string(static_cast<int>(type)) + ", no value of autotune_dtype");
}

void check_members(const autotune_gemm_problem& given) {
    const std::pair<const char*, std::int64_t> extents[] = {{"m", given.m}, {"n", given.n}, {"k", given.k}};
    for (const auto& [name, value] : extents)
        if (value < 1) refuse(std::string(name) + " is " + std::to_string(value) + "; it must be at least 1");
    if (given.batch < 0) refuse("batch is " + std::to_string(given.batch) + "; it must be at least 1, or 0 for 1");
    if (given.order != AUTOTUNE_ROW_MAJOR && given.order != AUTOTUNE_COLUMN_MAJOR)
        refuse("order is " + std::to_string(static_cast<int>(given.order)) + ", no value of autotune_order");
    if (given.beta != AUTOTUNE_BETA_ANY && given.beta != AUTOTUNE_BETA_ZERO)
        refuse("beta is " + std::to_string(static_cast<int>(given.beta)) + ", no value of autotune_beta");
}

// As stored: `rows` x `cols` in the caller's order, turned to row-major.
Matrix matrix(const char* name, std::int64_t rows, std::int64_t cols, bool column_major) {
    return {name, column_major ? cols : rows, column_major ? rows : cols, 0, 0, 0, DType::f16};
}

std::array<Matrix, 3> matrices_of(const autotune_gemm_problem& given) {
    const bool column = swaps_operands(given);
    Matrix a = matrix("a", given.trans_a != 0 ? given.k : given.m, given.trans_a != 0 ? given.m : given.k, column);
    Matrix b = matrix("b", given.trans_b != 0 ? given.n : given.k, given.trans_b != 0 ? given.k : given.n, column);
    Matrix c = matrix("c", given.m, given.n, column);
    a.ld = given.lda, a.stride = given.stride_a, a.align = given.align_a;
    b.ld = given.ldb, b.stride = given.stride_b, b.align = given.align_b;
    c.ld = given.ldc, c.stride = given.stride_c, c.align = given.align_c;
    a.type = b.type = dtype_of(given.ab_type, "ab_type");
    c.type = dtype_of(given.c_type, "c_type");
    if (column) return {b, a, c};
    return {a, b, c};
}

// Fills what was left to the library and refuses what cannot be.
void settle(Matrix& matrix, std::int64_t batch) {
    const std::string name = matrix.name;
    constexpr std::int64_t limit = std::int64_t{1} << 31;  // of an extent or a leading dimension; products stay below 2^62
    if (matrix.rows >= limit || matrix.cols >= limit || matrix.ld >= limit)
        refuse("the extents and the leading dimension of " + name + " must be below 2^31");
    if (matrix.ld == 0) matrix.ld = matrix.cols;
    if (matrix.ld < matrix.cols)
        refuse("ld" + name + " is " + std::to_string(matrix.ld) + "; it must be at least " + std::to_string(matrix.cols));
    const std::int64_t used = (matrix.rows - 1) * matrix.ld + matrix.cols;
    if (matrix.stride == 0) matrix.stride = matrix.rows * matrix.ld;
    if (matrix.stride < used)
        refuse("stride_" + name + " is " + std::to_string(matrix.stride) + ", but one matrix spans " + std::to_string(used) +
               " elements");
    const int align = matrix.align == 0 ? 16 : matrix.align;
    if (align < 1 || align > 16 || (align & (align - 1)) != 0)
        refuse("align_" + name + " is " + std::to_string(align) + "; it must be 0, 1, 2, 4, 8 or 16");
    const auto bytes = static_cast<std::int64_t>(size_bytes(matrix.type));
    if (align < bytes) refuse("align_" + name + " is smaller than an element of " + std::to_string(bytes) + " bytes");
    matrix.align = std::min(align, alignment_class(matrix.ld * bytes));
    if (batch > 1) matrix.align = std::min(matrix.align, alignment_class(matrix.stride * bytes));
}

std::string text(std::int64_t value) {
    return std::to_string(value);
}

}  // namespace

autotune_gemm_problem read_problem(const autotune_gemm_problem* given) {
    if (given == nullptr) refuse("problem is NULL");
    autotune_gemm_problem problem = {};
    if (!copy_versioned(&problem, sizeof(problem), given))
        refuse("problem.struct_size must be sizeof(autotune_gemm_problem), here " + std::to_string(sizeof(problem)) + " bytes");
    return problem;
}

Problem to_problem(const autotune_gemm_problem& given, const Catalogue& catalogue) {
    check_members(given);
    const bool swapped = swaps_operands(given);
    const std::int64_t batch = std::max<std::int64_t>(given.batch, 1);
    std::array<Matrix, 3> matrices = matrices_of(given);
    for (Matrix& each : matrices) settle(each, batch);
    const bool trans_first = (swapped ? given.trans_b : given.trans_a) != 0;
    const bool trans_second = (swapped ? given.trans_a : given.trans_b) != 0;

    ProblemRequest request;
    request.op = "gemm";
    request.shape = text(swapped ? given.n : given.m) + "x" + text(swapped ? given.m : given.n) + "x" + text(given.k);
    request.options = {
        {"a", std::string(to_string(matrices[0].type))},
        {"b", std::string(to_string(matrices[1].type))},
        {"c", std::string(to_string(matrices[2].type))},
        {"compute", std::string(to_string(matrices[0].type))},
        {"acc", std::string(to_string(dtype_of(given.accumulator, "accumulator")))},
        {"layout", std::string(trans_first ? "t" : "n") + (trans_second ? "t" : "n")},
        {"beta", given.beta == AUTOTUNE_BETA_ZERO ? "zero" : "any"},
        {"lda", text(matrices[0].ld)},
        {"ldb", text(matrices[1].ld)},
        {"ldc", text(matrices[2].ld)},
        {"batch", text(batch)},
        {"align", text(matrices[0].align) + "," + text(matrices[1].align) + "," + text(matrices[2].align)},
    };
    if (batch > 1) {
        request.options["stride_a"] = text(matrices[0].stride);
        request.options["stride_b"] = text(matrices[1].stride);
        request.options["stride_c"] = text(matrices[2].stride);
    }
    return catalogue.problem(request);
}

PlanKey key_of(const autotune_gemm_problem& given, std::uint64_t context_id, const std::array<unsigned, 3>& aligns,
               bool beta_is_zero) noexcept {
    const auto word = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
    const auto bits = [](auto value) { return static_cast<std::uint64_t>(value) & 0xffU; };
    std::uint64_t flags = bits(given.ab_type) | bits(given.c_type) << 8 | bits(given.accumulator) << 16 | bits(given.order) << 24;
    flags |=
        (given.trans_a != 0 ? 1ULL : 0ULL) << 32 | (given.trans_b != 0 ? 1ULL : 0ULL) << 33 | (beta_is_zero ? 1ULL : 0ULL) << 34;
    for (std::size_t i = 0; i < aligns.size(); ++i) flags |= std::uint64_t{aligns[i] & 31U} << (40 + 5 * i);
    return {{context_id, word(given.m), word(given.n), word(given.k), word(given.batch), word(given.lda), word(given.ldb),
             word(given.ldc), word(given.stride_a), word(given.stride_b), word(given.stride_c), flags}};
}

}  // namespace autotune::runtime
