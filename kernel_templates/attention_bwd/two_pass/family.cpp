#include "src/core/family/family.h"

#include <algorithm>
#include <cmath>

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

constexpr std::int64_t kMostRegisters = 255;
constexpr std::int64_t kDeltaWarps = 8;

// clang-format off
#define ATTENTION_BWD_TWO_PASS_PARAMETERS(ROW) \
    ROW(q_warps, 1, compile, "warps of a block of the pass for dQ, each with 16 queries", 1, 2, 4, 8) \
    ROW(q_tile, 1, compile, "keys of a tile of that pass", 16, 32, 48, 64) \
    ROW(k_warps, 1, compile, "warps of a block of the pass for dK and dV, each with 16 keys", 1, 2, 4, 8) \
    ROW(k_tile, 1, compile, "queries of a tile of that pass", 16, 32, 48, 64) \
    ROW(stages, 1, compile, "tiles in shared memory", 2, 3) \
    ROW(smem_swizzle, 1, compile, "1: chunks of a row are permuted by XOR; 0: rows are padded", 0, 1) \
    ROW(resident_blocks, 1, compile, "blocks of an SM that registers are shared out for", 1, 2, 3, 4) \
    ROW(order, 0, launch, "0 heads one by one; 2 the longest tiles of all heads first", 0, 2)
// clang-format on

struct ResolvedConfig {
    AUTOTUNE_RESOLVED_CONFIG(ATTENTION_BWD_TWO_PASS_PARAMETERS)
};

// kernel.cuh has the same formulas.
struct Geometry : ResolvedConfig {
    Geometry(const Config& c, const View& view) : ResolvedConfig(resolve<ResolvedConfig>(c)), d(view.d), dv(view.dv) {}

    std::int64_t d, dv;

    std::int64_t row_bytes(std::int64_t columns) const {
        return round_up(columns, 16) * 2 + (smem_swizzle != 0 && columns % 64 == 0 ? 0 : 16);
    }
    std::int64_t pair_bytes() const { return row_bytes(d) + row_bytes(dv); }
    std::int64_t queries_smem() const { return (16 * q_warps + stages * q_tile) * pair_bytes(); }
    std::int64_t keys_smem() const { return (16 * k_warps + stages * k_tile) * pair_bytes() + stages * k_tile * 8; }
    std::int64_t queries_registers() const { return round_up(d, 16) / 2 + q_tile + q_tile / 4 + kOther; }
    std::int64_t keys_registers() const { return (round_up(d, 16) + round_up(dv, 16)) / 2 + k_tile + k_tile / 4 + kOther; }

    static constexpr std::int64_t kOther = 56;
};

std::vector<Constraint> constraints(const View& view, const Device& device) {
    const DeviceLimits limits = device.limits;
    const bool is_masked = view.is_masked(), can_swizzle = view.d % 64 == 0 || view.dv % 64 == 0;
    const auto fits = [limits](std::int64_t bytes, std::int64_t resident) {
        return bytes <= limits.smem_per_block_bytes && (bytes + 1024) * resident <= limits.smem_per_sm_bytes;
    };
    const auto registers = [limits](std::int64_t warps, std::int64_t resident) {
        return std::min<std::int64_t>(limits.registers_per_sm / (32 * warps * resident), kMostRegisters);
    };
    const auto of_queries = [view](const Config& c) {
        Config all = c;
        all.set("k_warps", 1);
        all.set("k_tile", 16);
        if (!all.find("stages")) all.set("stages", 2);
        if (!all.find("smem_swizzle")) all.set("smem_swizzle", 0);
        return Geometry(all, view);
    };
    const auto of_keys = [view](const Config& c) {
        Config all = c;
        all.set("q_warps", 1);
        all.set("q_tile", 16);
        if (!all.find("stages")) all.set("stages", 2);
        if (!all.find("smem_swizzle")) all.set("smem_swizzle", 0);
        return Geometry(all, view);
    };
    return {
        {"smem_swizzle for rows whose size is no multiple of 64",
         {"smem_swizzle"},
         [=](const Config& c) { return c["smem_swizzle"] == 0 || can_swizzle; }},
        {"an order by length without a mask: all tiles take equally long",
         {"order"},
         [=](const Config& c) { return is_masked || c["order"] == 0; }},
        {"half of the rows of a block lie behind the last query",
         {"q_warps"},
         [=](const Config& c) { return c["q_warps"] == 1 || 16 * c["q_warps"] < 2 * view.q_len; }},
        {"half of the rows of a block lie behind the last key",
         {"k_warps"},
         [=](const Config& c) { return c["k_warps"] == 1 || 16 * c["k_warps"] < 2 * view.kv_len; }},
        {"tiles of the pass for dQ exceed shared memory",
         {"q_warps", "q_tile", "stages", "smem_swizzle", "resident_blocks"},
         [=](const Config& c) { return fits(of_queries(c).queries_smem(), c["resident_blocks"]); }},
        {"tiles of the pass for dK and dV exceed shared memory",
         {"k_warps", "k_tile", "stages", "smem_swizzle", "resident_blocks"},
         [=](const Config& c) { return fits(of_keys(c).keys_smem(), c["resident_blocks"]); }},
        {"a thread of the pass for dQ has too few registers",
         {"q_warps", "q_tile", "resident_blocks"},
         [=](const Config& c) { return of_queries(c).queries_registers() <= registers(c["q_warps"], c["resident_blocks"]); }},
        {"a thread of the pass for dK and dV has too few registers",
         {"k_warps", "k_tile", "resident_blocks"},
         [=](const Config& c) { return of_keys(c).keys_registers() <= registers(c["k_warps"], c["resident_blocks"]); }},
        {"more than 16 warps share an SM's registers",
         {"q_warps", "k_warps", "resident_blocks"},
         [](const Config& c) { return std::max(c["q_warps"], c["k_warps"]) * c["resident_blocks"] <= 16; }},
    };
}

Config config_of(std::initializer_list<std::int64_t> values) {
    return config_with<ResolvedConfig>(values);
}

Config usual_config(const View& view, const SearchSpace& rules) {
    const std::int64_t order = view.is_masked() ? 2 : 0, swizzle = view.d % 64 == 0 || view.dv % 64 == 0;
    //                                    qw qt  kw kt  st sw       rb order
    const std::vector<Config> tries = {
        config_of({4, 64, 4, 32, 2, swizzle, 2, order}), config_of({4, 32, 4, 32, 2, swizzle, 1, order}),
        config_of({4, 32, 4, 16, 2, swizzle, 1, order}), config_of({2, 32, 2, 16, 2, swizzle, 1, order})};
    for (const Config& config : tries)
        if (rules.contains(config)) return config;
    return config_of({1, 16, 1, 16, 2, 0, 1, 0});
}

class AttentionBwdTwoPass final : public StructuredFamily {
  public:
    std::string_view name() const override { return "attention_bwd/two_pass"; }
    std::string_view about() const override { return "a pass for dQ and one for dK and dV on mma.sync, without atomics"; }
    int complexity_order() const override { return 10; }
    std::optional<std::string> refuses(const Problem& problem, const Device& device) const override;
    std::vector<Binding> facts(const Problem& problem) const override { return attention_bwd::facts(problem); }
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
    std::vector<NamedConfig> named_configs(const Problem& problem, const Device& device) const override;
};

std::optional<std::string> AttentionBwdTwoPass::refuses(const Problem& problem, const Device&) const {
    const View view(problem);
    if (view.type == DType::f32) return "its multipliers take f16 and bf16, not f32";
    if (view.d > 128 || view.dv > 128) return "the sums of a block's keys fit into the registers up to head sizes of 128";
    if (const auto reason = attention::refuses_grid(view, 16)) return reason;
    constexpr std::int64_t kMostBlocks = 2147483647;
    if (view.b * view.kv_heads > kMostBlocks / ceil_div(view.kv_len, 16))
        return "the keys have more than 2^31 - 1 tiles of 16 rows";
    return std::nullopt;
}

std::vector<NamedConfig> AttentionBwdTwoPass::named_configs(const Problem& problem, const Device&) const {
    const std::int64_t order = View(problem).is_masked() ? 2 : 0;
    return {{"two_pass", config_of({4, 32, 4, 32, 2, 0, 1, 0})},
            {"two_pass_swizzled", config_of({4, 32, 4, 32, 2, 1, 1, 0})},
            {"two_pass_longest_first", config_of({4, 32, 4, 32, 2, 1, 1, order})},
            {"two_pass_resident2", config_of({4, 64, 4, 32, 2, 1, 2, order})}};
}

LaunchPlan AttentionBwdTwoPass::plan(const Problem& problem, const Config& config, const Device&) const {
    const View view(problem);
    const Geometry geometry(config, view);
    const auto step = [&](const char* entry, std::int64_t blocks, std::int64_t warps, std::int64_t smem_bytes) {
        LaunchStep made;
        made.entry = entry;
        made.grid.x = narrow<std::uint32_t>(blocks);
        made.block.x = narrow<std::uint32_t>(32 * warps);
        made.dynamic_smem_bytes = static_cast<std::size_t>(smem_bytes);
        made.arguments = attention_bwd::arguments(problem);
        made.arguments.push_back(WorkspaceArg{0});
        made.arguments.push_back(I32Arg{narrow<std::int32_t>(config["order"])});
        return made;
    };
    LaunchPlan plan;
    plan.steps = {
        step("_delta", ceil_div(view.rows(), kDeltaWarps), kDeltaWarps, 0),
        step("_queries", view.b * view.q_heads * ceil_div(view.q_len, 16 * geometry.q_warps), geometry.q_warps,
             geometry.queries_smem()),
        step("", view.b * view.kv_heads * ceil_div(view.kv_len, 16 * geometry.k_warps), geometry.k_warps, geometry.keys_smem())};
    plan.workspace_bytes = static_cast<std::size_t>(view.rows() * 8);
    return plan;
}

// The clocks that one pass takes on an SM: fragments from shared memory, multiplications, and the exponentials between them.
struct Pass {
    std::int64_t warps, tile, registers, smem_bytes;
    double products;  // the products along the head size for each pair of a query and a key
};

double pass_us(const View& view, const Pass& pass, double pairs, const Config& c, const Device& device) {
    constexpr double kMmaShareOfHopper = 0.62, kSmemBytesPerClock = 128, kExpPerClock = 16, kSustainedClock = 0.88;
    const double peak = device.tensor_flop_per_clock_sm() * (device.identity.cc() == 90 ? kMmaShareOfHopper : 1);
    const double by_smem = static_cast<double>(device.limits.smem_per_sm_bytes / (pass.smem_bytes + 1024));
    const double by_registers =
        std::floor(device.limits.registers_per_sm /
                   (32.0 * static_cast<double>(pass.warps * std::min<std::int64_t>(pass.registers + 20, 255))));
    const double resident = std::max(1.0, std::min(by_smem, std::max(by_registers, static_cast<double>(c["resident_blocks"]))));
    const double warps = resident * static_cast<double>(pass.warps);
    const double mma = pairs * 2 * pass.products / peak;
    // A fragment of 256 bytes serves one multiplication of 16 x 8 x 16.
    const double smem = pairs * pass.products / (16.0 * 8 * 16) * 256 / kSmemBytesPerClock;
    const double filled =
        pairs * static_cast<double>(view.d + view.dv) * 2 / (16.0 * static_cast<double>(pass.warps)) / kSmemBytesPerClock;
    const double exp = pairs / kExpPerClock + pairs * 8 / 128;
    const double meeting = pairs / (16.0 * static_cast<double>(pass.warps * pass.tile)) * 120 / resident;
    const double bound = std::max({mma, smem + filled, exp}), sum = mma + smem + filled + exp;
    const double overlap = std::min(0.85, warps / 14);
    return (overlap * bound + (1 - overlap) * sum + meeting) / (device.identity.sm_count * device.clock_mhz * kSustainedClock);
}

Predictor AttentionBwdTwoPass::predictor(const Problem& problem, const Device& device) const {
    return [view = View(problem), device](const Config& c) -> std::optional<double> {
        const Geometry g(c, view);
        const double d = static_cast<double>(view.d), dv = static_cast<double>(view.dv);
        const double q_pairs = attention::computed_pairs(view, 16 * g.q_warps, g.q_tile);
        const double k_pairs = attention::computed_pairs(view, g.k_tile, 16 * g.k_warps);
        const double blocks = static_cast<double>(view.b * view.kv_heads * ceil_div(view.kv_len, 16 * g.k_warps));
        const double uneven =
            1 + (c["order"] == 0 && view.is_masked() ? 0.25 : 0.08) + std::max(0.0, device.identity.sm_count / blocks - 1);
        return 8 + uneven * (pass_us(view, {g.q_warps, g.q_tile, g.queries_registers(), g.queries_smem(), 2 * d + dv}, q_pairs, c,
                                     device) +
                             pass_us(view, {g.k_warps, g.k_tile, g.keys_registers(), g.keys_smem(), 2 * d + 2 * dv}, k_pairs, c,
                                     device));
    };
}

}  // namespace

const Family& family_attention_bwd_two_pass() {
    static const Immortal<AttentionBwdTwoPass> family;
    return *family;
}

}  // namespace autotune
