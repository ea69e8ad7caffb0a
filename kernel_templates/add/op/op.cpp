#include "src/core/op/op.h"

#include <algorithm>
#include <cmath>

#include "kernel_templates/add/op/add_problem.h"
#include "src/core/immortal.h"
#include "src/core/integer_math.h"
#include "src/core/statistics/random.h"

namespace autotune {
namespace {

using add::View;

constexpr std::uint32_t kReferenceThreads = 256;
constexpr std::int64_t kReferenceBlocks = 65536;  // the kernel loops, so larger arrays need no more blocks

class AddOp final : public Op {
  public:
    std::string_view name() const override { return "add"; }
    std::string_view about() const override { return "c = a + b, element by element"; }
    std::string_view shape_form() const override { return "N|SxK"; }
    std::vector<OpAlias> aliases() const override;
    std::vector<OpOption> options() const override;
    std::vector<ProblemRequest> examples() const override;

    std::vector<TensorForm> tensors() const override;
    bool works_in_place() const override { return true; }
    Problem problem(const ProblemRequest& request) const override { return add::parse(*this, request); }
    DescribedProblem described(const ProblemDescription& description) const override {
        return add::described(*this, description);
    }
    double flops(const Problem& problem) const override { return static_cast<double>(View(problem).n); }
    double bytes(const Problem& problem) const override;
    std::string_view rate_unit() const override { return "gb_per_s"; }

    std::vector<OpTest> tests(const Problem& problem) const override;
    std::vector<Binding> reference_facts(const Problem& problem) const override;
    LaunchPlan reference_plan(const Problem& problem, const OpTest& test) const override;
    std::vector<Subproblem> subproblems(const Problem& problem, std::uint64_t seed) const override;
    std::vector<Expected> reference_on_host(const Problem& problem, const OpTest& test,
                                            std::span<const std::vector<double>> tensors) const override;
    std::vector<Problem> edge_case_problems(const Problem& problem, const Config& config) const override {
        return add::edge_case_problems(*this, problem, config);
    }
};

std::vector<OpAlias> AddOp::aliases() const {
    return {{"hadd", {{"dtype", "f16"}}}, {"badd", {{"dtype", "bf16"}}}, {"sadd", {{"dtype", "f32"}}}};
}

std::vector<OpOption> AddOp::options() const {
    return {{"dtype", {"f32", "f16", "bf16"}, "", "element type of A, B and C"},
            {"align", {}, "power of two <= 16, one or one per tensor", "bytes that divide the base addresses"}};
}

std::vector<TensorForm> AddOp::tensors() const {
    // A tensor may have any of these dimensions; all its elements together are one row.
    const std::vector<std::string> dims = {"d0", "d1", "d2", "d3", "d4"};
    return {{"a", Access::in, dims}, {"b", Access::in, dims}, {"c", Access::out, dims, false, "may be a or b"}};
}

std::vector<ProblemRequest> AddOp::examples() const {
    std::vector<ProblemRequest> requests = {{"add", "16777216", {}}};
    for (const char* op : {"sadd", "hadd", "badd"}) {
        requests.push_back({op, "1048576", {}});
        requests.push_back({op, "4096x2048", {}});
        requests.push_back({op, "1000003", {}});
        requests.push_back({op, "1000003", {{"align", "4"}}});
    }
    requests.push_back({"hadd", "777777", {{"align", "2"}}});
    requests.push_back({"badd", "777777", {{"align", "16,8,2"}}});
    requests.push_back({"hadd", "1099511627776", {}});
    return requests;
}

double AddOp::bytes(const Problem& problem) const {
    const View view(problem);
    return 3.0 * static_cast<double>(view.n) * static_cast<double>(view.element_bytes);
}

constexpr std::string_view kExact = "exact";

// An addition may cost only one rounding of the exact sum. So the exact test allows no error, and the numeric test half a unit in
// the last place.
double relative_bound(const View& view, const OpTest& test) {
    return test.name == kExact ? 0 : unit_roundoff(view.type);
}

// Half the least subnormal of the type. f32 sums are exact there, so it is 0 for them.
double least_bound(const View& view, const OpTest& test) {
    return test.name == kExact ? 0 : underflow_roundoff(view.type);
}

std::vector<OpTest> AddOp::tests(const Problem& problem) const {
    OpTest exact{.name = std::string(kExact), .fills = {}, .outputs = {{.tensor = add::kC}}};
    exact.fills = {Fill::integers(), Fill::integers(), Fill::nan()};
    OpTest numeric{
        .name = "numeric", .fills = {}, .outputs = {{add::kC, 2 * unit_roundoff(View(problem).type)}}, .is_typical = true};
    numeric.fills = {Fill::normal(), Fill::normal(), Fill::nan()};
    return {std::move(exact), std::move(numeric)};
}

std::vector<Binding> AddOp::reference_facts(const Problem& problem) const {
    return {{"element_type", View(problem).type}};
}

LaunchPlan AddOp::reference_plan(const Problem& problem, const OpTest& test) const {
    const View view(problem);
    if (view.n == 0) return {};
    LaunchStep step;
    step.grid.x = narrow<std::uint32_t>(std::min(add::ceil_div(view.n, kReferenceThreads), kReferenceBlocks));
    step.block.x = kReferenceThreads;
    step.arguments = {TensorArg{add::kA},
                      TensorArg{add::kB},
                      ExpectedArg{},
                      BoundArg{},
                      F32Arg{static_cast<float>(relative_bound(view, test))},
                      F32Arg{static_cast<float>(least_bound(view, test))},
                      I64Arg{view.n}};
    return {.steps = {step}};
}

// Takes ranges at both ends, in the middle and at random.
std::vector<Subproblem> AddOp::subproblems(const Problem& problem, std::uint64_t seed) const {
    constexpr std::int64_t kRange = 1 << 16;
    constexpr int kRandomRanges = 8;
    const std::int64_t n = View(problem).n;
    const std::int64_t last = std::max<std::int64_t>(n - kRange, 0);
    std::vector<std::int64_t> starts = {0, last / 2, last};
    Random random(seed);
    for (int i = 0; i < kRandomRanges; ++i)
        starts.push_back(static_cast<std::int64_t>(random.uniform() * static_cast<double>(last)));
    std::vector<Subproblem> parts;
    for (const std::int64_t start : starts) {
        Subproblem part{problem, std::vector<std::int64_t>(problem.tensors.size(), start)};
        part.problem.extents.front().value = std::min(kRange, n - start);
        for (Tensor& tensor : part.problem.tensors) tensor.dims.front().extent = part.problem.extents.front().value;
        parts.push_back(std::move(part));
    }
    return parts;
}

std::vector<Expected> AddOp::reference_on_host(const Problem& problem, const OpTest& test,
                                               std::span<const std::vector<double>> tensors) const {
    const View view(problem);
    Expected c;
    for (std::size_t i = 0; i < static_cast<std::size_t>(view.n); ++i) {
        c.values.push_back(tensors[add::kA][i] + tensors[add::kB][i]);
        c.bounds.push_back(relative_bound(view, test) * std::fabs(c.values.back()) + least_bound(view, test));
    }
    return {std::move(c)};
}

}  // namespace

const Op& op_add() {
    static const Immortal<AddOp> op;
    return *op;
}

}  // namespace autotune
