#include <algorithm>

#include "kernel_templates/attention/op/attention_problem.h"
#include "kernel_templates/attention/shared/simt_rules.h"
#include "kernel_templates/parameter_table.h"
#include "kernel_templates/structured_family.h"
#include "src/core/immortal.h"
#include "src/core/integer_math.h"

namespace autotune {
namespace {

using attention::ceil_div;
using attention::View;

// The heads that run together should have this many bytes of keys and values: half of a large L2.
constexpr std::int64_t kGroupBytes = 32 << 20;

// clang-format off
#define ATTENTION_SIMT_PARAMETERS(ROW) \
    ROW(threads, 1, compile, "threads of a block", 64, 128, 256) \
    ROW(threads_x, 1, compile, "threads that share a row", 8, 16, 32) \
    ROW(thread_q, 1, compile, "queries of a thread", 1, 2, 4, 8) \
    ROW(thread_k, 1, compile, "keys of a thread in a tile", 1, 2, 4, 8) \
    ROW(masking, 1, compile, \
        "0: every tile is computed and masked; 1: unseen ones are skipped; 2: only partial ones are masked", 0, 1, 2) \
    ROW(unroll, 1, compile, "steps of a part that are unrolled", 2, 4, 8) \
    ROW(rows_inside, 1, compile, "order of a thread's multiplications: 0 columns inside, 1 rows inside", 0, 1) \
    ROW(part, 1, compile, "columns of keys, and rows of values, that arrive together, at most", 32, 64) \
    ROW(stages, 1, compile, "parts of keys and values that shared memory has room for", 2, 3, 4) \
    ROW(resident_blocks, 1, compile, "blocks of an SM that registers are shared out for", 1, 2, 3, 4) \
    ROW(order, 0, launch, \
        "0 heads one by one; 1 each from its last queries; 2 the last queries of all heads first; 3 of some heads", 0, 1, 2, 3)
// clang-format on

struct ResolvedConfig {
    AUTOTUNE_RESOLVED_CONFIG(ATTENTION_SIMT_PARAMETERS)
};

// Sizes derived from the parameters of a config; kernel.cuh has the same formulas.
struct Geometry : ResolvedConfig {
    Geometry(const Config& c, const View& view)
        : ResolvedConfig(resolve<ResolvedConfig>(c)),
          block_q(threads / threads_x * thread_q),
          block_k(threads_x * thread_k),
          columns(ceil_div(view.dv, 4 * threads_x) * 4),
          d(view.d),
          part_d(d % part == 0 ? part
                 : d % 32 == 0 ? 32
                 : d % 16 == 0 ? 16
                               : 8),
          part_k(std::min(block_k, part)) {}

    std::int64_t block_q, block_k;
    std::int64_t columns;  // the columns of the output that a thread computes
    std::int64_t d;
    std::int64_t part_d, part_k;  // the columns of keys and the rows of values that are loaded together

    std::int64_t smem_bytes() const {
        const std::int64_t slot = std::max(part_d * (block_k + 8), part_k * columns * threads_x);
        return 4 * (d * (block_q + 8) + block_k * (block_q + 4) + stages * slot);
    }
    std::int64_t registers() const {
        constexpr std::int64_t kOther = 56;
        const std::int64_t of_keys = thread_q * thread_k + thread_q + thread_k;
        return thread_q * (columns + 2) + std::max(of_keys, thread_q + columns) + kOther;
    }
    attention::Resources resources() const { return {smem_bytes(), registers()}; }
};

std::vector<Constraint> constraints(const View& view, const Device& device) {
    const std::vector<std::string> shape = {"threads", "threads_x", "thread_q", "thread_k", "part", "stages", "resident_blocks"};
    const bool is_masked = view.is_masked();
    std::vector<Constraint> all = {
        {"half of the rows of a block lie behind the last query",
         {"threads", "threads_x", "thread_q"},
         [=](const Config& c) {
             const std::int64_t block_q = c["threads"] / c["threads_x"] * c["thread_q"];
             return block_q <= 8 || block_q < 2 * view.q_len;
         }},
        attention::tile_rule("a tile has fewer than 16 or more than 128 keys", "thread_k"),
        {"masking 1 without a mask: nothing to skip",
         {"masking"},
         [=](const Config& c) { return is_masked || c["masking"] != 1; }},
        attention::order_rule(view),
    };
    const auto resources = [=](const Config& c) { return Geometry(c, view).resources(); };
    for (Constraint& rule : attention::resource_rules(shape, resources, device.limits)) all.push_back(std::move(rule));
    return all;
}

Config config_of(std::initializer_list<std::int64_t> values) {
    return config_with<ResolvedConfig>(values);
}

Config usual_config(const View& view, const SearchSpace& rules) {
    const std::int64_t order = view.is_masked() ? 2 : 0;
    //                                    thr  tx tq tk mk un in pt st rb order
    const bool is_narrow = std::max(view.d, view.dv) <= 64;
    const std::vector<Config> tries = {
        is_narrow ? config_of({128, 8, 8, 8, 2, 8, 1, 32, 3, 2, order}) : config_of({256, 16, 8, 8, 2, 8, 1, 32, 3, 1, order}),
        config_of({256, 16, 8, 8, 2, 8, 1, 32, 3, 1, order}),
        config_of({256, 16, 8, 4, 2, 4, 1, 32, 3, 1, order}),
        config_of({256, 16, 4, 4, 2, 8, 1, 32, 2, 1, order}),
        config_of({128, 16, 4, 2, 2, 8, 1, 32, 2, 1, order}),
        config_of({128, 16, 2, 2, 2, 8, 1, 32, 2, 1, order}),
        config_of({64, 16, 2, 1, 2, 8, 1, 32, 2, 1, order})};
    for (const Config& config : tries)
        if (rules.contains(config)) return config;
    return config_of({64, 16, 1, 1, 2, 4, 1, 32, 2, 1, 0});
}

std::vector<NamedConfig> named_configs(const View& view) {
    const std::int64_t order = view.is_masked() ? 2 : 0;
    return {
        {"tiled_f32", config_of({256, 16, 4, 4, 0, 4, 1, 32, 2, 1, 0})},
        {"tiled_f32_skipping", config_of({256, 16, 4, 4, 1, 4, 1, 32, 2, 1, 0})},
        {"tiled_f32_diagonal", config_of({256, 16, 4, 4, 2, 4, 1, 32, 2, 1, 0})},
        {"tiled_f32_longest_first", config_of({256, 16, 4, 4, 2, 4, 1, 32, 2, 1, order})},
        {"tiled_f32_rows8", config_of({256, 16, 8, 4, 2, 4, 1, 32, 3, 1, order})},
        {"tiled_f32_8x8", config_of({256, 16, 8, 8, 2, 8, 1, 32, 3, 1, order})},
        {"tiled_f32_8x8_two_blocks", config_of({128, 8, 8, 8, 2, 8, 1, 32, 2, 2, order})},
    };
}

class AttentionSimt final : public StructuredFamily {
  public:
    std::string_view name() const override { return "attention/simt"; }
    std::string_view about() const override {
        return "tiles of queries and keys in f32 on the ordinary cores: strict products and sums";
    }
    int complexity_order() const override { return 0; }
    std::optional<std::string> refuses(const Problem& problem, const Device& device) const override;
    std::vector<Binding> facts(const Problem& problem) const override { return attention::facts_with_packing(problem); }
    LaunchPlan plan(const Problem& problem, const Config& config, const Device& device) const override;
    Predictor predictor(const Problem& problem, const Device& device) const override;

  protected:
    std::vector<Parameter> parameters() const override { return ResolvedConfig::parameters(); }
    std::vector<Constraint> constraints(const Problem& problem, const Device& device) const override {
        return autotune::constraints(View(problem), device);
    }
    Config usual_config(const SearchSpace& rules, const Problem& problem, const Device&) const override {
        return autotune::usual_config(View(problem), rules);
    }
    std::vector<NamedConfig> named_configs(const Problem& problem, const Device&) const override {
        return autotune::named_configs(View(problem));
    }
};

std::optional<std::string> AttentionSimt::refuses(const Problem& problem, const Device&) const {
    return attention::refuses_grid(View(problem), 2);
}

LaunchPlan AttentionSimt::plan(const Problem& problem, const Config& config, const Device&) const {
    const View view(problem);
    const Geometry geometry(config, view);
    const std::int64_t head_bytes = view.kv_len * (view.d + view.dv) * view.element_bytes;
    const std::int64_t heads = std::clamp<std::int64_t>(kGroupBytes / head_bytes, 1, view.b * view.kv_heads) * view.group();
    LaunchStep step;
    step.grid.x = narrow<std::uint32_t>(view.b * view.q_heads * ceil_div(view.q_len, geometry.block_q));
    step.block.x = narrow<std::uint32_t>(geometry.threads);
    step.dynamic_smem_bytes = static_cast<std::size_t>(geometry.smem_bytes());
    step.arguments = attention::arguments(problem);
    step.arguments.push_back(I32Arg{narrow<std::int32_t>(config["order"])});
    step.arguments.push_back(I32Arg{narrow<std::int32_t>(heads)});
    return {.steps = {step}};
}

// Instructions of a warp per tile, counted in compiled kernels of 20 shapes for sm_90a. A multiplication takes 1.2 clocks because
// of its register reads. Shared memory serves one row of banks per clock.
double predicted_us(const View& view, const Config& c, const Device& device) {
    constexpr double kLaunch_us = 2.5, kSustainedClock = 0.95, kPerLoop = 9, kPerScore = 7, kPerRow = 22, kPerTile = 30,
                     kPerPart = 10, kPerCopy = 7;
    const Geometry g(c, view);
    const auto real = [](std::int64_t value) { return static_cast<double>(value); };
    const double heads = real(view.b * view.q_heads), tiles_q = real(ceil_div(view.q_len, g.block_q));
    const double all_tiles = tiles_q * real(ceil_div(view.kv_len, g.block_k)) * heads;
    const double seen_tiles = attention::computed_pairs(view, g.block_q, g.block_k) / real(g.block_q * g.block_k);
    const double tiles = c["masking"] == 0 ? all_tiles : seen_tiles;
    const double of_rows = real(ceil_div(g.thread_q, 4)), of_keys = real(ceil_div(g.thread_k, 4)),
                 of_columns = real(g.columns) / 4;
    const double products = real(g.thread_q * (g.thread_k * view.d + g.columns * g.block_k));
    const double loads = real(view.d) * (of_rows + of_keys) + real(g.block_k) * (of_rows + of_columns);
    const double parts = real(view.d / g.part_d + g.block_k / g.part_k);
    const double copies = real(g.block_k) * (real(view.d) + of_columns * real(g.threads_x)) / real(g.threads);
    const double multiply = c["rows_inside"] == 1 ? 1.17 : 1.2;
    const double of_score = c["masking"] == 2 ? kPerScore : kPerScore + 3;
    const double issue = products * multiply + loads + real(view.d + g.block_k) * kPerLoop / real(c["unroll"]) +
                         of_score * real(g.thread_q * g.thread_k) + kPerRow * real(g.thread_q) + kPerTile + kPerPart * parts +
                         kPerCopy * copies;
    const double turns = std::max(1.0, real(g.threads_x) / 8);
    const double smem = real(view.d) * (of_rows + of_keys * turns) + real(g.block_k) * (of_rows + of_columns * turns);
    const double resident = attention::resident_blocks(c, g.resources(), device.limits), warps = real(g.threads) / 32;
    // Measured on an H200: with fewer than two warps per scheduler, warps wait at each other's barriers.
    const double few_warps = resident * warps < 8 ? 1.25 : 1;
    // A register limit that has no effect gives the same kernel again, so it is ranked later.
    const double again = real(c["resident_blocks"]) == resident ? 1 : 1.002;
    const double a_tile = std::max(issue * warps / 4, smem * warps) * few_warps * again;
    const double sms = device.identity.sm_count, blocks = tiles_q * heads;
    const double waves = blocks / (sms * resident), longest = real(ceil_div(view.kv_len, g.block_k));
    const bool in_order = c["order"] >= 2 || !view.is_masked();
    const double tail = waves <= 1 ? std::max(0.0, longest * resident - tiles / sms) : longest * (in_order ? 0.15 : 0.8);
    return kLaunch_us + (tiles / sms + tail) * a_tile / (device.clock_mhz * kSustainedClock);
}

Predictor AttentionSimt::predictor(const Problem& problem, const Device& device) const {
    return [view = View(problem), device](const Config& config) { return predicted_us(view, config, device); };
}

}  // namespace

const Family& family_attention_simt() {
    static const Immortal<AttentionSimt> family;
    return *family;
}

}  // namespace autotune
