#include <algorithm>
#include <array>

#include "kernel_templates/gemm/gemm_problem.h"
#include "kernel_templates/request.h"
#include "src/core/error.h"

namespace autotune::gemm {
namespace {

struct Sizes {
    std::int64_t m, n, k, batch;
};

Sizes parse_sizes(const Op& op, const ProblemRequest& request, const RequestOptions& options) {
    const ShapeNumbers numbers = parse_shape(request.shape, op.shape_form());
    const std::optional<std::int64_t> batch = options.positive("batch");
    if (batch && numbers.batch && *batch != *numbers.batch) {
        refuse("the shape '" + request.shape + "' and batch " + std::to_string(*batch) + " disagree; give the batch once");
    }
    const std::int64_t count = batch.value_or(numbers.batch.value_or(1));
    if (count > kLargestExtent) {
        refuse("batch is " + std::to_string(count) + "; the largest is " + std::to_string(kLargestExtent));
    }
    return {numbers.extents[0], numbers.extents[1], numbers.extents[2], count};
}

struct Types {
    DType in = DType::f16;
    std::string acc;
};

// A, B, C and the multiplier have one type for now: --dtype, or any of the four traits, as long as they agree.
Types parse_types(const RequestOptions& options) {
    std::string word = options.word("dtype", "");
    std::string said_by = "dtype";
    for (const char* name : {"a", "b", "c", "compute"}) {
        const std::optional<std::string> type = options.find(name);
        if (!type) continue;
        if (word.empty()) {
            word = *type;
            said_by = name;
        }
        if (*type != word)
            refuse(std::string(name) + " is " + *type + " but " + said_by + " is " + word + "; gemm wants one type for all");
    }
    if (word.empty()) word = "f16";
    const std::string acc = options.word("acc", "f32");
    if (acc == "f16" && word != "f16") refuse("acc f16 needs dtype f16, not " + word + "; use acc f32");
    const std::optional<DType> type = parse_dtype(word);
    check(type.has_value(), "gemm allows the unknown type '" + word + "'");
    return {*type, acc};
}

struct Beta {
    std::string word;
    double value = 0;
};

Beta parse_beta(const RequestOptions& options) {
    const std::string text = options.word("beta", "zero");
    if (text == "zero") return {"zero", 0};
    if (text == "any") return {"any", 1};
    const double value = options.number("beta").value_or(0);
    return {value == 0 ? "zero" : "any", value};
}

// What options say of one operand beside its shape.
struct OperandRequest {
    std::string name;  // "a"
    Access access;
    std::int64_t rows, cols;
};

std::int64_t parse_ld(const RequestOptions& options, const OperandRequest& wanted) {
    const std::string option = "ld" + wanted.name;
    const std::int64_t ld = options.positive(option).value_or(wanted.cols);
    if (ld < wanted.cols) {
        refuse(option + " is " + std::to_string(ld) + ", but a row of " + wanted.name + " as stored has " +
               std::to_string(wanted.cols) + " elements; give that or more");
    }
    return ld;
}

Operand make_operand(const RequestOptions& options, const OperandRequest& wanted, DType type, std::int64_t batch) {
    Operand operand;
    operand.name = wanted.name;
    operand.dtype = type;
    operand.access = wanted.access;
    operand.rows = wanted.rows;
    operand.cols = wanted.cols;
    operand.ld = parse_ld(options, wanted);
    check_operand_size(operand);
    operand.batch = batch;
    const std::int64_t least = (operand.rows - 1) * operand.ld + operand.cols;
    const std::string option = "stride_" + wanted.name;
    operand.batch_stride = options.positive(option).value_or(operand.rows * operand.ld);
    if (operand.batch_stride < least && batch > 1) {
        refuse(option + " is " + std::to_string(operand.batch_stride) + ", but one matrix of " + wanted.name + " spans " +
               std::to_string(least) + " elements; give that or more");
    }
    check_operand_size(operand);
    return operand;
}

// The largest alignment that base address, rows and batches share.
int alignment_of(const Operand& operand, int base_alignment) {
    const auto size = static_cast<std::int64_t>(size_bytes(operand.dtype));
    int alignment = std::min(base_alignment, alignment_class(operand.ld * size));
    if (operand.batch > 1) alignment = std::min(alignment, alignment_class(operand.batch_stride * size));
    return alignment;
}

std::string alignment_word(const std::vector<Operand>& operands) {
    std::string word;
    for (const Operand& operand : operands) word += (word.empty() ? "" : ",") + std::to_string(operand.alignment_bytes);
    return word;
}

}  // namespace

Problem make_problem(const Op& op, const ProblemRequest& request) {
    const RequestOptions options(op, request);
    const Sizes size = parse_sizes(op, request, options);
    const Types types = parse_types(options);
    const Beta beta = parse_beta(options);
    const std::string layout = options.word("layout", "nn");
    const bool trans_a = layout[0] == 't';
    const bool trans_b = layout[1] == 't';

    Problem problem;
    problem.op = op.name();
    problem.extents = {{"m", size.m}, {"n", size.n}, {"k", size.k}, {"batch", size.batch}};
    const std::vector<OperandRequest> wanted = {{"a", Access::in, trans_a ? size.k : size.m, trans_a ? size.m : size.k},
                                                {"b", Access::in, trans_b ? size.n : size.k, trans_b ? size.k : size.n},
                                                {"c", beta.word == "zero" ? Access::out : Access::inout, size.m, size.n}};
    const std::array<int, 3> alignments = parse_alignments(options, size_bytes(types.in));
    for (std::size_t i = 0; i < wanted.size(); ++i) {
        problem.operands.push_back(make_operand(options, wanted[i], types.in, size.batch));
        problem.operands.back().alignment_bytes = alignment_of(problem.operands.back(), alignments[i]);
    }
    const std::string type(to_string(types.in));
    problem.traits = {{"a", type},        {"b", type},        {"c", type},         {"compute", type},
                      {"acc", types.acc}, {"layout", layout}, {"beta", beta.word}, {"align", alignment_word(problem.operands)}};
    problem.scalars = {{"alpha", options.number("alpha").value_or(1)}, {"beta", beta.value}};
    return problem;
}

}  // namespace autotune::gemm
