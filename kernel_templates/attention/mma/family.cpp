#include "src/core/family/family.h"

#include <algorithm>

#include "kernel_templates/attention/mma/geometry.h"
#include "kernel_templates/attention/op/attention_problem.h"
#include "kernel_templates/parameter_table.h"
#include "kernel_templates/structured_family.h"
#include "src/core/immortal.h"
#include "src/core/integer_math.h"

namespace autotune {
namespace {

using attention::View;
using attention_mma::Geometry;
using attention_mma::ResolvedConfig;

constexpr std::int64_t kMostRegisters = 255;
// The heads that run together should have this many bytes of keys and values: half of a large L2.
constexpr std::int64_t kGroupBytes = 32 << 20;

std::vector<Constraint> constraints(const View& view, const Device& device) {
    const DeviceLimits limits = device.limits;
    const std::vector<std::string> shape = {"block_q",        "block_k",      "warps",          "stages",
                                            "q_in_registers", "smem_swizzle", "resident_blocks"};
    const auto geometry = [view](const Config& c) { return Geometry(c, view); };
    const bool is_masked = view.is_masked(), can_swizzle = !view.is_tf32 && (view.d % 64 == 0 || view.dv % 64 == 0);
    const std::int64_t q_len = view.q_len, kv_len = view.kv_len;
    return {
        {"a warp does not have one or two bands of 16 rows",
         {"block_q", "warps"},
         [](const Config& c) { return c["block_q"] == 16 * c["warps"] || c["block_q"] == 32 * c["warps"]; }},
        {"half of the rows of a block lie behind the last query",
         {"block_q"},
         [=](const Config& c) { return c["block_q"] == 16 || c["block_q"] < 2 * q_len; }},
        {"half of the keys of a tile lie behind the last key",
         {"block_k"},
         [=](const Config& c) { return c["block_k"] == 16 || c["block_k"] < 2 * kv_len; }},
        {"smem_swizzle for f32, or for rows whose size is no multiple of 64",
         {"smem_swizzle"},
         [=](const Config& c) { return c["smem_swizzle"] == 0 || can_swizzle; }},
        {"masking 1 without a mask: nothing to skip",
         {"masking"},
         [=](const Config& c) { return is_masked || c["masking"] != 1; }},
        {"an order by length without a mask: all tiles take equally long",
         {"order"},
         [=](const Config& c) { return is_masked || c["order"] == 0; }},
        {"tiles exceed shared memory", shape,
         [=](const Config& c) {
             const std::int64_t bytes = geometry(c).smem_bytes();
             return bytes <= limits.smem_per_block_bytes && (bytes + 1024) * c["resident_blocks"] <= limits.smem_per_sm_bytes;
         }},
        {"a thread has too few registers for its sums and scores", shape,
         [=](const Config& c) {
             const std::int64_t most =
                 std::min<std::int64_t>(limits.registers_per_sm / (32 * c["warps"] * c["resident_blocks"]), kMostRegisters);
             return geometry(c).registers() <= most;
         }},
        {"more than 16 warps share an SM's registers",
         {"warps", "resident_blocks"},
         [](const Config& c) { return c["warps"] * c["resident_blocks"] <= 16; }},
    };
}

Config config_of(std::initializer_list<std::int64_t> values) {
    return config_with<ResolvedConfig>(values);
}

// FlashAttention-2's tiles, narrower if there are fewer queries.
Config usual_config(const View& view, const SearchSpace& rules) {
    const std::int64_t widest = std::max(view.d, view.dv);
    const std::int64_t swizzle = !view.is_tf32 && (view.d % 64 == 0 || view.dv % 64 == 0);
    const std::int64_t order = view.is_masked() ? 2 : 0;
    //                          bq   bk wa st qr sw mk lz rb order
    std::vector<Config> tries;
    if (widest <= 64) tries.push_back(config_of({128, 64, 4, 2, 1, swizzle, 2, 1, 2, order}));
    if (widest <= 128) tries.push_back(config_of({128, 64, 4, 2, 0, swizzle, 2, 1, 2, order}));
    if (widest <= 128) tries.push_back(config_of({128, 32, 4, 2, 0, swizzle, 2, 1, 2, order}));
    tries.push_back(config_of({64, 64, 4, 1, 0, swizzle, 2, 1, 1, order}));
    tries.push_back(config_of({64, 32, 4, 1, 0, swizzle, 2, 1, 1, order}));
    tries.push_back(config_of({32, 32, 2, 1, 0, swizzle, 2, 1, 1, order}));
    tries.push_back(config_of({16, 32, 1, 1, 0, swizzle, 2, 1, 1, order}));
    for (const Config& config : tries)
        if (rules.contains(config)) return config;
    return config_of({16, 16, 1, 1, 0, 0, 2, 0, 1, 0});
}

// A series of configs in which each step changes one thing.
std::vector<NamedConfig> named_configs(const View& view, const SearchSpace& space) {
    const std::int64_t order = view.is_masked() ? 2 : 0;
    const std::int64_t wide = std::max(view.d, view.dv) <= 64 ? 1 : 0;
    std::vector<NamedConfig> all = {
        //                                    bq   bk wa st qr sw mk lz rb order
        {"tiled", config_of({64, 32, 4, 1, 0, 0, 0, 0, 1, 0})},
        {"tiled_skipping", config_of({64, 32, 4, 1, 0, 0, 1, 0, 1, 0})},
        {"tiled_diagonal", config_of({64, 32, 4, 1, 0, 0, 2, 0, 1, 0})},
        {"tiled_swizzled", config_of({64, 32, 4, 1, 0, 1, 2, 0, 1, 0})},
        {"flash2", config_of({128, 64, 4, 2, wide, 1, 2, 0, 2, 0})},
        {"flash2_longest_first", config_of({128, 64, 4, 2, wide, 1, 2, 0, 2, order})},
        {"flash2_lazy", config_of({128, 64, 4, 2, wide, 1, 2, 1, 2, order})},
        {"flash2_stage1", config_of({128, 64, 4, 1, wide, 1, 2, 1, 2, order})},
        {"warps8_stage2", config_of({128, 64, 8, 2, 1, 1, 2, 1, 1, order})},
    };
    return legal_ones(std::move(all), space);
}

class AttentionMma final : public StructuredFamily {
  public:
    std::string_view name() const override { return "attention/mma"; }
    std::string_view about() const override {
        return "tiles of queries and keys on mma.sync, cp.async and ldmatrix: FlashAttention-2's structure";
    }
    int complexity_order() const override { return 10; }
    std::optional<std::string> refuses(const Problem& problem, const Device& device) const override;
    std::vector<Binding> facts(const Problem& problem) const override { return attention::facts_with_packing(problem); }
    LaunchPlan plan(const Problem& problem, const Config& config, const Device& device) const override;
    Predictor predictor(const Problem& problem, const Device& device) const override {
        return [view = View(problem), device](const Config& config) { return attention_mma::predict_us(view, config, device); };
    }

  protected:
    std::vector<Parameter> parameters() const override { return ResolvedConfig::parameters(); }
    std::vector<Constraint> constraints(const Problem& problem, const Device& device) const override {
        return autotune::constraints(View(problem), device);
    }
    Config usual_config(const SearchSpace& rules, const Problem& problem, const Device&) const override {
        return autotune::usual_config(View(problem), rules);
    }
    std::vector<NamedConfig> named_configs(const Problem& problem, const Device& device) const override {
        return autotune::named_configs(View(problem), rules(problem, device));
    }
};

std::optional<std::string> AttentionMma::refuses(const Problem& problem, const Device&) const {
    const View view(problem);
    if (view.type == DType::f32 && !view.is_tf32) return "its multipliers take f16, bf16 and tf32, not f32";
    return attention::refuses_grid(view, 16);
}

LaunchPlan AttentionMma::plan(const Problem& problem, const Config& config, const Device&) const {
    const View view(problem);
    const Geometry geometry(config, view);
    const std::int64_t head_bytes = view.kv_len * (view.d + view.dv) * view.element_bytes;
    const std::int64_t heads = std::clamp<std::int64_t>(kGroupBytes / head_bytes, 1, view.b * view.kv_heads) * view.group();
    LaunchStep step;
    step.grid.x = narrow<std::uint32_t>(view.b * view.q_heads * attention::ceil_div(view.q_len, geometry.block_q));
    step.block.x = narrow<std::uint32_t>(geometry.threads());
    step.dynamic_smem_bytes = static_cast<std::size_t>(geometry.smem_bytes());
    step.arguments = attention::arguments(problem);
    step.arguments.push_back(I32Arg{narrow<std::int32_t>(config["order"])});
    step.arguments.push_back(I32Arg{narrow<std::int32_t>(heads)});
    return {.steps = {step}};
}

}  // namespace

const Family& family_attention_mma() {
    static const Immortal<AttentionMma> family;
    return *family;
}

}  // namespace autotune
