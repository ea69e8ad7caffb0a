#include <algorithm>

#include "kernel_templates/attention/op/attention_problem.h"
#include "kernel_templates/parameter_table.h"
#include "kernel_templates/structured_family.h"
#include "src/core/immortal.h"
#include "src/core/integer_math.h"

namespace autotune {
namespace {

using attention::ceil_div;
using attention::View;

constexpr std::int64_t kMostScoreBytes = std::int64_t{8} << 30;
constexpr std::int64_t kMostRowBlocks = 1 << 20;  // the softmax loops, so more rows need no more blocks

// clang-format off
#define ATTENTION_NAIVE_PARAMETERS(ROW) \
    ROW(block_q, 1, compile, "queries of a block of scores", 4, 8, 16, 32) \
    ROW(block_k, 1, compile, "keys of a block of scores", 8, 16, 32, 64) \
    ROW(row_threads, 1, compile, "threads of a block that share a row of the softmax", 32, 64, 128, 256, 512, 1024) \
    ROW(out_rows, 1, compile, "rows of the output that a block computes", 1, 2, 4, 8)
// clang-format on

struct ResolvedConfig {
    AUTOTUNE_RESOLVED_CONFIG(ATTENTION_NAIVE_PARAMETERS)
};

// Each sequence gets as many rows as the longest one.
std::int64_t padded_rows(const View& view) {
    return view.b * view.q_heads * view.q_len;
}

std::int64_t score_bytes(const View& view) {
    return 4 * padded_rows(view) * view.kv_len;
}

std::int64_t out_columns(const View& view) {
    return attention::round_up(view.dv, 32);
}

Config config_of(std::initializer_list<std::int64_t> values) {
    return config_with<ResolvedConfig>(values);
}

Config usual_config(const View& view) {
    return config_of({8, 32, view.kv_len >= 1024 ? 256 : 64, out_columns(view) > 128 ? 2 : 4});
}

class AttentionNaive final : public StructuredFamily {
  public:
    std::string_view name() const override { return "attention/naive"; }
    std::string_view about() const override { return "three kernels: all scores to memory, their softmax, the weighted values"; }
    int complexity_order() const override { return -10; }
    std::optional<std::string> refuses(const Problem& problem, const Device&) const override;
    std::vector<Binding> facts(const Problem& problem) const override { return attention::facts_with_packing(problem); }
    LaunchPlan plan(const Problem& problem, const Config& config, const Device& device) const override;
    Predictor predictor(const Problem& problem, const Device& device) const override;

  protected:
    std::vector<Parameter> parameters() const override { return ResolvedConfig::parameters(); }
    std::vector<Constraint> constraints(const Problem& problem, const Device& device) const override;
    Config usual_config(const SearchSpace&, const Problem& problem, const Device&) const override {
        return autotune::usual_config(View(problem));
    }
    std::vector<NamedConfig> named_configs(const Problem& problem, const Device&) const override {
        return {{"naive", autotune::usual_config(View(problem))}};
    }
};

std::optional<std::string> AttentionNaive::refuses(const Problem& problem, const Device&) const {
    const View view(problem);
    if (static_cast<double>(padded_rows(view)) * static_cast<double>(view.kv_len) * 4 > static_cast<double>(kMostScoreBytes))
        return "the scores of all rows take more than 8 GiB";
    return std::nullopt;
}

std::vector<Constraint> AttentionNaive::constraints(const Problem& problem, const Device& device) const {
    const View view(problem);
    const std::int64_t most = device.limits.threads_per_block, columns = out_columns(view);
    return {{"a block of scores has more threads than a block may have",
             {"block_q", "block_k"},
             [=](const Config& c) { return c["block_q"] * c["block_k"] <= most; }},
            {"a block of scores is less than a warp",
             {"block_q", "block_k"},
             [](const Config& c) { return c["block_q"] * c["block_k"] >= 32; }},
            {"a block of the output has more threads than a block may have", {"out_rows"}, [=](const Config& c) {
                 return c["out_rows"] * columns <= most;
             }}};
}

LaunchPlan AttentionNaive::plan(const Problem& problem, const Config& config, const Device&) const {
    const View view(problem);
    const std::int64_t heads = view.b * view.q_heads;
    const auto step = [&](const char* entry, std::int64_t blocks, std::int64_t threads) {
        LaunchStep made;
        made.entry = entry;
        made.grid.x = narrow<std::uint32_t>(blocks);
        made.block.x = narrow<std::uint32_t>(threads);
        made.arguments = attention::arguments(problem);
        made.arguments.push_back(WorkspaceArg{0});
        return made;
    };
    LaunchPlan plan;
    plan.steps = {step("_scores", heads * ceil_div(view.q_len, config["block_q"]) * ceil_div(view.kv_len, config["block_k"]),
                       config["block_q"] * config["block_k"]),
                  step("_softmax", std::min(padded_rows(view), kMostRowBlocks), config["row_threads"]),
                  step("", heads * ceil_div(view.q_len, config["out_rows"]), config["out_rows"] * out_columns(view))};
    plan.workspace_bytes = static_cast<std::size_t>(score_bytes(view));
    return plan;
}

// Loads from L1 and L2 limit both products: one load per operand and multiplication. Narrow blocks read an operand more often. On
// an H200 4x16x4096x128 causal takes 332 ms, 1x8x8192x128 in f32 336 ms: lines are fetched from L2 again and again.
Predictor AttentionNaive::predictor(const Problem& problem, const Device& device) const {
    return [view = View(problem), device](const Config& c) -> std::optional<double> {
        const double pairs = static_cast<double>(padded_rows(view)) * static_cast<double>(view.kv_len);
        const double lines_again = 3.1 * static_cast<double>(view.element_bytes);
        const double lanes_per_us = 32.0 / lines_again * device.identity.sm_count * device.clock_mhz;
        const double score_us = pairs * static_cast<double>(view.d) *
                                (1 + 16.0 / static_cast<double>(c["block_k"]) + 4.0 / static_cast<double>(c["block_q"])) /
                                lanes_per_us;
        const double out_us =
            pairs * static_cast<double>(view.dv) * (1 + 1.0 / static_cast<double>(c["out_rows"])) / lanes_per_us;
        const double row_us = pairs * 4 * 5 / (device.memory_gb_per_s * 1e3) *
                              (1 + static_cast<double>(c["row_threads"]) / (4.0 * static_cast<double>(view.kv_len)));
        return 6 + score_us + out_us + row_us;
    };
}

}  // namespace

const Family& family_attention_naive() {
    static const Immortal<AttentionNaive> family;
    return *family;
}

}  // namespace autotune
