#include "src/runtime/ops/gemm_problem.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "kernel_templates/empty_sum.h"
#include "kernel_templates/gemm/op/gemm_problem.h"
#include "src/core/error.h"
#include "src/runtime/api/versions.h"
#include "src/runtime/ops/general_kernels.h"

namespace autotune::runtime {
namespace {

// One operand of the row-major problem, with the caller's name for messages.
struct Operand {
    const char* name;
    std::int64_t rows, cols;  // as stored, row-major
    // nullopt means dense, for which the public struct has 0
    std::optional<std::int64_t> ld, stride;
    int align;  // 0: 16
    DType type;
};

DType type_of_ab(const autotune_gemm_problem& given) {
    return dtype_of(given.ab_type, "ab_type", DType::f16);
}
DType type_of_c(const autotune_gemm_problem& given) {
    return dtype_of(given.c_type, "c_type", type_of_ab(given));
}

void check_members(const autotune_gemm_problem& given) {
    const std::pair<const char*, std::int64_t> extents[] = {{"m", given.m}, {"n", given.n}, {"k", given.k}};
    for (const auto& [name, value] : extents)
        if (value < 0) refuse(std::string(name) + " is " + std::to_string(value) + "; it must be at least 0");
    if (given.batch < 0) refuse("batch is " + std::to_string(given.batch) + "; it must be at least 1, or 0 for 1");
    if (given.order != AUTOTUNE_ROW_MAJOR && given.order != AUTOTUNE_COLUMN_MAJOR)
        refuse("order is " + std::to_string(static_cast<int>(given.order)) + ", no value of autotune_order");
    if (given.beta != AUTOTUNE_BETA_ANY && given.beta != AUTOTUNE_BETA_ZERO)
        refuse("beta is " + std::to_string(static_cast<int>(given.beta)) + ", no value of autotune_beta");
}

// The operand as it is stored: `rows` x `cols` in the caller's order, converted to row-major.
Operand operand(const char* name, std::int64_t rows, std::int64_t cols, bool column_major) {
    return {name, column_major ? cols : rows, column_major ? rows : cols, {}, {}, 0, DType::f16};
}

std::optional<std::int64_t> unless_zero(std::int64_t given) {
    return given == 0 ? std::nullopt : std::optional(given);
}

std::array<Operand, 3> operands_of(const autotune_gemm_problem& given) {
    const bool column = swaps_operands(given);
    Operand a = operand("a", given.trans_a != 0 ? given.k : given.m, given.trans_a != 0 ? given.m : given.k, column);
    Operand b = operand("b", given.trans_b != 0 ? given.n : given.k, given.trans_b != 0 ? given.k : given.n, column);
    Operand c = operand("c", given.m, given.n, column);
    a.ld = unless_zero(given.lda), a.stride = unless_zero(given.stride_a), a.align = given.align_a;
    b.ld = unless_zero(given.ldb), b.stride = unless_zero(given.stride_b), b.align = given.align_b;
    c.ld = unless_zero(given.ldc), c.stride = unless_zero(given.stride_c), c.align = given.align_c;
    a.type = b.type = type_of_ab(given);
    c.type = type_of_c(given);
    if (column) return {b, a, c};
    return {a, b, c};
}

// Fills in the defaults and refuses invalid values.
void settle(Operand& operand, std::int64_t batch) {
    const std::string name = operand.name;
    // The bound of an extent or a leading dimension, so that products stay below 2^62.
    constexpr std::int64_t limit = std::int64_t{1} << 31;
    if (operand.rows >= limit || operand.cols >= limit || operand.ld >= limit)
        refuse("the extents and the leading dimension of " + name + " must be below 2^31");
    const std::int64_t ld = operand.ld.value_or(operand.cols);
    if (ld < operand.cols)
        refuse("ld" + name + " is " + std::to_string(ld) + "; it must be at least " + std::to_string(operand.cols));
    const bool is_empty = operand.rows == 0 || operand.cols == 0;
    const std::int64_t used = is_empty ? 0 : (operand.rows - 1) * ld + operand.cols;
    const std::int64_t stride = operand.stride.value_or(operand.rows * ld);
    if (stride < used)
        refuse("stride_" + name + " is " + std::to_string(stride) + ", but one matrix spans " + std::to_string(used) +
               " elements");
    const auto bytes = static_cast<std::int64_t>(size_bytes(operand.type));
    operand.align = std::min(checked_align(operand.align, name, bytes), alignment_of_stride(ld, bytes));
    if (batch > 1) operand.align = std::min(operand.align, alignment_of_stride(stride, bytes));
    operand.ld = ld, operand.stride = stride;
}

gemm::Spec::Stored stored(const Operand& operand, std::int64_t batch) {
    return {.ld = operand.ld, .stride = batch == 1 ? std::nullopt : operand.stride, .alignment_bytes = operand.align};
}

// A settled matrix as the op's tensor, dimensions in the order of the formula. REQUIRES: settle() was called.
TensorDescription description(const char* name, const Operand& operand, std::int64_t batch, bool transposed) {
    const Dim rows{operand.rows, *operand.ld}, cols{operand.cols, 1};
    return {.name = name,
            .dtype = operand.type,
            .dims = {{batch, *operand.stride}, transposed ? cols : rows, transposed ? rows : cols},
            .alignment_bytes = operand.align};
}

std::array<unsigned, 3> declared_aligns(const autotune_gemm_problem& given) {
    const auto or_full = [](int align) { return align == 0 ? 16U : static_cast<unsigned>(align); };
    return {or_full(given.align_a), or_full(given.align_b), or_full(given.align_c)};
}

}  // namespace

autotune_gemm_problem read_problem(const autotune_gemm_problem* given) {
    if (given == nullptr) refuse("problem is NULL");
    autotune_gemm_problem problem = {};
    if (!copy_versioned(problem, given))
        refuse("problem.struct_size must be sizeof(autotune_gemm_problem), here " + std::to_string(sizeof(problem)) + " bytes");
    return problem;
}

namespace {

// A problem with its defaults filled in, in the row-major order of its op.
struct RowMajorGemm {
    explicit RowMajorGemm(const autotune_gemm_problem& problem) : given(problem), operands(operands_of(problem)) {
        for (Operand& each : operands) settle(each, batch);
    }

    const autotune_gemm_problem& given;
    bool is_swapped = swaps_operands(given);
    std::int64_t m = is_swapped ? given.n : given.m, n = is_swapped ? given.m : given.n;
    std::int64_t batch = std::max<std::int64_t>(given.batch, 1);
    bool trans_first = (is_swapped ? given.trans_b : given.trans_a) != 0;
    bool trans_second = (is_swapped ? given.trans_a : given.trans_b) != 0;
    std::string accumulator = std::string(to_string(dtype_of(given.accumulator, "accumulator", DType::f32)));
    std::array<Operand, 3> operands;
};

// Makes the problem from a description, as for any op. The sentences of refusals come from there.
Problem described(const RowMajorGemm& settled, const Catalogue& catalogue) {
    const auto& [a, b, c] = settled.operands;
    ProblemDescription description{.op = "gemm",
                                   .tensors = {runtime::description("a", a, settled.batch, settled.trans_first),
                                               runtime::description("b", b, settled.batch, settled.trans_second),
                                               runtime::description("c", c, settled.batch, false)}};
    description.attributes = {{"acc", settled.accumulator},
                              {"layout", std::string(settled.trans_first ? "t" : "n") + (settled.trans_second ? "t" : "n")},
                              {"order", "row"},
                              {"beta", settled.given.beta == AUTOTUNE_BETA_ZERO ? "zero" : "any"}};
    return catalogue.find_op(description.op)->described(description).problem;
}

gemm::Spec spec_of(const RowMajorGemm& settled) {
    const auto& [a, b, c] = settled.operands;
    gemm::Spec spec;
    spec.m = settled.m, spec.n = settled.n, spec.k = settled.given.k, spec.batch = settled.batch;
    spec.types = {.a = a.type, .b = b.type, .c = c.type, .compute = {}, .acc = settled.accumulator};
    spec.trans_a = settled.trans_first, spec.trans_b = settled.trans_second;
    spec.reads_c = settled.given.beta != AUTOTUNE_BETA_ZERO;
    spec.beta = spec.reads_c ? 1 : 0;
    spec.stored = {stored(a, settled.batch), stored(b, settled.batch), stored(c, settled.batch)};
    return spec;
}

}  // namespace

// Makes the problem without a description, which takes a sixth of the instructions. A plan makes two problems, a first call in
// the background three.
Problem to_problem(const autotune_gemm_problem& given, const Catalogue& catalogue) {
    check_members(given);
    const RowMajorGemm settled(given);
    const bool is_word = settled.accumulator == "f32" || settled.accumulator == "f16";
    try {
        if (is_word) return gemm::make_problem(spec_of(settled));
    } catch (const Error&) {
        // The description will give the reason.
    }
    return described(settled, catalogue);
}

PlanKey key_of(const autotune_gemm_problem& given, std::uint64_t context_id, const std::array<unsigned, 3>& aligns,
               autotune_beta beta) noexcept {
    const auto word = [](std::int64_t value) { return static_cast<std::uint64_t>(value); };
    // Invalid numbers must not collide with valid ones, because the plan is looked up before anything is checked.
    const auto bits = [](auto value) { return std::min<std::uint64_t>(static_cast<std::uint64_t>(value), 0xffU); };
    std::uint64_t flags = bits(given.ab_type) | bits(given.c_type) << 8 | bits(given.accumulator) << 16 | bits(given.order) << 24;
    flags |= (given.trans_a != 0 ? 1ULL : 0ULL) << 32 | (given.trans_b != 0 ? 1ULL : 0ULL) << 33 |
             std::min<std::uint64_t>(bits(beta), 3) << 34;
    for (std::size_t i = 0; i < aligns.size(); ++i) flags |= std::uint64_t{std::min(aligns[i], 31U)} << (40 + 5 * i);
    return {{context_id, word(given.m), word(given.n), word(given.k), word(given.batch), word(given.lda), word(given.ldb),
             word(given.ldc), word(given.stride_a), word(given.stride_b), word(given.stride_c), flags}};
}

GemmPlanRequest::GemmPlanRequest(const autotune_gemm_problem& given)
    : given_(given), aligns_(declared_aligns(given)), beta_(given.beta) {}

GemmPlanRequest::GemmPlanRequest(const autotune_gemm_problem& given, const std::array<const void*, 3>& operands, float beta)
    : given_(given),
      aligns_({alignment_of(operands[0]), alignment_of(operands[1]), alignment_of(operands[2])}),
      beta_(beta == 0 ? AUTOTUNE_BETA_ZERO : AUTOTUNE_BETA_ANY) {}

PlanKey GemmPlanRequest::key(std::uint64_t context_id) const noexcept {
    return key_of(given_, context_id, aligns_, beta_);
}

std::optional<PlanKey> GemmPlanRequest::wider_key(std::uint64_t context_id) const noexcept {
    if (beta_ != AUTOTUNE_BETA_ZERO) return std::nullopt;
    return key_of(given_, context_id, aligns_, AUTOTUNE_BETA_ANY);
}

CallForm GemmPlanRequest::form() const noexcept {
    CallForm form;
    if (swaps_operands(given_)) std::swap(form.order[0], form.order[1]);
    return form;
}

Problem GemmPlanRequest::problem(const Catalogue& catalogue) const {
    return problem_of(beta_, aligns_, catalogue);
}

std::optional<Problem> GemmPlanRequest::with_word(const Catalogue& catalogue, const std::string& attribute,
                                                  const std::string& word) const {
    if (attribute != "beta") return std::nullopt;
    return problem_of(word == "zero" ? AUTOTUNE_BETA_ZERO : AUTOTUNE_BETA_ANY, aligns_, catalogue);
}

std::vector<Problem> GemmPlanRequest::wider_problems(const Catalogue& catalogue) const {
    std::vector<Problem> wider;
    if (beta_ == AUTOTUNE_BETA_ZERO) wider.push_back(problem_of(AUTOTUNE_BETA_ANY, aligns_, catalogue));
    const auto element = static_cast<unsigned>(size_bytes(type_of_ab(given_)));
    const auto element_c = static_cast<unsigned>(size_bytes(type_of_c(given_)));
    wider.push_back(problem_of(AUTOTUNE_BETA_ANY, {element, element, element_c}, catalogue));
    return wider;
}

Problem GemmPlanRequest::problem_of(autotune_beta beta, const std::array<unsigned, 3>& aligns, const Catalogue& catalogue) const {
    autotune_gemm_problem settled = given_;
    settled.beta = beta;
    settled.align_a = static_cast<int>(aligns[0]);
    settled.align_b = static_cast<int>(aligns[1]);
    settled.align_c = static_cast<int>(aligns[2]);
    return to_problem(settled, catalogue);
}

std::vector<GeneralKernel> general_kernels() {
    std::vector<GeneralKernel> kernels = {{std::string(empty_sum_family().name()), {"hgemm", "64x64x64", {}}}};
    for (const char* layout : {"nn", "nt", "tn", "tt"}) {
        for (const char* op : {"hgemm", "bgemm"}) {
            kernels.push_back({"gemm/simt", {op, "64x64x64", {{"layout", layout}, {"beta", "any"}, {"align", "2"}}}});
            if (layout[0] == 'n') kernels.push_back({"gemm/mma", {op, "64x64x64", {{"layout", layout}, {"beta", "any"}}}});
        }
        kernels.push_back({"gemm/simt_f32", {"sgemm", "64x64x64", {{"layout", layout}, {"beta", "any"}, {"align", "4"}}}});
    }
    return kernels;
}

}  // namespace autotune::runtime
