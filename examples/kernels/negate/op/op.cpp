// y = -x, element by element: the smallest op. It shows every member that an op must have.
#include "src/core/op/op.h"

#include "kernel_templates/request.h"
#include "src/core/immortal.h"
#include "src/core/integer_math.h"

namespace autotune {
namespace {

constexpr std::int64_t kThreads = 256;

// Everything that changes the result or the cost: the length, the type, the alignment of the two tensors.
Problem make_problem(std::int64_t n, int align_x, int align_y) {
    Problem problem;
    problem.op = "negate";
    problem.extents = {{"n", n}};
    problem.attributes = {{"align", std::to_string(align_x) + "," + std::to_string(align_y)}};
    for (const bool is_output : {false, true}) {
        Tensor tensor;
        tensor.name = is_output ? "y" : "x";
        tensor.dtype = DType::f32;
        tensor.access = is_output ? Access::out : Access::in;
        tensor.dims = {{n, 1}};
        tensor.alignment_bytes = is_output ? align_y : align_x;
        problem.tensors.push_back(tensor);
    }
    return problem;
}

class NegateOp final : public Op {
  public:
    // ---- OpSchema: how problems are described ----
    std::string_view name() const override { return "negate"; }
    std::string_view about() const override { return "y = -x, element by element"; }
    std::string_view shape_form() const override { return "N"; }
    std::vector<OpAlias> aliases() const override { return {}; }
    std::vector<OpOption> options() const override {
        return {{"align", {}, "power of two <= 16, one or one per tensor", "bytes that divide the base addresses"}};
    }
    std::vector<ProblemRequest> examples() const override {
        return {{"negate", "1048576", {}}, {"negate", "1000003", {{"align", "4"}}}};
    }
    std::vector<TensorForm> tensors() const override { return {{"x", Access::in, {"n"}}, {"y", Access::out, {"n"}}}; }
    // Makes a problem from the words of the command.
    Problem problem(const ProblemRequest& request) const override {
        const RequestOptions options(*this, request);
        const std::vector<int> align = parse_alignments(options, sizeof(float), {"x", "y"});
        return make_problem(parse_shape(request.shape, "N", {0, kLargestExtent}).extents[0], align[0], align[1]);
    }
    // Makes a problem from the tensors of a program.
    DescribedProblem described(const ProblemDescription& description) const override {
        const DescribedTensors tensors(*this, description);
        const Dim x = tensors.dims("x")[0];
        const Dim y = tensors.dims("y")[0];
        if (tensors.at("x").dtype != DType::f32 || tensors.at("y").dtype != DType::f32) refuse("negate takes f32");
        if (x.extent != y.extent) refuse("tensors x and y have different lengths");
        if (x.extent > 1 && (x.stride != 1 || y.stride != 1)) refuse("negate takes contiguous tensors");
        return {make_problem(x.extent, tensors.at("x").alignment_bytes, tensors.at("y").alignment_bytes), {0, 1}};
    }

    // ---- OpCost: the cost of problems ----
    double flops(const Problem& problem) const override { return static_cast<double>(problem.extent("n")); }
    double bytes(const Problem& problem) const override { return 8 * static_cast<double>(problem.extent("n")); }
    std::string_view rate_unit() const override { return "gb_per_s"; }

    // ---- OpOracle: the right results ----
    std::vector<OpTest> tests(const Problem&) const override {
        OpTest test{.name = "exact", .fills = {}, .outputs = {{.tensor = 1}}, .is_typical = true};
        test.fills = {Fill::normal(), Fill::nan()};  // The fills of x, and of y before the launch.
        return {test};
    }
    // The values of reference.cuh's placeholders, and the reference's launch.
    std::vector<Binding> reference_facts(const Problem&) const override { return {{"element_type", DType::f32}}; }
    LaunchPlan reference_plan(const Problem& problem, const OpTest&) const override {
        const std::int64_t n = problem.extent("n");
        if (n == 0) return {};
        LaunchStep step;
        step.grid.x = static_cast<std::uint32_t>(ceil_div(n, kThreads));
        step.block.x = static_cast<std::uint32_t>(kThreads);
        step.arguments = {TensorArg{0}, ExpectedArg{}, BoundArg{}, I64Arg{n}};
        return {.steps = {step}};
    }
    // The reference in C++, for tests without a GPU.
    std::vector<Expected> reference_on_host(const Problem&, const OpTest&,
                                            std::span<const std::vector<double>> tensors) const override {
        Expected y;
        for (const double x : tensors[0]) y.values.push_back(-x);
        y.bounds.assign(y.values.size(), 0.0);
        return {y};
    }
    // Problems near this one on which a winner is verified too: lengths around its tile.
    std::vector<Problem> edge_case_problems(const Problem& problem, const Config& config) const override {
        const std::int64_t tile = config.find("threads").value_or(kThreads);
        std::vector<Problem> neighbours;
        for (const std::int64_t n : {std::int64_t{1}, tile - 1, tile, tile + 1}) {
            neighbours.push_back(make_problem(n, problem.tensors[0].alignment_bytes, problem.tensors[1].alignment_bytes));
        }
        return neighbours;
    }
};

}  // namespace

const Op& op_negate() {
    static const Immortal<NegateOp> op;
    return *op;
}

}  // namespace autotune
