#include "kernel_templates/empty_sum.h"

#include <algorithm>

#include "kernel_templates/harness/harness.h"
#include "kernel_templates/registry.h"
#include "src/core/immortal.h"
#include "src/core/integer_math.h"

namespace autotune {
namespace {

constexpr std::int64_t kThreads = 256;
constexpr std::int64_t kMostBlocks = 65536;  // the kernel loops, so more elements need no more blocks

const Op* op_of(const Problem& problem) {
    const std::vector<const Op*>& ops = registry().ops;
    const auto found = std::find_if(ops.begin(), ops.end(), [&](const Op* op) { return op->name() == problem.op; });
    return found == ops.end() ? nullptr : *found;
}

Argument address_of(std::optional<int> tensor) {
    return tensor ? Argument(TensorArg{*tensor}) : Argument(I64Arg{0});
}

I64Arg format_of(DType type) {
    return {static_cast<std::int64_t>(harness_format(type))};
}

LaunchStep step_of(const Problem& problem, const EmptySum& sum) {
    const Tensor& out = problem.tensors[static_cast<std::size_t>(sum.tensor)];
    LaunchStep step;
    step.grid.x = narrow<std::uint32_t>(std::min(ceil_div(out.elements(), kThreads), kMostBlocks));
    step.block.x = kThreads;
    step.arguments = {TensorArg{sum.tensor}, format_of(out.dtype)};
    const HarnessLayout layout(out);
    for (const std::int64_t extent : layout.extents) step.arguments.push_back(I64Arg{extent});
    for (const std::int64_t stride : layout.strides) step.arguments.push_back(I64Arg{stride});
    step.arguments.push_back(sum.factor ? Argument(ScalarArg{*sum.factor}) : Argument(F32Arg{0}));
    step.arguments.push_back(F32Arg{sum.value});
    step.arguments.push_back(address_of(sum.bias));
    step.arguments.push_back(format_of(sum.bias ? problem.tensors[static_cast<std::size_t>(*sum.bias)].dtype : DType::f32));
    step.arguments.push_back(address_of(sum.scale));
    step.arguments.push_back(address_of(sum.amax));
    return step;
}

class EmptySumFamily final : public Family {
  public:
    std::string_view name() const override { return "common/empty_sum"; }
    std::string_view about() const override { return "outputs whose elements are sums of nothing, of every op"; }
    std::optional<std::string> refuses(const Problem& problem, const Device&) const override {
        const Op* const op = op_of(problem);
        if (op == nullptr || !op->empty_sums(problem)) return "it is for problems whose sums are of nothing";
        return std::nullopt;
    }
    SearchSpace space(const Problem&, const Device&) const override { return {}; }
    std::vector<Binding> facts(const Problem&) const override { return {}; }
    // The plan has no steps for a problem that the family refuses, because the kernel is also loaded in advance, before there is
    // a problem.
    LaunchPlan plan(const Problem& problem, const Config&, const Device&) const override {
        LaunchPlan plan;
        const Op* const op = op_of(problem);
        const auto sums = op == nullptr ? std::nullopt : op->empty_sums(problem);
        if (!sums) return plan;
        for (const EmptySum& sum : *sums) plan.steps.push_back(step_of(problem, sum));
        return plan;
    }
};

}  // namespace

const Family& empty_sum_family() {
    static const Immortal<EmptySumFamily> family;
    return *family;
}

}  // namespace autotune
