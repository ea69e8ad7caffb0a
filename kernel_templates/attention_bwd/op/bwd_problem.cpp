#include "kernel_templates/attention_bwd/op/bwd_problem.h"

#include <algorithm>
#include <cmath>

#include "kernel_templates/request.h"
#include "src/core/error.h"

namespace autotune::attention_bwd {
namespace {

using attention::Strides;

// Gradients have the strides of the tensors that they are gradients of, unless they have their own.
Tensor like(const Tensor& tensor, const char* name, Access access, const std::optional<Strides>& strides, int align) {
    Tensor made = tensor;
    made.name = name;
    made.access = access;
    made.is_optional = false;
    if (strides) {
        made.dims[attention::kBatch].stride = strides->batch;
        made.dims[attention::kHead].stride = strides->head;
        made.dims[attention::kRow].stride = strides->row;
    }
    check_tensor_size(made);
    if (made.is_written()) attention::check_no_overlap(made);
    made.alignment_bytes = attention::row_alignment(align, made);
    return made;
}

// The request for attention's own parser, without the options of the backward pass.
ProblemRequest forward_request(const ProblemRequest& request) {
    ProblemRequest forward = request;
    forward.op = "attention";
    forward.options.erase("deterministic");
    forward.options.erase("align");
    return forward;
}

}  // namespace

View::View(const Problem& problem)
    : attention::View(problem),
      do_strides(attention::strides_of(problem.tensors[kDo])),
      dq_strides(attention::strides_of(problem.tensors[kDq])),
      dk_strides(attention::strides_of(problem.tensors[kDk])),
      dv_strides(attention::strides_of(problem.tensors[kDv])),
      align_do(problem.tensors[kDo].alignment_bytes),
      align_dq(problem.tensors[kDq].alignment_bytes),
      align_dk(problem.tensors[kDk].alignment_bytes),
      align_dv(problem.tensors[kDv].alignment_bytes),
      is_deterministic(problem.word("deterministic") == "yes") {}

Problem make_problem(const Spec& spec) {
    attention::Spec forward = spec.forward;
    forward.has_lse = true;
    Problem problem = attention::make_problem(forward);
    problem.op = "attention_bwd";
    for (Tensor& tensor : problem.tensors) tensor.access = Access::in;
    problem.tensors[kLse].is_optional = false;
    const std::array<int, 4> sources = {kO, kQ, kK, kV};
    for (std::size_t i = 0; i < sources.size(); ++i) {
        const Tensor source = problem.tensors[static_cast<std::size_t>(sources[i])];
        problem.tensors.push_back(like(source, kNames[i + 5], i == 0 ? Access::in : Access::out, spec.strides[i], spec.align[i]));
    }
    std::erase_if(problem.attributes,
                  [](const Attribute& attribute) { return attribute.name == "lse" || attribute.name == "align"; });
    problem.attributes.push_back({"deterministic", std::string(spec.is_deterministic ? "yes" : "any")});
    std::string align;
    for (const Tensor& tensor : problem.tensors)
        if (tensor.name != "lse") align += (align.empty() ? "" : ",") + std::to_string(tensor.alignment_bytes);
    problem.attributes.push_back({"align", align});
    return problem;
}

Problem parse(const Op& op, const ProblemRequest& request) {
    const RequestOptions options(op, request);
    Spec spec;
    spec.forward = attention::parse_spec(op, forward_request(request));
    spec.is_deterministic = options.word("deterministic", "yes") == "yes";
    const std::vector<int> align =
        parse_alignments(options, size_bytes(spec.forward.type), {"q", "k", "v", "o", "do", "dq", "dk", "dv"});
    std::copy(align.begin(), align.begin() + 4, spec.forward.align.begin());
    std::copy(align.begin() + 4, align.end(), spec.align.begin());
    return make_problem(spec);
}

DescribedProblem described(const Op& op, const ProblemDescription& description) {
    const DescribedTensors tensors(op, description);
    Spec spec;
    spec.forward = attention::described_spec(tensors);
    spec.is_deterministic = tensors.word("deterministic", "yes") == "yes";
    const std::array<const char*, 4> sources = {"o", "q", "k", "v"};
    for (std::size_t i = 0; i < sources.size(); ++i) {
        const char* const name = kNames[i + 5];
        if (tensors.at(name).dtype != spec.forward.type)
            refuse(std::string("tensor ") + name + " is " + std::string(to_string(tensors.at(name).dtype)) + " but q is " +
                   std::string(to_string(spec.forward.type)));
        std::vector<std::int64_t> extents;
        for (const Dim& dim : tensors.dims(sources[i])) extents.push_back(dim.extent);
        attention::check_extents(tensors, name, extents);
        spec.strides[i] = attention::given_strides(tensors, name);
        spec.align[i] = tensors.at(name).alignment_bytes;
    }
    return {make_problem(spec), {kQ, kK, kV, kO, kLse, kDo, kDq, kDk, kDv}};
}

std::vector<Problem> edge_case_problems(const Problem& problem) {
    constexpr std::int64_t kMostRows = 500;
    const View view(problem);
    Spec base;
    base.forward = attention::spec_of(problem);
    base.align = {view.align_do, view.align_dq, view.align_dk, view.align_dv};
    base.is_deterministic = view.is_deterministic;
    std::vector<Problem> neighbours;
    const auto add = [&](std::int64_t q_len, std::int64_t kv_len) {
        Spec spec = base;
        attention::Spec& forward = spec.forward;
        forward.b = std::min<std::int64_t>(view.b, 2);
        forward.kv_heads = std::min<std::int64_t>(view.kv_heads, 2);
        forward.q_heads = *forward.kv_heads * view.group();
        forward.q_len = std::max<std::int64_t>(q_len, 1);
        forward.kv_len = std::max<std::int64_t>(kv_len, 1);
        neighbours.push_back(make_problem(spec));
    };
    const std::int64_t rows = std::min(view.q_len, kMostRows), keys = std::min(view.kv_len, kMostRows);
    add(rows + 1, keys + 1);
    add(rows, keys - 1);
    add(65, 129);
    add(200, 77);
    add(1, 150);
    add(130, 1);
    std::erase_if(neighbours, [&](const Problem& near) { return near.class_key() != problem.class_key(); });
    return neighbours;
}

namespace {

// One head of keys with the heads of queries that share it.
Subproblem head_of(const Problem& problem, std::int64_t b, std::int64_t kv_head) {
    const View view(problem);
    const std::int64_t head = kv_head * view.group();
    Subproblem part{problem, {}};
    part.problem.set_extent("b", 1);
    part.problem.set_extent("q_heads", view.group());
    part.problem.set_extent("kv_heads", 1);
    for (std::size_t i = 0; i < problem.tensors.size(); ++i) {
        const std::vector<Dim>& dims = problem.tensors[i].dims;
        const bool is_of_keys = i == kK || i == kV || i == kDk || i == kDv;
        part.first.push_back(b * dims[attention::kBatch].stride + (is_of_keys ? kv_head : head) * dims[attention::kHead].stride);
        std::vector<Dim>& here = part.problem.tensors[i].dims;
        here[attention::kBatch].extent = 1;
        here[attention::kHead].extent = is_of_keys ? 1 : view.group();
    }
    return part;
}

}  // namespace

std::vector<Subproblem> subproblems(const Problem& problem) {
    const View view(problem);
    std::vector<Subproblem> parts = {head_of(problem, view.b - 1, view.kv_heads - 1)};
    if (view.b * view.kv_heads > 1) parts.push_back(head_of(problem, 0, 0));
    return parts;
}

std::vector<Binding> facts(const Problem& problem) {
    const View view(problem);
    std::vector<Binding> all = attention::facts(problem);
    all.push_back({"align_do", view.align_do});
    all.push_back({"align_dq", view.align_dq});
    all.push_back({"align_dk", view.align_dk});
    all.push_back({"align_dv", view.align_dv});
    return all;
}

std::vector<Argument> arguments(const Problem& problem) {
    const View view(problem);
    std::vector<Argument> all = attention::arguments(problem);
    for (const int tensor : {kDo, kDq, kDk, kDv}) all.push_back(TensorArg{tensor});
    for (const Strides& strides : {view.do_strides, view.dq_strides, view.dk_strides, view.dv_strides}) {
        for (const std::int64_t stride : {strides.batch, strides.head, strides.row}) all.push_back(I64Arg{stride});
    }
    return all;
}

}  // namespace autotune::attention_bwd
