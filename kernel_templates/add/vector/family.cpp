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
constexpr std::int64_t kMostRegisters = 255;  // the most that a thread can have
constexpr std::int64_t kOtherRegisters = 24;  // registers that a thread needs for addresses and counters, besides the loaded runs
constexpr std::int64_t kWidestAccessBytes = 16;

// clang-format off
#define ADD_VECTOR_PARAMETERS(ROW) \
    ROW(vec, 1, compile, "neighbouring elements of a thread: a run", 1, 2, 4, 8) \
    ROW(access_bytes, 1, compile, "one load or store, as far as alignment allows; 16 and vec 8: packed", 2, 4, 8, 16) \
    ROW(unroll, 1, compile, "runs of a thread, all loaded before the first is stored", 1, 2, 4, 8) \
    ROW(threads, 1, compile, "threads of a block", 64, 128, 256, 512, 1024) \
    ROW(load_hint, 0, compile, "0 none, 1 L1::no_allocate, 2 .cs (evict first), 3 no_allocate and L2::256B", 0, 1, 2, 3) \
    ROW(store_hint, 0, compile, "0 none, 1 .cs (streaming)", 0, 1) \
    ROW(grid_stride, 0, compile, "0 a block takes one tile, 1 tile after tile", 0, 1) \
    ROW(waves, 0, launch, "grid in fillings of the GPU; 0: one block a tile", 0, 1, 2, 4, 8) \
    ADD_PDL_PARAMETER(ROW)
// clang-format on

struct ResolvedConfig {
    AUTOTUNE_RESOLVED_CONFIG(ADD_VECTOR_PARAMETERS)
};

std::int64_t tile_elements(const Config& c) {
    return c["threads"] * c["vec"] * c["unroll"];
}

std::int64_t registers_of(const Config& c, std::int64_t element_bytes) {
    const std::int64_t words = std::max<std::int64_t>(c["vec"] * element_bytes / 4, 1);
    return kOtherRegisters + 2 * c["unroll"] * words;
}

std::vector<Constraint> constraints(const View& view, const Device& device) {
    const std::int64_t size = view.element_bytes;
    const std::int64_t widest = view.widest_align();
    const DeviceLimits limits = device.limits;
    return {
        {"an access is narrower than an element", {"access_bytes"}, [=](const Config& c) { return c["access_bytes"] >= size; }},
        {"an access is wider than a run",
         {"vec", "access_bytes"},
         [=](const Config& c) { return c["access_bytes"] <= c["vec"] * size; }},
        {"an access is wider than the alignment of every operand",
         {"access_bytes"},
         [=](const Config& c) { return c["access_bytes"] <= widest; }},
        {"the block has more threads than the GPU allows",
         {"threads"},
         [=](const Config& c) { return c["threads"] <= limits.threads_per_block; }},
        {"the runs exceed a thread's registers",
         {"vec", "unroll"},
         [=](const Config& c) { return registers_of(c, size) <= kMostRegisters; }},
        {"the runs exceed the register file",
         {"vec", "unroll", "threads"},
         [=](const Config& c) { return registers_of(c, size) * c["threads"] <= limits.registers_per_block; }},
        {"waves without a grid-stride loop, or a grid-stride loop without waves",
         {"grid_stride", "waves"},
         [](const Config& c) { return (c["grid_stride"] == 1) == (c["waves"] > 0); }},
        add::pdl_constraint(device),
    };
}

Config config_of(std::initializer_list<std::int64_t> values) {
    return config_with<ResolvedConfig>(values);
}

// The well-known series of elementwise kernels under their usual names, and the best of them with other grids.
std::vector<NamedConfig> named_configs(DType type) {
    const std::string t(to_string(type));
    if (type == DType::f32) {
        //              vec  acc unr thr ld st gs waves pdl
        return {{t, config_of({1, 4, 1, 256, 0, 0, 0, 0, 0})},
                {t + "x4", config_of({4, 16, 1, 256, 0, 0, 0, 0, 0})},
                {t + "x4_unroll4", config_of({4, 16, 4, 256, 0, 0, 0, 0, 0})},
                {t + "x4_grid_stride", config_of({4, 16, 1, 256, 0, 0, 1, 1, 0})},
                {t + "x4_streaming", config_of({4, 16, 2, 256, 1, 1, 0, 0, 0})}};
    }
    return {{t, config_of({1, 2, 1, 256, 0, 0, 0, 0, 0})},
            {t + "x2", config_of({2, 4, 1, 256, 0, 0, 0, 0, 0})},
            {t + "x8", config_of({8, 4, 1, 256, 0, 0, 0, 0, 0})},
            {t + "x8_pack", config_of({8, 16, 1, 256, 0, 0, 0, 0, 0})},
            {t + "x8_pack_unroll4", config_of({8, 16, 4, 256, 0, 0, 0, 0, 0})},
            {t + "x8_pack_grid_stride", config_of({8, 16, 1, 256, 0, 0, 1, 1, 0})},
            {t + "x8_pack_streaming", config_of({8, 16, 2, 256, 1, 1, 0, 0, 0})}};
}

// Accesses are as wide as the narrowest alignment allows, with one block per tile. For long arrays a thread takes several runs,
// because the GPU is full anyway. Short arrays bypass the caches: 65536 f16 elements take 1.80 us with this and 2.00 without
// (H200, 2026-11-21).
Config choose_default(const View& view, const Device& device) {
    const std::int64_t access = std::min<std::int64_t>(kWidestAccessBytes, view.narrowest_align());
    const std::int64_t vec = access / view.element_bytes;
    constexpr std::int64_t kThreads = 256;
    const std::int64_t one_wave = std::int64_t{device.identity.sm_count} * device.limits.threads_per_sm * vec;
    const bool is_long = view.n > 4 * one_wave;
    const std::int64_t unroll = !is_long ? 1 : access == kWidestAccessBytes ? 2 : 4;
    const std::int64_t hint = is_long || access < kWidestAccessBytes ? 0 : 1;
    return config_of({vec, access, unroll, kThreads, hint, hint, 0, 0, 0});
}

std::int64_t resident_blocks(const Config& c, const View& view, const Device& device) {
    const std::int64_t by_threads = device.limits.threads_per_sm / c["threads"];
    const std::int64_t by_registers = device.limits.registers_per_sm / (c["threads"] * registers_of(c, view.element_bytes));
    return std::max<std::int64_t>(1, std::min({by_threads, by_registers, std::int64_t{device.limits.blocks_per_sm}}));
}

// The grid has one block per tile, or as many blocks as fill the GPU `waves` times.
std::int64_t blocks_of(const Config& c, const View& view, const Device& device) {
    const std::int64_t tiles = add::ceil_div(view.n, tile_elements(c));
    if (c["grid_stride"] == 0) return tiles;
    return std::min(tiles, device.identity.sm_count * resident_blocks(c, view, device) * c["waves"]);
}

double predicted_us(const View& view, const Config& config, const Device& device) {
    const std::int64_t run_bytes = config["vec"] * view.element_bytes;
    const std::int64_t access = std::min<std::int64_t>(config["access_bytes"], view.narrowest_align());
    add::Traffic traffic;
    traffic.starts_early = config["pdl"] == 1;
    traffic.blocks = blocks_of(config, view, device);
    traffic.resident_blocks = resident_blocks(config, view, device);
    traffic.block_bytes = static_cast<double>(2 * tile_elements(config) * view.element_bytes);
    traffic.access_bytes = static_cast<double>(access);
    // If lanes are a run apart, each access uses only a part of the lines that it fetches.
    traffic.l1_share = static_cast<double>(access) / static_cast<double>(std::max<std::int64_t>(run_bytes, 4));
    return add::predict_us(view, traffic, device);
}

class AddVector final : public StructuredFamily {
  public:
    std::string_view name() const override { return "add/vector"; }
    std::string_view about() const override {
        return "loads and stores of registers, from one element to 16 bytes; any alignment";
    }
    std::optional<std::string> refuses(const Problem& problem, const Device& device) const override;
    std::vector<Binding> facts(const Problem& problem) const override { return add::facts(problem); }
    LaunchPlan plan(const Problem& problem, const Config& config, const Device& device) const override;
    Predictor predictor(const Problem& problem, const Device& device) const override {
        return [view = View(problem), device](const Config& config) { return predicted_us(view, config, device); };
    }

  protected:
    std::vector<Parameter> parameters() const override { return ResolvedConfig::parameters(); }
    std::vector<Constraint> constraints(const Problem& problem, const Device& device) const override {
        return autotune::constraints(View(problem), device);
    }
    Config usual_config(const SearchSpace&, const Problem& problem, const Device& device) const override {
        return choose_default(View(problem), device);
    }
    // A variant named after its wide accesses does not exist for operands that forbid them.
    std::vector<NamedConfig> named_configs(const Problem& problem, const Device&) const override {
        return autotune::named_configs(View(problem).type);
    }
};

std::optional<std::string> AddVector::refuses(const Problem&, const Device&) const {
    return std::nullopt;
}

LaunchPlan AddVector::plan(const Problem& problem, const Config& config, const Device& device) const {
    const std::int64_t blocks = blocks_of(config, View(problem), device);
    if (blocks == 0) return {};
    LaunchStep step;
    step.grid.y = narrow<std::uint32_t>(add::ceil_div(blocks, kMostGridX));
    step.grid.x = narrow<std::uint32_t>(add::ceil_div(blocks, step.grid.y));
    step.block.x = narrow<std::uint32_t>(config["threads"]);
    step.programmatic_dependent = config["pdl"] == 1;
    step.arguments = add::arguments(problem);
    return {.steps = {step}};
}

}  // namespace

const Family& family_add_vector() {
    static const Immortal<AddVector> family;
    return *family;
}

}  // namespace autotune
