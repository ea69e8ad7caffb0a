#include "src/core/op/op.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernel_templates/attention/op/attention_problem.h"
#include "src/core/immortal.h"
#include "src/core/integer_math.h"

namespace autotune {
namespace attention {

std::vector<OpOption> shared_options() {
    return {{"compute", {"bf16", "f16", "f32", "tf32"}, "", "what is multiplied: the elements' type, or tf32 for f32"},
            {"mask", mask_words(), "", "which keys a query sees; bottom_right: the last query sees the last key"},
            {"left", {}, "integer >= 0", "keys before its own that a query sees, of mask window"},
            {"right", {}, "integer >= 0", "keys behind its own that a query sees, of mask window; 0 if left out"}};
}

std::vector<OpOption> all_options() {
    std::vector<OpOption> all = {{"dtype", {"bf16", "f16", "f32"}, "", "element type of q, k, v and o"}};
    for (OpOption& option : shared_options()) all.push_back(std::move(option));
    const std::vector<OpOption> rest = {
        {"kv-heads", {}, "integer that divides H", "heads of k and v; H if left out"},
        {"kv-len", {}, "integer >= 1", "keys; as many as queries if left out"},
        {"dv", {}, "multiple of 8 up to 256", "columns of v and o; D if left out"},
        {"scale", {}, "number above 0", "factor of q k; 1 / sqrt(D) if left out"},
        {"lse", {"no", "yes"}, "", "whether the logarithm of each row's sum is written too, in f32"},
        {"order", {"bhsd", "bshd"}, "", "order of the tensors' dimensions in memory: heads outside rows, or rows outside heads"},
        {"align", {}, "power of two <= 16, one or one per tensor", "bytes that divide the base addresses of q, k, v and o"}};
    all.insert(all.end(), rest.begin(), rest.end());
    return all;
}

namespace {

std::vector<OpOption> forward_options() {
    std::vector<OpOption> all = all_options();
    const std::vector<OpOption> packing = {
        {"packed", {"no", "yes"}, "", "yes: B sequences of up to S rows lie one after the other; their lengths differ"},
        {"total-q", {}, "integer >= S", "queries of all packed sequences; half of B S if left out"},
        {"total-kv", {}, "integer >= S", "keys of all packed sequences; half of B times the most if left out"}};
    all.insert(all.end(), packing.begin(), packing.end());
    return all;
}

std::vector<OpOption> forward_attributes() {
    std::vector<OpOption> all = shared_options();
    all.push_back({"max_q", {}, "integer >= 1", "queries of the longest packed sequence; all of them if left out"});
    all.push_back({"max_kv", {}, "integer >= 1", "keys of the longest packed sequence; all of them if left out"});
    return all;
}

}  // namespace

}  // namespace attention

namespace {

using attention::View;

constexpr std::uint32_t kReferenceThreads = 256;
constexpr std::int64_t kReferenceRows = 8;        // rows for each block
constexpr std::int64_t kReferenceBlocks = 65536;  // the kernel loops, so more rows need no more blocks

class AttentionOp final : public Op {
  public:
    std::string_view name() const override { return "attention"; }
    std::string_view about() const override {
        return "O = softmax(scale Q K^T, masked) V for each head, and the logarithm of the sums";
    }
    std::string_view shape_form() const override { return "BxHxSxD"; }
    std::vector<OpAlias> aliases() const override { return {}; }
    std::vector<OpOption> options() const override { return attention::forward_options(); }
    std::vector<ProblemRequest> examples() const override;

    std::vector<TensorForm> tensors() const override;
    std::vector<OpOption> attributes() const override { return attention::forward_attributes(); }
    Problem problem(const ProblemRequest& request) const override { return attention::parse(*this, request); }
    DescribedProblem described(const ProblemDescription& description) const override {
        return attention::described(*this, description);
    }

    std::optional<std::vector<EmptySum>> empty_sums(const Problem& problem) const override;

    double flops(const Problem& problem) const override;
    double bytes(const Problem& problem) const override;
    double reference_flops(const Problem& problem) const override;
    std::string_view rate_unit() const override { return "tflops"; }

    std::vector<OpTest> tests(const Problem& problem) const override { return attention::tests(problem); }
    std::vector<Binding> reference_facts(const Problem& problem) const override;
    LaunchPlan reference_plan(const Problem& problem, const OpTest& test) const override;
    std::vector<Expected> reference_on_host(const Problem& problem, const OpTest& test,
                                            std::span<const std::vector<double>> tensors) const override;
    std::vector<Subproblem> subproblems(const Problem& problem, std::uint64_t seed) const override {
        return attention::subproblems(problem, seed);
    }
    std::vector<Problem> edge_case_problems(const Problem& problem, const Config&) const override {
        return attention::edge_case_problems(problem);
    }
};

std::vector<TensorForm> AttentionOp::tensors() const {
    return {{"q", Access::in, {"b", "q_heads", "q_len", "d"}},
            {"k", Access::in, {"b", "kv_heads", "kv_len", "d"}},
            {"v", Access::in, {"b", "kv_heads", "kv_len", "dv"}},
            {"o", Access::out, {"b", "q_heads", "q_len", "dv"}},
            {"lse", Access::out, {"b", "q_heads", "q_len"}, true, "f32: log of the sum of e^(scale q k) over the keys of a row"},
            {"q_offsets",
             Access::in,
             {"sequences + 1"},
             true,
             "i32, ascending: where each sequence's rows of q and o begin, and the end of the last; batch is 1"},
            {"kv_offsets", Access::in, {"sequences + 1"}, true, "the same of k and v"}};
}

std::vector<ProblemRequest> AttentionOp::examples() const {
    const std::string name = "attention";
    std::vector<ProblemRequest> requests = {
        {name, "4x16x4096x128", {{"dtype", "bf16"}, {"mask", "causal"}}},
        {name, "2x8x2048x64", {{"dtype", "bf16"}}},
        {name, "1x16x1000x128", {{"dtype", "bf16"}, {"lse", "yes"}}},
    };
    for (const char* dtype : {"bf16", "f16", "f32"}) {
        requests.push_back({name, "2x8x333x64", {{"dtype", dtype}, {"mask", "causal"}, {"lse", "yes"}}});
        requests.push_back({name, "1x8x200x128", {{"dtype", dtype}, {"kv-heads", "2"}, {"kv-len", "777"}, {"order", "bshd"}}});
        requests.push_back({name, "1x4x500x64", {{"dtype", dtype}, {"mask", "causal_bottom_right"}, {"kv-len", "300"}}});
        requests.push_back({name, "1x2x400x96", {{"dtype", dtype}, {"mask", "window"}, {"left", "100"}, {"lse", "yes"}}});
        requests.push_back({name, "16x32x1x128", {{"dtype", dtype}, {"kv-heads", "8"}, {"kv-len", "4096"}}});
    }
    for (const char* dtype : {"bf16", "f32"}) {
        requests.push_back({name, "4x8x300x64", {{"dtype", dtype}, {"packed", "yes"}, {"mask", "causal"}, {"lse", "yes"}}});
        requests.push_back(
            {name,
             "3x4x100x128",
             {{"dtype", dtype}, {"packed", "yes"}, {"mask", "causal_bottom_right"}, {"kv-len", "300"}, {"kv-heads", "2"}}});
    }
    requests.push_back({name, "1x4x300x192", {{"dv", "128"}, {"mask", "causal"}}});
    requests.push_back({name, "1x4x300x256", {{"mask", "window_bottom_right"}, {"left", "64"}, {"right", "32"}}});
    requests.push_back({name, "1x3x77x40", {{"dtype", "f16"}, {"align", "4"}}});
    requests.push_back({name, "2x4x512x64", {{"dtype", "f32"}, {"compute", "tf32"}}});
    return requests;
}

// A query without keys has an output of 0, and a sum of 0.
std::optional<std::vector<EmptySum>> AttentionOp::empty_sums(const Problem& problem) const {
    if (problem.tensors[attention::kO].is_empty()) return std::vector<EmptySum>{};
    if (problem.extent("kv_len") != 0) return std::nullopt;
    std::vector<EmptySum> sums = {{.tensor = attention::kO}};
    if (!problem.tensors[attention::kLse].is_absent)
        sums.push_back({.tensor = attention::kLse, .value = -std::numeric_limits<float>::infinity()});
    return sums;
}

// Counts two products of every visible pair. Other libraries count a causal mask as half of all pairs, which differs by a share
// of 1 / queries.
double AttentionOp::flops(const Problem& problem) const {
    const View view(problem);
    return 2 * view.visible_pairs() * static_cast<double>(view.d + view.dv);
}

double AttentionOp::bytes(const Problem& problem) const {
    const View view(problem);
    const double queries = static_cast<double>(view.rows()) * static_cast<double>(view.d + view.dv);
    const double keys = static_cast<double>(view.kv_heads * view.total_kv) * static_cast<double>(view.d + view.dv);
    return (queries + keys) * static_cast<double>(view.element_bytes) + (view.has_lse ? 4 * static_cast<double>(view.rows()) : 0);
}

// All tests of 1x16x16384x128 took 7.4 s on an H200, of 4x16x4096x64 1.0 s, of 1x8x8192x64 in f32 0.5 s: 0.29 TFLOP/s
// (2026-11-23). For gemm's naive kernel the rate is 8.4.
double AttentionOp::reference_flops(const Problem& problem) const {
    return 29 * flops(problem);
}

std::vector<Binding> AttentionOp::reference_facts(const Problem& problem) const {
    const View view(problem);
    return {{"element_type", view.type},
            {"d", view.d},
            {"dv", view.dv},
            {"has_low", std::int64_t{view.band.has_low}},
            {"has_high", std::int64_t{view.band.has_high}},
            {"packed", std::int64_t{view.is_packed}}};
}

LaunchPlan AttentionOp::reference_plan(const Problem& problem, const OpTest& test) const {
    const View view(problem);
    const std::int64_t tiles = view.b * view.q_heads * attention::ceil_div(view.q_len, kReferenceRows);
    LaunchStep step;
    step.grid.x = narrow<std::uint32_t>(std::min(tiles, kReferenceBlocks));
    step.block.x = kReferenceThreads;
    step.arguments = attention::arguments(problem);
    for (const int output : {0, view.has_lse ? 1 : 0}) {
        step.arguments.push_back(ExpectedArg{output});
        step.arguments.push_back(BoundArg{output});
    }
    step.arguments.push_back(I32Arg{view.has_lse});
    for (const Argument& bound : attention::bound_arguments(attention::bounds_of(view, test))) step.arguments.push_back(bound);
    return {.steps = {step}};
}

std::vector<Expected> AttentionOp::reference_on_host(const Problem& problem, const OpTest& test,
                                                     std::span<const std::vector<double>> tensors) const {
    const View view(problem);
    const attention::Bounds bounds = attention::bounds_of(view, test);
    const double scale = problem.scalars[attention::kScale].number();
    Expected o, lse;
    for (std::int64_t line = 0; line < view.rows(); ++line) {
        const auto [b, head, row] = attention::place_of(view, tensors, line);
        const attention::RowWeights found = attention::weights_of(view, scale, tensors, b, head, row);
        const double inverse = found.sum == 0 ? 0 : 1 / found.sum;
        const double of_scores = bounds.per_product * found.largest_product + bounds.per_exponent * found.largest_exponent;
        const attention::Strides& strides = view.strides[attention::kV];
        const double* const v = tensors[attention::kV].data() + b * strides.batch + head / view.group() * strides.head +
                                attention::sequence_of(view, tensors, b).first_kv * strides.row;
        for (std::int64_t column = 0; column < view.dv; ++column) {
            double sum = 0, magnitude = 0;
            for (std::size_t i = 0; i < found.weights.size(); ++i) {
                const double value = v[(found.first + static_cast<std::int64_t>(i)) * strides.row + column];
                const double weight = found.weights[i];
                sum += weight * value;
                magnitude += (weight * (bounds.weight + of_scores) + bounds.least_weight) * std::fabs(value);
            }
            o.values.push_back(sum * inverse);
            o.bounds.push_back(magnitude * inverse + bounds.output * std::fabs(sum * inverse) + bounds.least);
        }
        const double right = found.lse();
        lse.values.push_back(right);
        lse.bounds.push_back(of_scores + bounds.lse * (1 + (found.sum == 0 ? 0 : std::fabs(right))));
    }
    std::vector<Expected> all;
    all.push_back(std::move(o));
    if (view.has_lse) all.push_back(std::move(lse));
    return all;
}

}  // namespace

const Op& op_attention() {
    static const Immortal<AttentionOp> op;
    return *op;
}

}  // namespace autotune
