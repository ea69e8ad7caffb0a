#include "kernel_templates/gemm/shared/f32_parts.h"

#include <algorithm>
#include <utility>

#include "kernel_templates/gemm/op/gemm_problem.h"

namespace autotune::gemm {

using std::int64_t;

std::vector<Binding> f32_facts(const Problem& problem) {
    std::vector<Binding> all = facts(problem);
    std::erase_if(all, [](const Binding& fact) { return fact.name == "acc_type"; });
    return all;
}

std::optional<int> tf32_terms(const Problem& problem) {
    const std::string& compute = problem.word("compute");
    if (compute == kTf32) return 1;
    if (compute == kTf32x3) return 3;
    return std::nullopt;
}

std::optional<std::string> refuses_short_sums(const Problem& problem) {
    if (problem.word("compute") != kTf32x3 || Gemm(problem).k >= kLeastSplitK) return std::nullopt;
    return "sums of fewer than " + std::to_string(kLeastSplitK) + " products are more accurate on CUDA cores";
}

std::optional<std::string> refuses_large(const Gemm& g, int64_t least_rows, int64_t least_columns) {
    if (std::max({g.m, g.n, g.k, g.batch}) > kMaxExtent) return "an extent does not fit 32-bit indices";
    if (ceil_div(g.m, least_rows) * ceil_div(g.n, least_columns) > kMaxBlocks / std::max<int64_t>(1, g.batch))
        return "C has more tiles than a grid has blocks";
    return std::nullopt;
}

std::size_t partial_sums_bytes(const Gemm& g, int64_t split_k) {
    if (split_k <= 1) return 0;
    return static_cast<std::size_t>(split_k * g.batch * g.m * round_up(g.n, 4) * 4);
}

LaunchStep add_parts_step(const Problem& problem, const Gemm& g, int64_t split_k) {
    const TypedMatrix c = matrix_view(problem.tensors[kC]);
    LaunchStep step;
    step.entry = "_reduce";
    step.grid = one_dimension(ceil_div(g.batch * g.m * ceil_div(g.n, 4), 256));
    step.block = {256, 1, 1};
    step.arguments = {WorkspaceArg{0}, TensorArg{kC}, ScalarArg{kAlpha}, ScalarArg{kBeta},       i32(g.m),
                      i32(g.n),        I64Arg{c.ld},  i32(g.batch),      I64Arg{c.batch_stride}, i32(split_k)};
    return step;
}

LaunchPlan split_plan(const Problem& problem, const SplitLaunch& launch) {
    const Gemm g(problem);
    LaunchPlan plan;
    if (g.m == 0 || g.n == 0 || g.batch == 0) return plan;
    plan.workspace_bytes = partial_sums_bytes(g, launch.split_k);
    LaunchStep step;
    step.grid = one_dimension(launch.blocks);
    step.block = one_dimension(launch.threads);
    step.dynamic_smem_bytes = static_cast<std::size_t>(launch.smem_bytes);
    step.arguments = arguments(problem);
    for (const int64_t value : {launch.raster, launch.group, launch.split_k, std::min(launch.k_per_split, kMaxExtent)})
        step.arguments.push_back(i32(value));
    plan.steps.push_back(std::move(step));
    if (launch.split_k > 1) plan.steps.push_back(add_parts_step(problem, g, launch.split_k));
    return plan;
}

}  // namespace autotune::gemm
