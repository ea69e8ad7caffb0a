#include "kernel_templates/structured_family.h"
#include "src/core/integer_math.h"

namespace autotune {
namespace {

class NegatePlain final : public StructuredFamily {
  public:
    std::string_view name() const override { return "negate/plain"; }
    std::string_view about() const override { return "one element a thread"; }
    std::optional<std::string> refuses(const Problem&, const Device&) const override { return std::nullopt; }
    std::vector<Binding> facts(const Problem&) const override { return {}; }
    LaunchPlan plan(const Problem& problem, const Config& config, const Device&) const override {
        const std::int64_t n = problem.extent("n");
        if (n == 0) return {};
        LaunchStep step;
        step.grid.x = static_cast<std::uint32_t>(ceil_div(n, config["threads"]));
        step.block.x = static_cast<std::uint32_t>(config["threads"]);
        step.arguments = {TensorArg{0}, TensorArg{1}, I64Arg{n}};
        return {.steps = {step}};
    }

  protected:
    std::vector<Parameter> parameters() const override {
        return {{"threads", {64, 128, 256, 512}, ParameterKind::compile, "threads of a block"}};
    }
    std::vector<Constraint> constraints(const Problem&, const Device&) const override { return {}; }
    Config usual_config(const SearchSpace&, const Problem&, const Device&) const override { return Config({{"threads", 256}}); }
    std::vector<NamedConfig> named_configs(const Problem&, const Device&) const override { return {}; }
};

}  // namespace

const Family& family_negate_plain() {
    static const NegatePlain family;
    return family;
}

}  // namespace autotune
