#include <algorithm>

#include "kernel_templates/add/op/add_problem.h"
#include "kernel_templates/parameter_table.h"
#include "kernel_templates/structured_family.h"
#include "src/core/immortal.h"
#include "src/core/integer_math.h"

namespace autotune {
namespace {

using add::View;

constexpr std::int64_t kMostGridX = 2147483647;
constexpr std::int64_t kAccessBytes = 16;
constexpr std::int64_t kReservedSmemBytes = 1024;  // shared memory that the hardware reserves for every block
constexpr int kLeastCc = 90;

// clang-format off
#define ADD_BULK_PARAMETERS(ROW) \
    ROW(tile_bytes, 1, compile, "of each operand that one copy brings", 2048, 4096, 8192, 16384, 32768) \
    ROW(stages, 1, compile, "tiles of both operands in shared memory, asked for ahead", 1, 2, 3, 4, 6) \
    ROW(threads, 1, compile, "threads of a block", 64, 128, 256, 512) \
    ROW(bulk_store, 0, compile, "0 threads store sums, 1 sums leave as bulk copies of a tile", 0, 1) \
    ROW(load_hint, 0, compile, "0 none, 1 L2 evict first", 0, 1) \
    ROW(store_hint, 0, compile, "0 none, 1 streaming (.cs, or L2 evict first for bulk copies)", 0, 1) \
    ROW(waves, 0, launch, "grid in fillings of the GPU; 0: one block a tile", 0, 1, 2, 4) \
    ADD_PDL_PARAMETER(ROW)
// clang-format on

struct ResolvedConfig {
    AUTOTUNE_RESOLVED_CONFIG(ADD_BULK_PARAMETERS)
};

std::int64_t smem_bytes(const Config& c) {
    return 2 * c["stages"] * c["tile_bytes"];
}

std::vector<Constraint> constraints(const Device& device) {
    const std::int64_t most_smem = device.limits.smem_per_block_bytes;
    constexpr std::int64_t kMostAccesses = 16;  // four registers each
    return {
        {"a thread has no 16 bytes of a tile, or more than its registers hold",
         {"tile_bytes", "threads"},
         [](const Config& c) {
             const std::int64_t accesses = c["tile_bytes"] / kAccessBytes / c["threads"];
             return accesses >= 1 && accesses <= kMostAccesses;
         }},
        {"the stages exceed shared memory",
         {"tile_bytes", "stages"},
         [=](const Config& c) { return smem_bytes(c) + kReservedSmemBytes <= most_smem; }},
        {"more than one stage in a block with a single tile",
         {"stages", "waves"},
         [](const Config& c) { return c["waves"] > 0 || c["stages"] == 1; }},
        add::pdl_constraint(device),
    };
}

Config config_of(std::initializer_list<std::int64_t> values) {
    return config_with<ResolvedConfig>(values);
}

std::vector<NamedConfig> named_configs(DType type) {
    const std::string t(to_string(type));
    //                      tile  stg thr bs ld st waves pdl
    return {{t + "_bulk", config_of({8192, 1, 256, 0, 0, 0, 0, 0})},
            {t + "_bulk_store", config_of({8192, 1, 256, 1, 0, 0, 0, 0})},
            {t + "_bulk_stage2", config_of({8192, 2, 256, 0, 0, 0, 1, 0})},
            {t + "_bulk_stage4_store", config_of({4096, 4, 128, 1, 0, 0, 1, 0})}};
}

std::int64_t resident_blocks(const Config& c, const Device& device) {
    const std::int64_t by_threads = device.limits.threads_per_sm / c["threads"];
    const std::int64_t by_smem = device.limits.smem_per_sm_bytes / (smem_bytes(c) + kReservedSmemBytes);
    return std::max<std::int64_t>(1, std::min({by_threads, by_smem, std::int64_t{device.limits.blocks_per_sm}}));
}

// The kernel loops over tiles, so a grid of any size is valid.
std::int64_t blocks_of(const Config& c, const View& view, const Device& device) {
    const std::int64_t tiles = add::ceil_div(view.n * view.element_bytes, c["tile_bytes"]);
    const std::int64_t wanted = c["waves"] == 0 ? kMostGridX : device.identity.sm_count * resident_blocks(c, device) * c["waves"];
    return std::min({tiles, wanted, kMostGridX});
}

double predicted_us(const View& view, const Config& config, const Device& device) {
    add::Traffic traffic;
    traffic.starts_early = config["pdl"] == 1;
    traffic.blocks = blocks_of(config, view, device);
    traffic.resident_blocks = resident_blocks(config, device);
    traffic.block_bytes = static_cast<double>(smem_bytes(config));
    // The time of a barrier and of the way through shared memory and back, which loads into registers do not need.
    constexpr double kHandOver_us = 0.7;
    return add::predict_us(view, traffic, device) + kHandOver_us;
}

class AddBulk final : public StructuredFamily {
  public:
    std::string_view name() const override { return "add/bulk"; }
    std::string_view about() const override {
        return "bulk copies through shared memory, tiles asked for ahead; aligned operands";
    }
    int complexity_order() const override { return 10; }
    std::optional<std::string> refuses(const Problem& problem, const Device& device) const override;
    std::vector<Binding> facts(const Problem& problem) const override { return add::facts(problem); }
    LaunchPlan plan(const Problem& problem, const Config& config, const Device& device) const override;
    Predictor predictor(const Problem& problem, const Device& device) const override {
        return [view = View(problem), device](const Config& config) { return predicted_us(view, config, device); };
    }

  protected:
    std::vector<Parameter> parameters() const override { return ResolvedConfig::parameters(); }
    std::vector<Constraint> constraints(const Problem&, const Device& device) const override {
        return autotune::constraints(device);
    }
    Config usual_config(const SearchSpace&, const Problem&, const Device&) const override {
        return config_of({8192, 2, 256, 0, 0, 0, 1, 0});
    }
    std::vector<NamedConfig> named_configs(const Problem& problem, const Device&) const override {
        return autotune::named_configs(View(problem).type);
    }
};

std::optional<std::string> AddBulk::refuses(const Problem& problem, const Device& device) const {
    if (device.identity.cc() < kLeastCc) return "add/bulk needs bulk copies, which GPUs have from sm_90 on";
    if (View(problem).narrowest_align() < kAccessBytes)
        return "add/bulk copies units of 16 bytes; operands must be aligned to that";
    return std::nullopt;
}

LaunchPlan AddBulk::plan(const Problem& problem, const Config& config, const Device& device) const {
    const std::int64_t blocks = blocks_of(config, View(problem), device);
    if (blocks == 0) return {};
    LaunchStep step;
    step.grid.x = narrow<std::uint32_t>(blocks);
    step.block.x = narrow<std::uint32_t>(config["threads"]);
    step.programmatic_dependent = config["pdl"] == 1;
    step.dynamic_smem_bytes = static_cast<std::size_t>(smem_bytes(config));
    step.arguments = add::arguments(problem);
    return {.steps = {step}};
}

}  // namespace

const Family& family_add_bulk() {
    static const Immortal<AddBulk> family;
    return *family;
}

}  // namespace autotune
