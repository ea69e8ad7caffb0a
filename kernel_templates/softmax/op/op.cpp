#include "src/core/op/op.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernel_templates/softmax/op/softmax_problem.h"
#include "src/core/immortal.h"
#include "src/core/integer_math.h"
#include "src/core/statistics/random.h"

namespace autotune {
namespace {

using softmax::View;

constexpr std::uint32_t kReferenceThreads = 256;
constexpr std::int64_t kReferenceBlocks = 65536;  // the kernel loops, so more rows need no more blocks

class SoftmaxOp final : public Op {
  public:
    std::string_view name() const override { return "softmax"; }
    std::string_view about() const override { return "y = softmax(scale x) of each row, and the logarithm of its sum"; }
    std::string_view shape_form() const override { return "RxC"; }
    std::vector<OpAlias> aliases() const override { return {}; }
    std::vector<OpOption> options() const override;
    std::vector<ProblemRequest> examples() const override;

    std::vector<TensorForm> tensors() const override;
    std::vector<OpOption> attributes() const override;
    bool works_in_place() const override { return true; }
    Problem problem(const ProblemRequest& request) const override { return softmax::parse(*this, request); }
    DescribedProblem described(const ProblemDescription& description) const override {
        return softmax::described(*this, description);
    }

    std::optional<std::vector<EmptySum>> empty_sums(const Problem& problem) const override;

    double flops(const Problem& problem) const override;
    double bytes(const Problem& problem) const override { return View(problem).moved_bytes(); }
    std::string_view rate_unit() const override { return "gb_per_s"; }

    std::vector<OpTest> tests(const Problem& problem) const override { return softmax::tests(problem); }
    std::vector<Binding> reference_facts(const Problem& problem) const override;
    LaunchPlan reference_plan(const Problem& problem, const OpTest& test) const override;
    std::vector<Expected> reference_on_host(const Problem& problem, const OpTest& test,
                                            std::span<const std::vector<double>> tensors) const override;
    std::vector<Subproblem> subproblems(const Problem& problem, std::uint64_t seed) const override;
    std::vector<Problem> edge_case_problems(const Problem& problem, const Config&) const override {
        return softmax::edge_case_problems(problem);
    }
};

OpOption scale_option() {
    return {"scale", {}, "number other than 0", "factor of x before the exponential"};
}

std::vector<OpOption> SoftmaxOp::options() const {
    return {{"dtype", {"bf16", "f16", "f32"}, "", "element type of x and y"},
            scale_option(),
            {"lse", {"no", "yes"}, "", "whether the logarithm of each row's sum is written too, in f32"},
            {"ldx", {}, "integer >= cols", "elements from one row of x to the next"},
            {"ldy", {}, "integer >= cols", "elements from one row of y to the next"},
            {"align", {}, "power of two <= 16, one or one per tensor", "bytes that divide the base addresses of x and y"}};
}

std::vector<OpOption> SoftmaxOp::attributes() const {
    return {scale_option()};
}

std::vector<TensorForm> SoftmaxOp::tensors() const {
    // The number of rows is the product of all dimensions but the last.
    const std::vector<std::string> dims = {"d0", "d1", "d2", "rows", "cols"};
    return {{"x", Access::in, dims},
            {"y", Access::out, dims, false, "may be x"},
            {"lse", Access::out, {"d0", "d1", "d2", "rows"}, true, "f32: log of the sum of e^(scale x) over the row"}};
}

std::vector<ProblemRequest> SoftmaxOp::examples() const {
    std::vector<ProblemRequest> requests = {{"softmax", "8192x4096", {}}};
    for (const char* dtype : {"bf16", "f16", "f32"}) {
        requests.push_back({"softmax", "1024x64", {{"dtype", dtype}}});
        requests.push_back({"softmax", "300x1000", {{"dtype", dtype}, {"lse", "yes"}}});
        requests.push_back({"softmax", "128x32768", {{"dtype", dtype}, {"scale", "0.125"}}});
        requests.push_back({"softmax", "4x131072", {{"dtype", dtype}, {"lse", "yes"}}});
        requests.push_back({"softmax", "77x333", {{"dtype", dtype}, {"scale", "-2"}}});
    }
    requests.push_back({"softmax", "1x1048576", {{"dtype", "f32"}}});
    requests.push_back({"softmax", "64x250", {{"dtype", "f16"}, {"align", "4"}}});
    return requests;
}

// The logarithm of the sum of an empty row.
std::optional<std::vector<EmptySum>> SoftmaxOp::empty_sums(const Problem& problem) const {
    if (!problem.tensors[softmax::kY].is_empty()) return std::nullopt;
    std::vector<EmptySum> sums;
    if (!problem.tensors[softmax::kLse].is_empty())
        sums.push_back({.tensor = softmax::kLse, .value = -std::numeric_limits<float>::infinity()});
    return sums;
}

// Counts five operations per element: scale, subtract, exponential, sum, divide.
double SoftmaxOp::flops(const Problem& problem) const {
    const View view(problem);
    return 5.0 * static_cast<double>(view.rows) * static_cast<double>(view.cols);
}

std::vector<Binding> SoftmaxOp::reference_facts(const Problem& problem) const {
    return {{"element_type", View(problem).type}};
}

LaunchPlan SoftmaxOp::reference_plan(const Problem& problem, const OpTest& test) const {
    const View view(problem);
    LaunchStep step;
    step.grid.x = narrow<std::uint32_t>(std::min(view.rows, kReferenceBlocks));
    step.block.x = kReferenceThreads;
    const softmax::Bounds bounds = softmax::bounds_of(view, test);
    step.arguments = {TensorArg{softmax::kX},
                      ExpectedArg{0},
                      BoundArg{0},
                      I64Arg{view.rows},
                      I64Arg{view.cols},
                      I64Arg{view.ldx},
                      F32Arg{view.scale},
                      F32Arg{static_cast<float>(bounds.relative)},
                      F32Arg{static_cast<float>(bounds.per_exponent)},
                      F32Arg{static_cast<float>(bounds.least)},
                      F32Arg{static_cast<float>(bounds.lse)}};
    if (view.has_lse) {
        step.entry = "_lse";
        step.arguments.insert(step.arguments.begin() + 3, {ExpectedArg{1}, BoundArg{1}});
    }
    return {.steps = {step}};
}

std::vector<Expected> SoftmaxOp::reference_on_host(const Problem& problem, const OpTest& test,
                                                   std::span<const std::vector<double>> tensors) const {
    const View view(problem);
    const softmax::Bounds bounds = softmax::bounds_of(view, test);
    Expected y, lse;
    for (std::int64_t row = 0; row < view.rows; ++row) {
        const std::span<const double> x(tensors[softmax::kX].data() + row * view.ldx, static_cast<std::size_t>(view.cols));
        softmax::reference_row(x, view.scale, bounds, y, lse);
    }
    std::vector<Expected> all;
    all.push_back(std::move(y));
    if (view.has_lse) all.push_back(std::move(lse));
    return all;
}

// The first rows, the last rows, and some between.
std::vector<Subproblem> SoftmaxOp::subproblems(const Problem& problem, std::uint64_t seed) const {
    constexpr std::int64_t kElements = 1 << 20;
    constexpr int kRandomRanges = 8;
    const View view(problem);
    const std::int64_t count = std::clamp<std::int64_t>(kElements / view.cols, 1, view.rows);
    const std::int64_t last = view.rows - count;
    std::vector<std::int64_t> starts = {0, last / 2, last};
    Random random(seed);
    for (int i = 0; i < kRandomRanges; ++i)
        starts.push_back(static_cast<std::int64_t>(random.uniform() * static_cast<double>(last)));
    std::vector<Subproblem> parts;
    for (const std::int64_t start : starts) {
        Subproblem part{problem, {start * view.ldx, start * view.ldy, start}};
        part.problem.set_extent("rows", count);
        for (Tensor& tensor : part.problem.tensors) {
            if (!tensor.is_absent) tensor.dims.front().extent = count;
        }
        parts.push_back(std::move(part));
    }
    return parts;
}

}  // namespace

const Op& op_softmax() {
    static const Immortal<SoftmaxOp> op;
    return *op;
}

}  // namespace autotune
