#include "kernel_templates/add/add_problem.h"
#include "kernel_templates/structured_family.h"
#include "src/core/immortal.h"

namespace autotune {
namespace {

constexpr std::int64_t kMostBlocks = 2147483647;

class AddMine final : public StructuredFamily {
  public:
    std::string_view name() const override { return "add/mine"; }
    std::string_view about() const override { return "one element a step"; }
    std::optional<std::string> refuses(const Problem& problem, const Device&) const override {
        if (problem.extent("n") > kMostBlocks) return "add/mine has at most 2^31 - 1 blocks of one element";
        return std::nullopt;
    }
    // The values of ${element_type}, ${align_a}, ...: what every family of add gets.
    std::vector<Binding> facts(const Problem& problem) const override { return add::facts(problem); }
    LaunchPlan plan(const Problem& problem, const Config& config, const Device&) const override {
        const std::int64_t n = problem.extent("n");
        if (n == 0) return {};
        LaunchStep step;
        step.grid.x = static_cast<std::uint32_t>(add::ceil_div(n, config["threads"] * config["unroll"]));
        step.block.x = static_cast<std::uint32_t>(config["threads"]);
        step.arguments = add::arguments(problem);  // a, b, c, n
        return {.steps = {step}};
    }

  protected:
    std::vector<Parameter> parameters() const override {
        return {{"threads", {64, 128, 256, 512}, ParameterKind::compile, "threads of a block"},
                {"unroll", {1, 2, 4}, ParameterKind::compile, "elements of a thread"}};
    }
    std::vector<Constraint> constraints(const Problem&, const Device& device) const override {
        const std::int64_t most = device.limits.threads_per_block;
        return {{"the block has more threads than the GPU allows", {"threads"}, [most](const Config& config) {
                     return config["threads"] <= most;
                 }}};
    }
    Config usual_config(const SearchSpace&, const Problem&, const Device&) const override {
        return Config({{"threads", 256}, {"unroll", 1}});
    }
    std::vector<NamedConfig> named_configs(const Problem&, const Device&) const override {
        return {{"mine_unroll4", Config({{"threads", 256}, {"unroll", 4}})}};
    }
};

}  // namespace

const Family& family_add_mine() {
    static const Immortal<AddMine> family;
    return *family;
}

}  // namespace autotune
