#include "src/core/op/op.h"

#include <algorithm>
#include <cmath>

#include "kernel_templates/attention_bwd/op/bwd_problem.h"
#include "src/core/immortal.h"
#include "src/core/integer_math.h"

namespace autotune {
namespace {

using attention_bwd::Bounds;
using attention_bwd::View;

constexpr std::uint32_t kReferenceThreads = 128;
constexpr std::int64_t kReferenceRows = 4;        // rows for each block
constexpr std::int64_t kReferenceBlocks = 65536;  // the kernels loop, so more rows need no more blocks

class AttentionBwdOp final : public Op {
  public:
    std::string_view name() const override { return "attention_bwd"; }
    std::string_view about() const override {
        return "gradients of attention: dQ, dK and dV from dO, Q, K, V, O and the logarithms of the sums";
    }
    std::string_view shape_form() const override { return "BxHxSxD"; }
    std::vector<OpAlias> aliases() const override { return {}; }
    std::vector<OpOption> options() const override;
    std::vector<ProblemRequest> examples() const override;

    std::vector<TensorForm> tensors() const override;
    std::vector<OpOption> attributes() const override;
    Problem problem(const ProblemRequest& request) const override { return attention_bwd::parse(*this, request); }
    DescribedProblem described(const ProblemDescription& description) const override {
        return attention_bwd::described(*this, description);
    }

    std::optional<std::vector<EmptySum>> empty_sums(const Problem& problem) const override;

    double flops(const Problem& problem) const override;
    double bytes(const Problem& problem) const override;
    double reference_flops(const Problem& problem) const override;
    std::string_view rate_unit() const override { return "tflops"; }

    std::vector<OpTest> tests(const Problem& problem) const override { return attention_bwd::tests(problem); }
    std::vector<Binding> reference_facts(const Problem& problem) const override;
    LaunchPlan reference_plan(const Problem& problem, const OpTest& test) const override;
    std::vector<Expected> reference_on_host(const Problem& problem, const OpTest& test,
                                            std::span<const std::vector<double>> tensors) const override {
        return attention_bwd::reference_on_host(problem, test, tensors);
    }
    std::vector<Subproblem> subproblems(const Problem& problem, std::uint64_t) const override {
        return attention_bwd::subproblems(problem);
    }
    std::vector<Problem> edge_case_problems(const Problem& problem, const Config&) const override {
        return attention_bwd::edge_case_problems(problem);
    }
};

std::vector<OpOption> AttentionBwdOp::attributes() const {
    std::vector<OpOption> all = attention::shared_options();
    all.push_back({"deterministic", {"yes", "any"}, "", "whether the same input must give the same bits"});
    return all;
}

std::vector<OpOption> AttentionBwdOp::options() const {
    std::vector<OpOption> all = attention::all_options();
    std::erase_if(all, [](const OpOption& option) { return option.name == "lse" || option.name == "align"; });
    all.push_back(attributes().back());
    all.push_back({"align",
                   {},
                   "power of two <= 16, one or one per tensor",
                   "bytes that divide the base addresses of q, k, v, o, do, dq, dk and dv"});
    return all;
}

std::vector<TensorForm> AttentionBwdOp::tensors() const {
    const std::vector<std::string> queries = {"b", "q_heads", "q_len", "d"}, keys = {"b", "kv_heads", "kv_len", "d"};
    const std::vector<std::string> values = {"b", "kv_heads", "kv_len", "dv"}, outputs = {"b", "q_heads", "q_len", "dv"};
    return {{"q", Access::in, queries},
            {"k", Access::in, keys},
            {"v", Access::in, values},
            {"o", Access::in, outputs, false, "what attention gave"},
            {"lse", Access::in, {"b", "q_heads", "q_len"}, false, "f32: what attention gave"},
            {"do", Access::in, outputs, false, "gradient of o"},
            {"dq", Access::out, queries},
            {"dk", Access::out, keys, false, "the sum over the query heads that share a head of keys"},
            {"dv", Access::out, values, false, "likewise"}};
}

std::vector<ProblemRequest> AttentionBwdOp::examples() const {
    const std::string name = "attention_bwd";
    std::vector<ProblemRequest> requests = {
        {name, "4x16x4096x128", {{"dtype", "bf16"}, {"mask", "causal"}}},
        {name, "1x8x1000x64", {{"dtype", "bf16"}}},
        {name, "1x4x700x128", {{"dtype", "bf16"}}},
    };
    for (const char* dtype : {"bf16", "f16", "f32"}) {
        requests.push_back({name, "1x4x333x64", {{"dtype", dtype}, {"mask", "causal"}, {"kv-heads", "2"}}});
        requests.push_back({name, "1x4x200x128", {{"dtype", dtype}, {"kv-len", "377"}, {"order", "bshd"}}});
        requests.push_back(
            {name, "1x2x400x64", {{"dtype", dtype}, {"mask", "window"}, {"left", "100"}, {"deterministic", "any"}}});
    }
    requests.push_back({name, "1x2x300x96", {{"mask", "causal_bottom_right"}, {"kv-len", "200"}}});
    requests.push_back({name, "1x2x200x192", {{"dv", "128"}}});
    requests.push_back({name, "1x4x200x256", {{"mask", "causal"}, {"kv-heads", "2"}}});
    return requests;
}

// Without queries the gradients of keys and values are zero, without keys those of queries.
std::optional<std::vector<EmptySum>> AttentionBwdOp::empty_sums(const Problem& problem) const {
    const bool has_pairs = !problem.tensors[attention_bwd::kQ].is_empty() && !problem.tensors[attention_bwd::kK].is_empty();
    if (has_pairs) return std::nullopt;
    std::vector<EmptySum> sums;
    for (const int gradient : {attention_bwd::kDq, attention_bwd::kDk, attention_bwd::kDv})
        if (!problem.tensors[static_cast<std::size_t>(gradient)].is_empty()) sums.push_back({.tensor = gradient});
    return sums;
}

// Counts five products of every visible pair, however often a kernel computes one.
double AttentionBwdOp::flops(const Problem& problem) const {
    const View view(problem);
    return 2 * view.visible_pairs() * static_cast<double>(3 * view.d + 2 * view.dv);
}

double AttentionBwdOp::bytes(const Problem& problem) const {
    double total = 0;
    for (const Tensor& tensor : problem.tensors)
        total += static_cast<double>(tensor.elements()) * static_cast<double>(size_bytes(tensor.dtype));
    return total;
}

// Two kernels compute the scores, with bounds, for four tests. Reads of two or four bytes per thread limit them. The estimate is
// 150 clocks of an SM per pair of rows of 128 columns.
double AttentionBwdOp::reference_flops(const Problem& problem) const {
    return 15 * flops(problem);
}

std::vector<Binding> AttentionBwdOp::reference_facts(const Problem& problem) const {
    const View view(problem);
    return {{"element_type", view.type},
            {"d", view.d},
            {"dv", view.dv},
            {"has_low", std::int64_t{view.band.has_low}},
            {"has_high", std::int64_t{view.band.has_high}}};
}

LaunchPlan AttentionBwdOp::reference_plan(const Problem& problem, const OpTest& test) const {
    const View view(problem);
    const Bounds bounds = attention_bwd::bounds_of(view, test);
    const auto step = [&](const char* entry, std::int64_t blocks) {
        LaunchStep made;
        made.entry = entry;
        made.grid.x = narrow<std::uint32_t>(std::min(blocks, kReferenceBlocks));
        made.block.x = kReferenceThreads;
        made.arguments = attention_bwd::arguments(problem);
        made.arguments.push_back(WorkspaceArg{0});
        for (const int output : {0, 1, 2}) {
            made.arguments.push_back(ExpectedArg{output});
            made.arguments.push_back(BoundArg{output});
        }
        for (const double each : {bounds.weight, bounds.product, bounds.exponent, bounds.output, bounds.least})
            made.arguments.push_back(F32Arg{static_cast<float>(each)});
        return made;
    };
    LaunchPlan plan;
    plan.steps = {step("_delta", view.rows()),
                  step("_queries", view.b * view.q_heads * attention::ceil_div(view.q_len, kReferenceRows)),
                  step("", view.b * view.kv_heads * attention::ceil_div(view.kv_len, kReferenceRows))};
    plan.workspace_bytes = static_cast<std::size_t>(view.rows() * 16);
    return plan;
}

}  // namespace

const Op& op_attention_bwd() {
    static const Immortal<AttentionBwdOp> op;
    return *op;
}

}  // namespace autotune
