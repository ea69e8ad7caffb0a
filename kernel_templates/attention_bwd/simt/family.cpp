#include <algorithm>

#include "kernel_templates/attention/shared/simt_rules.h"
#include "kernel_templates/attention_bwd/op/bwd_problem.h"
#include "kernel_templates/parameter_table.h"
#include "kernel_templates/structured_family.h"
#include "src/core/immortal.h"
#include "src/core/integer_math.h"

namespace autotune {
namespace {

using attention_bwd::ceil_div;
using attention_bwd::round_up;
using attention_bwd::View;

constexpr std::int64_t kDeltaWarps = 8;

// clang-format off
#define ATTENTION_BWD_SIMT_PARAMETERS(ROW) \
    ROW(threads, 1, compile, "threads of a block", 64, 128, 256) \
    ROW(threads_x, 1, compile, "threads that share a row", 8, 16, 32) \
    ROW(thread_own, 1, compile, "rows of the block, of a thread: queries in the pass for dQ, keys in the other", 1, 2, 4, 8) \
    ROW(thread_other, 1, compile, "rows of a tile, of a thread", 1, 2, 4, 8) \
    ROW(unroll, 1, compile, "steps of four elements that are unrolled", 1, 2, 4) \
    ROW(resident_blocks, 1, compile, "blocks of an SM that registers are shared out for", 1, 2, 3, 4) \
    ROW(passes, 2, compile, "1: blocks with their keys add to dQ in memory; 2: a pass for dQ and one for dK and dV", 1, 2) \
    ROW(order, 0, launch, "0 heads one by one; 2 the longest tiles of all heads first", 0, 2)
// clang-format on

struct ResolvedConfig {
    AUTOTUNE_RESOLVED_CONFIG(ATTENTION_BWD_SIMT_PARAMETERS)
};

// kernel.cuh has the same formulas.
struct Geometry : ResolvedConfig {
    Geometry(const Config& c, const View& view)
        : ResolvedConfig(resolve<ResolvedConfig>(c)),
          own(thread_own),
          other(thread_other),
          block(threads / threads_x * own),
          tile(threads_x * other),
          columns_d(round_up(view.d, 4 * threads_x)),
          columns_v(round_up(view.dv, 4 * threads_x)) {}

    std::int64_t own, other, block, tile;
    std::int64_t columns_d, columns_v;  // columns of a row, rounded up to whole runs

    std::int64_t smem_bytes() const {
        return 4 * ((block + tile) * (columns_d + columns_v) + 8 * tile + block * round_up(tile, 32)) + 8 * tile;
    }
    // The registers of the pass for dK and dV, which needs more than the other.
    std::int64_t registers() const {
        constexpr std::int64_t kOther = 44;
        const std::int64_t held = (reads_weights() ? 1 : 2) * own * other;
        const std::int64_t scores = held + std::max(4 * (own + other), 4 * own + 16);
        return own * (columns_d + columns_v) / threads_x + std::max(scores, passes == 1 ? dq_registers() : 0) + kOther;
    }
    bool reads_weights() const { return own * other >= 32; }
    // How many groups of 4 queries a thread has in the pass that adds to dQ. 16 threads share a group (kernel.cuh).
    std::int64_t dq_quads() const { return tile / (threads / 16 * 4); }
    std::int64_t dq_registers() const {
        const std::int64_t runs = ceil_div(columns_d, 64);
        return 16 * dq_quads() * runs + 4 * runs + 4;
    }
    attention::Resources resources() const { return {smem_bytes(), registers()}; }
};

bool divides_dq(const Config& c) {
    return c["threads_x"] * c["thread_other"] % (c["threads"] / 16 * 4) == 0;
}

std::vector<Constraint> constraints(const View& view, const Device& device) {
    const std::vector<std::string> shape = {"threads", "threads_x", "thread_own", "thread_other"};
    std::vector<std::string> with_resident = shape;
    with_resident.insert(with_resident.end(), {"resident_blocks", "passes"});
    std::vector<Constraint> all = {
        {"half of the rows of a block lie behind the last query, or the last key", shape,
         [=](const Config& c) {
             const std::int64_t block = Geometry(c, view).block;
             return block <= 8 || block < 2 * std::min(view.q_len, view.kv_len);
         }},
        attention::tile_rule("a tile has fewer than 16 or more than 128 rows", "thread_other"),
        {"one pass although the problem is deterministic",
         {"passes"},
         [=](const Config& c) { return c["passes"] == 2 || !view.is_deterministic; }},
        {"one pass although dQ is not f32",
         {"passes"},
         [=](const Config& c) { return c["passes"] == 2 || view.type == DType::f32; }},
        {"resident_blocks does not bind: a thread has 255 registers anyhow",
         {"threads", "resident_blocks"},
         [=](const Config& c) {
             return c["resident_blocks"] == 1 || device.limits.registers_per_sm / (c["threads"] * c["resident_blocks"]) < 255;
         }},
        {"threads do not divide a tile of dQ",
         {"threads", "threads_x", "thread_other", "passes"},
         [](const Config& c) { return c["passes"] == 2 || divides_dq(c); }},
        attention::order_rule(view),
    };
    const auto resources = [=](const Config& c) { return Geometry(c, view).resources(); };
    for (Constraint& rule : attention::resource_rules(with_resident, resources, device.limits)) all.push_back(std::move(rule));
    return all;
}

Config config_of(std::initializer_list<std::int64_t> values) {
    return config_with<ResolvedConfig>(values);
}

Config usual_config(const View& view, const SearchSpace& rules, std::int64_t sm_count) {
    const std::int64_t order = view.is_masked() ? 2 : 0;
    //                                    thr  tx  ow ot un rb ps order
    const std::vector<Config> tries = {config_of({256, 16, 8, 8, 4, 1, 1, order}), config_of({256, 16, 8, 4, 4, 1, 1, order}),
                                       config_of({256, 16, 8, 4, 4, 1, 2, order}), config_of({256, 16, 4, 4, 2, 1, 1, order}),
                                       config_of({256, 16, 4, 4, 2, 1, 2, order}), config_of({256, 16, 2, 2, 2, 1, 2, order}),
                                       config_of({128, 16, 4, 2, 2, 1, 2, order}), config_of({128, 16, 2, 2, 2, 1, 2, order}),
                                       config_of({64, 16, 2, 1, 2, 1, 2, order}),  config_of({64, 16, 1, 1, 1, 1, 2, order})};
    const bool has_few_blocks = view.b * view.kv_heads * ceil_div(view.kv_len, 128) < sm_count;
    for (const Config& config : tries)
        if (rules.contains(config) && !(has_few_blocks && config["thread_own"] == 8)) return config;
    return config_of({64, 32, 1, 1, 1, 1, 2, 0});
}

class AttentionBwdSimt final : public StructuredFamily {
  public:
    std::string_view name() const override { return "attention_bwd/simt"; }
    std::string_view about() const override {
        return "a pass for dQ and one for dK and dV, or one for all that adds to dQ, in f32 on the ordinary cores";
    }
    int complexity_order() const override { return 0; }
    std::optional<std::string> refuses(const Problem& problem, const Device& device) const override;
    std::vector<Binding> facts(const Problem& problem) const override { return attention_bwd::facts(problem); }
    LaunchPlan plan(const Problem& problem, const Config& config, const Device& device) const override;
    Predictor predictor(const Problem& problem, const Device& device) const override;

  protected:
    std::vector<Parameter> parameters() const override { return ResolvedConfig::parameters(); }
    std::vector<Constraint> constraints(const Problem& problem, const Device& device) const override {
        return autotune::constraints(View(problem), device);
    }
    Config usual_config(const SearchSpace& rules, const Problem& problem, const Device& device) const override {
        return autotune::usual_config(View(problem), rules, device.identity.sm_count);
    }
    std::vector<NamedConfig> named_configs(const Problem& problem, const Device&) const override {
        const View view(problem);
        const std::int64_t order = view.is_masked() ? 2 : 0;
        std::vector<NamedConfig> named = {{"two_pass_f32", config_of({256, 16, 2, 2, 1, 1, 2, 0})},
                                          {"two_pass_f32_longest_first", config_of({256, 16, 2, 2, 1, 1, 2, order})},
                                          {"two_pass_f32_rows4", config_of({256, 16, 4, 4, 2, 1, 2, order})},
                                          {"two_pass_f32_rows8", config_of({256, 16, 8, 4, 4, 1, 2, order})}};
        if (!view.is_deterministic && view.type == DType::f32) {
            named.push_back({"one_pass_f32", config_of({256, 16, 4, 4, 2, 1, 1, order})});
            named.push_back({"one_pass_f32_rows8", config_of({256, 16, 8, 4, 4, 1, 1, order})});
        }
        return named;
    }
};

std::optional<std::string> AttentionBwdSimt::refuses(const Problem& problem, const Device&) const {
    const View view(problem);
    if (const auto reason = attention::refuses_grid(view, 2)) return reason;
    constexpr std::int64_t kMostBlocks = 2147483647;
    if (view.b * view.kv_heads > kMostBlocks / ceil_div(view.kv_len, 2))
        return "the keys have more than 2^31 - 1 tiles of 2 rows";
    return std::nullopt;
}

LaunchPlan AttentionBwdSimt::plan(const Problem& problem, const Config& config, const Device&) const {
    const View view(problem);
    const Geometry geometry(config, view);
    const auto step = [&](const char* entry, std::int64_t blocks) {
        LaunchStep made;
        made.entry = entry;
        made.grid.x = narrow<std::uint32_t>(blocks);
        made.block.x = narrow<std::uint32_t>(geometry.threads);
        made.dynamic_smem_bytes = static_cast<std::size_t>(geometry.smem_bytes());
        made.arguments = attention_bwd::arguments(problem);
        made.arguments.push_back(WorkspaceArg{0});
        made.arguments.push_back(I32Arg{narrow<std::int32_t>(config["order"])});
        return made;
    };
    LaunchPlan plan;
    plan.deterministic = geometry.passes == 2;
    plan.steps.push_back(step("_delta", ceil_div(view.rows(), kDeltaWarps)));
    if (geometry.passes == 2)
        plan.steps.push_back(step("_queries", view.b * view.q_heads * ceil_div(view.q_len, geometry.block)));
    plan.steps.push_back(step("", view.b * view.kv_heads * ceil_div(view.kv_len, geometry.block)));
    plan.steps[0].block.x = narrow<std::uint32_t>(32 * kDeltaWarps);
    plan.steps[0].dynamic_smem_bytes = 0;
    plan.workspace_bytes = static_cast<std::size_t>(view.rows() * 8);
    return plan;
}

// Multiplications and the loads that feed them share the issue slots; shared memory serves one row of banks per clock.
Predictor AttentionBwdSimt::predictor(const Problem& problem, const Device& device) const {
    return [view = View(problem), device](const Config& c) -> std::optional<double> {
        constexpr double kLanesPerClock = 128, kSustainedClock = 0.88, kExpPerClock = 16;
        const Geometry g(c, view);
        const auto real = [](std::int64_t value) { return static_cast<double>(value); };
        const double rows = real(view.d + view.dv), sums_d = real(g.columns_d), sums_v = real(g.columns_v);
        const double own = real(g.own), other = real(g.other), columns = sums_d / real(g.threads_x);
        const auto clocks = [&](double sums) {  // clocks for one pair of a query and a key
            const double products = rows + sums;
            const double loads = rows / 4 * (1 / own + 1 / other) + sums / 4 * (1 / own + 1 / columns);
            const double issue = (products + 1.5 * loads + 14) / kLanesPerClock;
            const double smem =
                (rows / 4 * (real(g.threads_x) / 8 / own + 1 / other) + sums / 4 * (real(g.threads_x) / 8 / own + 1 / columns)) /
                32;
            return std::pair{issue, smem + 1 / kExpPerClock};
        };
        const double resident = attention::resident_blocks(c, g.resources(), device.limits);
        const double overlap = std::min(0.9, resident * real(g.threads) / 32 / 14 + 0.1);
        double total = 0;
        for (const bool by_keys : {false, true}) {
            if (!by_keys && g.passes == 1) continue;
            const double pairs =
                by_keys ? attention::computed_pairs(view, g.tile, g.block) : attention::computed_pairs(view, g.block, g.tile);
            const auto [issue, smem] = clocks(by_keys ? sums_d * (g.passes == 1 ? 2 : 1) + sums_v : sums_d);
            const double meeting = 500 / resident / real(g.block * g.tile);
            total += pairs * (overlap * std::max(issue, smem) + (1 - overlap) * (issue + smem) + meeting);
        }
        const double blocks = real(view.b * view.kv_heads * ceil_div(view.kv_len, g.block));
        const double uneven =
            1 + (c["order"] == 0 && view.is_masked() ? 0.25 : 0.08) + std::max(0.0, device.identity.sm_count / blocks - 1);
        // The factors were measured on an H200 with kernels that differ only in these parameters.
        const double measured = (c["unroll"] == 4 ? 0.95 : c["unroll"] == 2 ? 1 : 1.055) * (g.threads_x == 8 ? 1.08 : 1);
        return 8 + measured * uneven * total / (device.identity.sm_count * device.clock_mhz * kSustainedClock);
    };
}

}  // namespace

const Family& family_attention_bwd_simt() {
    static const Immortal<AttentionBwdSimt> family;
    return *family;
}

}  // namespace autotune
