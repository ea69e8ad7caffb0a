#include "src/core/family/family.h"

#include <algorithm>
#include <cmath>

#include "kernel_templates/attention/op/attention_problem.h"
#include "kernel_templates/parameter_table.h"
#include "kernel_templates/structured_family.h"
#include "src/core/immortal.h"
#include "src/core/integer_math.h"

namespace autotune {
namespace {

using attention::ceil_div;
using attention::View;

constexpr std::int64_t kRows = 16;       // rows for each warp
constexpr std::int64_t kMostRows = 128;  // if a head of keys has more rows, families with tiles are faster
constexpr std::int64_t kMostRegisters = 255;
constexpr std::int64_t kMostClusterBlocks = 16;
// How the parts of a head's blocks are joined.
enum Join : std::int64_t { kByLastBlock = 0, kBySecondKernel = 1, kByCluster = 2 };

// clang-format off
#define ATTENTION_SPLIT_PARAMETERS(ROW) \
    ROW(warps, 1, compile, "warps of a block, each with keys of its own", 1, 2, 4, 8, 16) \
    ROW(key_steps, 1, compile, "steps of 16 keys that a warp has in registers", 1, 2) \
    ROW(load_hint, 0, compile, "0 none, 1 no allocation in L1, 3 that and 256 bytes into L2", 0, 1, 3) \
    ROW(join, 0, compile, "parts are joined by 0: the last block of a head, 1: a second kernel, 2: their cluster", 0, 1, 2) \
    ROW(one_tile, 0, compile, "1: a warp has one tile of keys at most, and all that a block reads is in flight at once", 0, 1) \
    ROW(resident_blocks, 1, compile, "blocks of an SM that registers are shared out for", 1, 2, 3, 4, 6, 8) \
    ROW(splits, 1, launch, "blocks that share the keys of a head", 1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 128) \
    ROW(pdl, 0, launch, "1: programmatic dependent launch: blocks start while the kernel before ends", 0, 1)
// clang-format on

struct ResolvedConfig {
    AUTOTUNE_RESOLVED_CONFIG(ATTENTION_SPLIT_PARAMETERS)
};

// The rows that share a head of keys, rounded up to bands of a warp.
std::int64_t rows_of(const View& view) {
    return view.q_len * view.group();
}
std::int64_t bands_of(const View& view) {
    return ceil_div(rows_of(view), kRows);
}
std::int64_t lines_of(const View& view) {
    return view.b * view.kv_heads * bands_of(view);
}

std::int64_t part_bytes(const View& view) {
    return kRows * (view.dv + 2) * 4;
}
// Shared memory in which a block's warps, and a cluster's blocks, exchange their parts: Meeting in kernel.cuh.
std::int64_t smem_bytes(const Config& c, const View& view) {
    constexpr std::int64_t kBarrierAndFlag = 16, kQuadPart = 32;
    const std::int64_t part = kRows * (view.dv + 4) * 4 + 2 * kRows * 4;
    const std::int64_t quads = c["join"] == kByCluster ? kRows * view.dv / 4 + kMostClusterBlocks : 1;
    return c["warps"] * part + quads * kQuadPart + kBarrierAndFlag;
}

std::int64_t registers_of(const Config& c, const View& view) {
    constexpr std::int64_t kOther = 48, kOtherOfOneTile = 28;
    const std::int64_t queries = view.d / 4, values = view.dv / 2;
    const std::int64_t loaded = c["key_steps"] * (view.d / 4 + view.dv / 4);
    if (c["one_tile"] == 1)  // keys and queries are no longer needed when values are multiplied
        return std::max(queries + loaded, values + c["key_steps"] * (view.dv / 4)) + kOtherOfOneTile;
    return queries + values + loaded + c["key_steps"] * 12 + kOther;
}

std::int64_t tiles_of(const View& view, const Config& c) {
    return ceil_div(view.kv_len, 16 * c["key_steps"]);
}

std::vector<Constraint> constraints(const View& view, const Device& device) {
    const DeviceLimits limits = device.limits;
    const bool is_hopper = device.identity.cc() >= 90;
    return {
        {"an SM has no room for as many threads, registers or joined parts",
         {"warps", "join", "resident_blocks"},
         [=](const Config& c) {
             return 32 * c["warps"] * c["resident_blocks"] <= limits.threads_per_sm &&
                    smem_bytes(c, view) <= limits.smem_per_block_bytes &&
                    (smem_bytes(c, view) + 1024) * c["resident_blocks"] <= limits.smem_per_sm_bytes;
         }},
        {"a thread has too few registers for what it holds",
         {"warps", "key_steps", "one_tile", "resident_blocks"},
         [=](const Config& c) {
             const std::int64_t most =
                 std::min<std::int64_t>(limits.registers_per_sm / (32 * c["warps"] * c["resident_blocks"]), kMostRegisters);
             return registers_of(c, view) <= most;
         }},
        {"some of the blocks that share the keys would have none",
         {"key_steps", "splits"},
         [=](const Config& c) { return c["splits"] == 1 || c["splits"] <= tiles_of(view, c); }},
        {"a cluster before sm_90, or one without 2 to 16 blocks",
         {"join", "splits"},
         [=](const Config& c) {
             return c["join"] != kByCluster || (is_hopper && c["splits"] > 1 && c["splits"] <= kMostClusterBlocks);
         }},
        {"one_tile although a warp has more than one tile of keys",
         {"warps", "key_steps", "one_tile", "splits"},
         [=](const Config& c) { return c["one_tile"] == 0 || tiles_of(view, c) <= c["warps"] * c["splits"]; }},
        {"programmatic dependent launch before sm_90", {"pdl"}, [=](const Config& c) { return is_hopper || c["pdl"] == 0; }},
    };
}

Config config_of(std::initializer_list<std::int64_t> values) {
    return config_with<ResolvedConfig>(values);
}

// Enough blocks to fill the device, each with at least eight tiles per warp.
std::int64_t usual_splits(const View& view, const Device& device) {
    const std::int64_t room = std::max<std::int64_t>(2 * device.identity.sm_count / lines_of(view), 1);
    const std::int64_t useful = std::max<std::int64_t>(view.kv_len / 256, 1);
    std::int64_t splits = 1;
    std::vector<Parameter> all = ResolvedConfig::parameters();
    for (const std::int64_t value : parameter_of(all, "splits").values)
        if (value <= room && value <= useful) splits = value;
    return splits;
}

class AttentionSplit final : public StructuredFamily {
  public:
    std::string_view name() const override { return "attention/split"; }
    std::string_view about() const override {
        return "few queries: keys are split among blocks and warps, and stream through registers";
    }
    int complexity_order() const override { return 15; }
    std::optional<std::string> refuses(const Problem& problem, const Device& device) const override;
    std::vector<Binding> facts(const Problem& problem) const override { return attention::facts(problem); }
    LaunchPlan plan(const Problem& problem, const Config& config, const Device& device) const override;
    Predictor predictor(const Problem& problem, const Device& device) const override;

  protected:
    std::vector<Parameter> parameters() const override { return ResolvedConfig::parameters(); }
    std::vector<Constraint> constraints(const Problem& problem, const Device& device) const override {
        return autotune::constraints(View(problem), device);
    }
    Config usual_config(const SearchSpace& rules, const Problem& problem, const Device& device) const override;
    std::vector<NamedConfig> named_configs(const Problem& problem, const Device& device) const override;
};

std::optional<std::string> AttentionSplit::refuses(const Problem& problem, const Device&) const {
    const View view(problem);
    if (view.is_packed) return "it takes sequences of one length";
    if (view.type == DType::f32) return "its multipliers take f16 and bf16, not f32";
    if (rows_of(view) > kMostRows)
        return "a head of keys has " + std::to_string(rows_of(view)) + " rows of queries, more than " + std::to_string(kMostRows);
    if (view.d % 32 != 0 || view.dv % 64 != 0 || view.d > 128 || view.dv > 128)
        return "it takes head sizes of 32, 64, 96 and 128, and 64 and 128 for the values";
    if (view.align[attention::kQ] < 16 || view.align[attention::kK] < 16 || view.align[attention::kV] < 16)
        return "rows of q, k and v are not aligned to 16 bytes";
    constexpr std::int64_t kMostBlocks = 65535, kMostElements = 2147483647;  // limits of a grid's second and third dimension
    if (view.b > kMostBlocks || view.kv_heads * bands_of(view) > kMostBlocks) return "there are too many heads for one grid";
    if (std::max(view.strides[attention::kK].row, view.strides[attention::kV].row) > kMostElements)
        return "rows of k or v are 2^31 elements apart or more";
    return std::nullopt;
}

Config AttentionSplit::usual_config(const SearchSpace& all, const Problem& problem, const Device& device) const {
    const View view(problem);
    const std::int64_t splits = usual_splits(view, device);
    const std::vector<Config> tries = {config_of({4, 1, 1, 0, 0, 2, splits, 0}), config_of({2, 1, 1, 0, 0, 2, splits, 0})};
    for (const Config& config : tries)
        if (all.contains(config)) return config;
    return config_of({1, 1, 0, 0, 0, 1, 1, 0});
}

std::vector<NamedConfig> AttentionSplit::named_configs(const Problem& problem, const Device& device) const {
    const std::int64_t splits = usual_splits(View(problem), device);
    return {{"decode_unsplit", config_of({4, 1, 0, 0, 0, 1, 1, 0})},
            {"decode_split", config_of({4, 1, 0, 0, 0, 1, splits, 0})},
            {"decode_split_resident2", config_of({4, 1, 1, 0, 0, 2, splits, 0})},
            {"decode_split_second_kernel", config_of({4, 1, 1, 1, 0, 2, splits, 0})},
            {"decode_cluster8", config_of({8, 1, 0, kByCluster, 0, 1, 8, 0})},
            {"decode_cluster16", config_of({8, 1, 0, kByCluster, 0, 1, 16, 0})},
            {"decode_cluster16_one_tile", config_of({16, 1, 0, kByCluster, 1, 1, 16, 0})}};
}

LaunchPlan AttentionSplit::plan(const Problem& problem, const Config& config, const Device&) const {
    const View view(problem);
    const std::int64_t splits = config["splits"], lines = lines_of(view);
    const bool by_last_block = config["join"] == kByLastBlock, by_cluster = config["join"] == kByCluster;
    const std::int64_t counter_bytes = splits > 1 && by_last_block ? attention::round_up(lines * 4, 256) : 0;
    LaunchStep step;
    step.grid = {narrow<std::uint32_t>(splits), narrow<std::uint32_t>(view.kv_heads * bands_of(view)),
                 narrow<std::uint32_t>(view.b)};
    step.block.x = narrow<std::uint32_t>(32 * config["warps"]);
    step.dynamic_smem_bytes = static_cast<std::size_t>(smem_bytes(config, view));
    step.programmatic_dependent = config["pdl"] == 1;
    step.arguments = attention::arguments(problem);
    step.arguments.push_back(I32Arg{narrow<std::int32_t>(splits)});
    step.arguments.push_back(I32Arg{narrow<std::int32_t>(bands_of(view))});
    step.arguments.push_back(WorkspaceArg{0});
    step.arguments.push_back(WorkspaceArg{static_cast<std::size_t>(counter_bytes)});
    if (by_cluster) step.cluster.x = narrow<std::uint32_t>(splits);
    LaunchPlan plan{.steps = {step}};
    if (splits == 1 || by_cluster) return plan;
    plan.workspace_bytes = static_cast<std::size_t>(counter_bytes + lines * splits * part_bytes(view));
    plan.workspace_zero_bytes = static_cast<std::size_t>(counter_bytes);
    if (by_last_block) return plan;
    step.entry = "_join";
    step.grid.x = 1;
    step.block.x = narrow<std::uint32_t>(kRows * view.dv / 4);
    step.dynamic_smem_bytes = 0;
    plan.steps.push_back(step);
    return plan;
}

// The constants are fitted to 316 timings of ten problems on an H200 (docs/results/attention.md).

// The memory rate in bytes per microsecond that can be reached. The memory, the SMs, and the bytes in flight during one latency
// limit it.
double bytes_per_us(const View& view, const Config& c, const Device& device, double bytes, double resident) {
    constexpr double kLatency_us = 0.86, kReachableShare = 0.92, kOfSm = 95e3, kLoaded = 0.79, kLoadedOfOneTile = 1.1;
    constexpr double kStreamed = 60e6;  // cache hints matter above this many bytes
    // Above this many bytes no hint is best: none of the winners of all five such problems has one
    constexpr double kLong = 500e6;
    const auto real = [](std::int64_t value) { return static_cast<double>(value); };
    const double blocks = real(lines_of(view) * c["splits"]), sms = device.identity.sm_count;
    const double of_warp =
        real(c["key_steps"] * 16 * (view.d + view.dv) * view.element_bytes) * (c["one_tile"] == 1 ? kLoadedOfOneTile : kLoaded);
    const double in_flight = std::min(std::min(blocks, sms * resident) * real(c["warps"]) * of_warp, bytes);
    const double most = device.memory_gb_per_s * 1e3 * kReachableShare;
    const double rate = std::min({most, in_flight / kLatency_us, std::min(blocks, sms) * kOfSm});
    if (bytes < kStreamed || c["load_hint"] == 1) return rate;
    if (c["load_hint"] == 0) return rate * (bytes < kLong ? 0.975 : 1.005);
    return rate * 0.963;
}

// The slow-down by an incomplete last wave of blocks, or by clusters that do not fit next to each other.
double unevenness(const View& view, const Config& c, const Device& device, double resident) {
    const auto real = [](std::int64_t value) { return static_cast<double>(value); };
    const double blocks = real(lines_of(view) * c["splits"]), sms = device.identity.sm_count;
    const double waves = blocks / (sms * resident);
    double factor = 1;
    if (waves > 1)
        factor += 0.3 * (std::ceil(waves) / waves - 1);
    else if (blocks > sms)
        factor += 0.07 * (std::ceil(blocks / sms) * sms / blocks - 1);
    constexpr double kPortable = 8, kSmsOfGroup = 16;  // an H200 has seven groups of at least 16 SMs
    const double clusters = 7 * std::floor(kSmsOfGroup * resident / real(c["splits"]));
    if (c["join"] == kByCluster && real(c["splits"]) > kPortable && real(lines_of(view)) > clusters) factor *= 1.57;
    return factor;
}

double join_us(const Config& c) {
    if (c["splits"] == 1)
        // With one split nothing is joined and every `join` gives the same kernel, so all but one of them are ranked later
        return c["join"] == kByLastBlock ? 0 : 0.5;
    const double once = c["join"] == kBySecondKernel ? 1.8 : c["join"] == kByCluster ? 1.15 : 1.2;
    return once + 0.03 * static_cast<double>(c["splits"]);
}

double predicted_us(const View& view, const Config& c, const Device& device) {
    constexpr double kLaunch_us = 2.3, kTile_us = 0.19, kTileOfStream_us = 0.06, kWarp_us = 0.17, kBlock_us = 0.58;
    const auto real = [](std::int64_t value) { return static_cast<double>(value); };
    const double keys = std::max(view.visible_pairs() / std::max(real(view.rows()), 1.0), 1.0);
    const double bytes = real(view.b * view.kv_heads) * keys * real(view.d + view.dv) * real(view.element_bytes);
    const double by_registers =
        std::floor(device.limits.registers_per_sm /
                   (32.0 * real(c["warps"]) * real(std::min<std::int64_t>(registers_of(c, view) + 20, 255))));
    const double resident = std::max(real(c["resident_blocks"]), std::max(1.0, by_registers));
    const double blocks = real(lines_of(view) * c["splits"]), sms = device.identity.sm_count;
    // A register limit that has no effect gives the same kernel again, so it is ranked later.
    const double again = real(c["resident_blocks"]) == resident ? 1 : 1.004;
    const double narrow = c["warps"] <= 2 && bytes > 60e6 ? 1.02 : 1;
    const double memory_us =
        bytes / bytes_per_us(view, c, device, bytes, resident) * unevenness(view, c, device, resident) * again * narrow;
    const double tiles = std::ceil(keys / real(c["splits"] * 16 * c["key_steps"] * c["warps"]));
    const double chain_us = tiles * std::ceil(blocks / (sms * resident)) * (bytes > 60e6 ? kTileOfStream_us : kTile_us);
    return kLaunch_us + memory_us + chain_us + join_us(c) + kWarp_us * real(c["warps"]) + kBlock_us * blocks / sms;
}

Predictor AttentionSplit::predictor(const Problem& problem, const Device& device) const {
    return [view = View(problem), device](const Config& config) { return predicted_us(view, config, device); };
}

}  // namespace

const Family& family_attention_split() {
    static const Immortal<AttentionSplit> family;
    return *family;
}

}  // namespace autotune
