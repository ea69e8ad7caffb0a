#include "kernel_templates/gemm/shared/device_maps.h"

#include <utility>

#include "kernel_templates/gemm/op/gemm_problem.h"
#include "kernel_templates/gemm/shared/family_parts.h"

namespace autotune::gemm {
namespace {

LaunchStep map_step(const TensorMapArg& map, std::size_t at) {
    LaunchStep step;
    step.entry = "_map";
    step.block = {32, 1, 1};
    step.arguments = {TensorArg{map.tensor}, WorkspaceArg{at}};
    for (std::size_t i = 0; i < 3; ++i) step.arguments.push_back(i32(static_cast<std::int64_t>(map.dims[i])));
    for (std::size_t i = 0; i < 2; ++i) step.arguments.push_back(I64Arg{static_cast<std::int64_t>(map.strides_bytes[i])});
    for (std::size_t i = 0; i < 2; ++i) step.arguments.push_back(i32(map.box[i]));
    step.arguments.push_back(i32(map.tensor == kC ? 1 : 0));
    return step;
}

}  // namespace

void make_maps_on_device(LaunchPlan& plan) {
    LaunchStep main = std::move(plan.steps.back());
    plan.steps.pop_back();
    for (Argument& argument : main.arguments) {
        const auto* const map = std::get_if<TensorMapArg>(&argument);
        if (map == nullptr) continue;
        const std::size_t at = (plan.workspace_bytes + 255) / 256 * 256;
        plan.workspace_bytes = at + 128;
        plan.steps.push_back(map_step(*map, at));
        argument = WorkspaceArg{at};
    }
    plan.steps.push_back(std::move(main));
}

}  // namespace autotune::gemm
