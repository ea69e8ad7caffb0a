#include "kernel_templates/add/op/add_problem.h"
#include "kernel_templates/parameter_table.h"
#include "kernel_templates/structured_family.h"
#include "src/core/immortal.h"

namespace autotune {
namespace {

constexpr std::int64_t kMostBlocks = 2147483647;

// A row: name, value where a config gives none, kind, one line for `autotune families`, values.
// clang-format off
#define ADD_MINE_PARAMETERS(ROW) \
    ROW(threads, 256, compile, "threads of a block", 64, 128, 256, 512) \
    ROW(unroll, 1, compile, "elements of a thread", 1, 2, 4)
// clang-format on

struct ResolvedConfig {
    AUTOTUNE_RESOLVED_CONFIG(ADD_MINE_PARAMETERS)  // members threads and unroll

    std::int64_t tile() const { return threads * unroll; }
};

class AddMine final : public StructuredFamily {
  public:
    std::string_view name() const override { return "add/mine"; }
    std::string_view about() const override { return "one element a step"; }
    std::optional<std::string> refuses(const Problem& problem, const Device&) const override {
        if (problem.extent("n") > kMostBlocks) return "add/mine has at most 2^31 - 1 blocks of one element";
        return std::nullopt;
    }
    // The values of ${element_type}, ${align_a}, ...: those that every family of add gets.
    std::vector<Binding> facts(const Problem& problem) const override { return add::facts(problem); }
    LaunchPlan plan(const Problem& problem, const Config& config, const Device&) const override {
        const std::int64_t n = problem.extent("n");
        if (n == 0) return {};
        const auto s = resolve<ResolvedConfig>(config);
        LaunchStep step;
        step.grid.x = static_cast<std::uint32_t>(add::ceil_div(n, s.tile()));
        step.block.x = static_cast<std::uint32_t>(s.threads);
        step.arguments = add::arguments(problem);  // a, b, c, n
        return {.steps = {step}};
    }

  protected:
    std::vector<Parameter> parameters() const override { return ResolvedConfig::parameters(); }
    std::vector<Constraint> constraints(const Problem&, const Device& device) const override {
        const std::int64_t most = device.limits.threads_per_block;
        return {{"the block has more threads than the GPU allows",
                 {"threads"},
                 rules_by<ResolvedConfig>()([most](const ResolvedConfig& s) { return s.threads <= most; })}};
    }
    Config usual_config(const SearchSpace&, const Problem&, const Device&) const override {
        return config_from(ResolvedConfig{});
    }
    std::vector<NamedConfig> named_configs(const Problem&, const Device&) const override {
        return {{"mine_unroll4", config_from(ResolvedConfig{.unroll = 4})}};
    }
};

}  // namespace

const Family& family_add_mine() {
    static const Immortal<AddMine> family;
    return *family;
}

}  // namespace autotune
