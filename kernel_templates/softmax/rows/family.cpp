#include <algorithm>

#include "kernel_templates/parameter_table.h"
#include "kernel_templates/softmax/op/softmax_problem.h"
#include "kernel_templates/structured_family.h"
#include "src/core/immortal.h"

namespace autotune {
namespace {

using softmax::View;

constexpr std::int64_t kOtherRegisters = 32;  // registers that a thread needs besides its part of a row
constexpr std::int64_t kWidestAccessBytes = 16;
constexpr std::int64_t kMostRegisters = 255;

// clang-format off
#define SOFTMAX_ROWS_PARAMETERS(ROW) \
    ROW(threads, 1, compile, "threads of a block", 32, 64, 128, 256, 512, 1024) \
    ROW(threads_per_row, 1, compile, "threads of a block that share a row", 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024) \
    ROW(rows_per_thread, 1, compile, "rows that a thread has at once", 1, 2, 4) \
    SOFTMAX_CLUSTER_PARAMETER(ROW) \
    ROW(access_bytes, 1, compile, "one load of a thread", 2, 4, 8, 16) \
    ROW(register_chunks, 1, compile, "accesses of a row that a thread keeps in registers; the rest is read again", 0, 1, 2, 3, 4, 6, 8, 16) \
    ROW(unroll, 1, compile, "accesses in flight where a row is not held", 1, 2, 4) \
    ROW(online, 1, compile, "what is not held: 0 read for its peak, then for its sum; 1 for both at once", 0, 1) \
    ROW(hold_weights, 1, compile, "1: exponentials stay in registers; 0: elements do, and are weighed again", 0, 1) \
    ROW(warp_max_first, 1, compile, "1: lanes of a row agree on its peak before they weigh; 0: each weighs by its own", 0, 1) \
    ROW(resident_blocks, 1, compile, "blocks of an SM that registers are shared out for", 1, 2, 4, 8, 16) \
    SOFTMAX_LOAD_HINT_PARAMETER(ROW) \
    SOFTMAX_STORE_HINT_PARAMETER(ROW) \
    ROW(waves, 1, compile, "grid in fillings of the GPU; 0: one block a tile of rows", 0, 1) \
    SOFTMAX_PDL_PARAMETER(ROW)
// clang-format on

struct ResolvedConfig {
    AUTOTUNE_RESOLVED_CONFIG(SOFTMAX_ROWS_PARAMETERS)
};

// The layout of rows that a config's parameters give for an element type.
struct RowLayout {
    RowLayout(const Config& c, std::int64_t element_bytes)
        : vec(c["access_bytes"] / element_bytes),
          sharers(c["threads_per_row"] * c["cluster_blocks"]),
          held_cols(c["register_chunks"] * sharers * vec) {}

    std::int64_t vec;        // elements of an access
    std::int64_t sharers;    // threads of a row
    std::int64_t held_cols;  // the elements of a row that are kept in registers
};

std::int64_t registers_of(const Config& c, std::int64_t element_bytes) {
    const std::int64_t words = c["access_bytes"] / 4 + (c["access_bytes"] < 4);
    const std::int64_t held_words = c["hold_weights"] == 1 ? c["access_bytes"] / element_bytes : words;
    return kOtherRegisters + c["rows_per_thread"] * c["register_chunks"] * held_words;
}

std::int64_t rows_per_block(const Config& c) {
    return c["threads"] / c["threads_per_row"] * c["rows_per_thread"];
}

bool grid_has_room(std::int64_t rows, const Config& c) {
    return softmax::ceil_div(rows, rows_per_block(c)) <= softmax::kMostGridX / c["cluster_blocks"];
}

std::vector<Constraint> width_constraints(const View& view) {
    const std::int64_t bytes = view.element_bytes;
    const std::int64_t widest = std::min<std::int64_t>(view.align_x, kWidestAccessBytes);
    const std::int64_t cols = view.cols;
    return {
        {"an access is neither one element nor as wide as rows are aligned",
         {"access_bytes"},
         [=](const Config& c) { return c["access_bytes"] == bytes || c["access_bytes"] == widest; }},
        {"half of the threads, or of what they hold, lie behind the end of the row",
         {"threads_per_row", "cluster_blocks", "access_bytes", "register_chunks"},
         [=](const Config& c) {
             const RowLayout layout(c, bytes);
             return std::max<std::int64_t>(c["register_chunks"], 1) * layout.sharers * layout.vec < 2 * cols;
         }},
        {"unroll or online although the row is held: nothing is left to read",
         {"threads_per_row", "cluster_blocks", "access_bytes", "register_chunks", "unroll", "online"},
         [=](const Config& c) { return RowLayout(c, bytes).held_cols < cols || (c["unroll"] == 1 && c["online"] == 1); }},
        {"more than one row a thread although it does not hold them",
         {"threads_per_row", "cluster_blocks", "access_bytes", "register_chunks", "rows_per_thread"},
         [=](const Config& c) { return c["rows_per_thread"] == 1 || RowLayout(c, bytes).held_cols >= cols; }},
        {"warp_max_first although registers do not hold the row",
         {"threads_per_row", "cluster_blocks", "access_bytes", "register_chunks", "warp_max_first"},
         [=](const Config& c) { return c["warp_max_first"] == 0 || RowLayout(c, bytes).held_cols >= cols; }},
    };
}

std::vector<Constraint> constraints(const View& view, const Device& device) {
    std::vector<Constraint> all = softmax::shared_constraints(device);
    const std::int64_t rows = view.rows;
    const std::int64_t bytes = view.element_bytes;
    const DeviceLimits limits = device.limits;
    all.push_back({"a block has twice the rows that there are",
                   {"threads", "threads_per_row", "rows_per_thread"},
                   [=](const Config& c) { return c["threads"] == 32 || rows_per_block(c) < 2 * rows; }});
    for (Constraint& constraint : width_constraints(view)) all.push_back(std::move(constraint));
    all.push_back({"a grid has no room for a block a tile",
                   {"threads", "threads_per_row", "rows_per_thread", "cluster_blocks", "waves"},
                   [=](const Config& c) { return c["waves"] > 0 || grid_has_room(rows, c); }});
    all.push_back({"hold_weights without elements in registers", {"register_chunks", "hold_weights"}, [](const Config& c) {
                       return c["register_chunks"] > 0 || c["hold_weights"] == 0;
                   }});
    all.push_back({"an SM has no room for as many threads", {"threads", "resident_blocks"}, [=](const Config& c) {
                       return c["threads"] * c["resident_blocks"] <= limits.threads_per_sm &&
                              c["resident_blocks"] <= limits.blocks_per_sm;
                   }});
    all.push_back({"a thread has too few registers for what it holds",
                   {"threads", "resident_blocks", "rows_per_thread", "register_chunks", "access_bytes", "hold_weights"},
                   [=](const Config& c) {
                       const std::int64_t most =
                           std::min(limits.registers_per_sm / (c["threads"] * c["resident_blocks"]), kMostRegisters);
                       return registers_of(c, bytes) <= most;
                   }});
    return all;
}

Config config_of(std::initializer_list<std::int64_t> values) {
    return config_with<ResolvedConfig>(values);
}

struct Widths {
    explicit Widths(const View& view)
        : access(std::min<std::int64_t>(view.align_x, kWidestAccessBytes)),
          accesses(softmax::ceil_div(view.cols * view.element_bytes, access)) {}
    std::int64_t access;
    std::int64_t accesses;  // accesses to a row
};

// The least power of two that is at least `value`, from 1 to `most`.
std::int64_t power_from(std::int64_t value, std::int64_t most) {
    std::int64_t power = 1;
    while (power < value && power < most) power *= 2;
    return power;
}

Config usual_config(const View& view) {
    const Widths widths(view);
    // If a warp has at least as many lanes as the row has accesses, each lane has one access. Otherwise a thread has up to four.
    const std::int64_t per_row =
        std::max(power_from(widths.accesses, 32), power_from(softmax::ceil_div(widths.accesses, 4), 1024));
    const std::int64_t threads = std::max<std::int64_t>(per_row, view.rows * per_row >= 128 ? 128 : 32);
    const std::int64_t held =
        std::min<std::int64_t>(power_from(softmax::ceil_div(widths.accesses, per_row), 16), threads == 1024 ? 4 : 8);
    const bool fits = held * per_row >= widths.accesses;
    const std::int64_t all_held = fits ? held : std::min<std::int64_t>(held, 2);
    const std::int64_t agrees = fits ? 1 : 0;
    Config config = config_of({threads, per_row, 1, 1, widths.access, all_held, fits ? 1 : 2, 1, agrees, agrees, 1, 0, 0, 0, 0});
    if (!grid_has_room(view.rows, config)) config.set("waves", 1);
    return config;
}

// The well-known series of kernels, in which each step changes one thing. Steps that are illegal for a problem's length are left
// out.
std::vector<NamedConfig> named_configs(const View& view) {
    const Widths widths(view);
    const std::int64_t element = view.element_bytes;
    const std::int64_t lanes = std::min<std::int64_t>(32, power_from(view.cols, 32));
    const std::int64_t of_warp = power_from(softmax::ceil_div(widths.accesses, 32), 16);
    const std::int64_t of_block = power_from(softmax::ceil_div(widths.accesses, 256), 8);
    //                                  thr   tpr  rpt cl access          held  unr on hw ag res ld st wav pdl
    return {
        {"naive", config_of({64, 1, 1, 1, element, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0})},
        {"online", config_of({64, 1, 1, 1, element, 0, 1, 1, 0, 0, 1, 0, 0, 0, 0})},
        {"warp_shuffle", config_of({128, lanes, 1, 1, element, 0, 1, 1, 0, 0, 1, 0, 0, 0, 0})},
        {"warp_shuffle_vectorised", config_of({128, 32, 1, 1, widths.access, 0, 1, 1, 0, 0, 1, 0, 0, 0, 0})},
        {"warp_registers", config_of({128, 32, 1, 1, widths.access, of_warp, 1, 1, 0, 0, 1, 0, 0, 0, 0})},
        {"warp_registers_agreed", config_of({128, 32, 1, 1, widths.access, of_warp, 1, 1, 1, 1, 1, 0, 0, 0, 0})},
        {"block_shared", config_of({256, 256, 1, 1, widths.access, 0, 1, 1, 0, 0, 1, 0, 0, 0, 0})},
        {"block_unroll4", config_of({256, 256, 1, 1, widths.access, 0, 4, 1, 0, 0, 1, 0, 0, 0, 0})},
        {"block_registers", config_of({256, 256, 1, 1, widths.access, of_block, 1, 1, 0, 0, 1, 0, 0, 0, 0})},
        {"block_registers_weights", config_of({256, 256, 1, 1, widths.access, of_block, 1, 1, 1, 0, 1, 0, 0, 0, 0})},
        {"cluster4_registers", config_of({256, 256, 1, 4, widths.access, power_from(softmax::ceil_div(widths.accesses, 1024), 8),
                                          1, 1, 0, 0, 1, 0, 0, 0, 0})},
    };
}

std::int64_t resident_blocks(const Config& c, std::int64_t element_bytes, const Device& device) {
    const std::int64_t by_threads = device.limits.threads_per_sm / c["threads"];
    const std::int64_t by_registers = device.limits.registers_per_sm / (c["threads"] * registers_of(c, element_bytes));
    return std::max<std::int64_t>(
        1, std::min({by_threads, std::max(by_registers, c["resident_blocks"]), std::int64_t{device.limits.blocks_per_sm}}));
}

std::int64_t clusters_of(const Config& c, const View& view, const Device& device) {
    return softmax::clusters_of(c, softmax::ceil_div(view.rows, rows_per_block(c)),
                                resident_blocks(c, view.element_bytes, device), device);
}

// The number of tiles that a block takes one after the other.
double rounds_of(std::int64_t rows, const Config& c, std::int64_t blocks) {
    const auto tiles = static_cast<double>(softmax::ceil_div(rows, rows_per_block(c)));
    return std::max(1.0, tiles * static_cast<double>(c["cluster_blocks"]) / static_cast<double>(blocks));
}

double predicted_us(const View& view, const Config& c, const Device& device) {
    const RowLayout layout(c, view.element_bytes);
    const auto held_share = std::min(1.0, static_cast<double>(layout.held_cols) / static_cast<double>(view.cols));
    const auto in_flight =
        static_cast<double>(std::max(c["register_chunks"] * c["rows_per_thread"], held_share < 1 ? c["unroll"] : 0));
    const bool across_warps = c["threads_per_row"] > 32;
    softmax::Traffic traffic;
    traffic.blocks = clusters_of(c, view, device) * c["cluster_blocks"];
    traffic.resident_blocks = resident_blocks(c, view.element_bytes, device);
    traffic.block_bytes = static_cast<double>(c["threads"] * c["access_bytes"]) * in_flight;
    traffic.reads = held_share + (1 - held_share) * (c["online"] == 1 ? 2 : 3);
    traffic.weights = c["hold_weights"] == 1 ? 2 - held_share : 2;
    const auto own = static_cast<double>(std::max<std::int64_t>(c["register_chunks"], 1) * layout.vec);  // elements of a thread
    traffic.instructions = 14 + 16.0 / static_cast<double>(layout.vec) + (c["hold_weights"] == 1 ? -4 * held_share : 0) +
                           (c["warp_max_first"] == 1 ? 0 : 70 / own);
    traffic.steps_us = (c["warp_max_first"] == 1 ? 0.15 : 0.3) + (across_warps ? 0.3 : 0) + (c["cluster_blocks"] > 1 ? 0.9 : 0);
    if (c["waves"] > 0) traffic.rounds = rounds_of(view.rows, c, traffic.blocks);
    traffic.starts_early = c["pdl"] == 1;
    return softmax::predict_us(view, traffic, device);
}

class SoftmaxRows final : public StructuredFamily {
  public:
    std::string_view name() const override { return "softmax/rows"; }
    std::string_view about() const override {
        return "part of a warp, a warp, a block or a cluster a row; the row in registers as far as it fits";
    }
    std::optional<std::string> refuses(const Problem&, const Device&) const override { return std::nullopt; }
    std::vector<Binding> facts(const Problem& problem) const override { return softmax::facts(problem); }
    LaunchPlan plan(const Problem& problem, const Config& config, const Device& device) const override;
    Predictor predictor(const Problem& problem, const Device& device) const override {
        return [view = View(problem), device](const Config& config) { return predicted_us(view, config, device); };
    }

  protected:
    std::vector<Parameter> parameters() const override { return ResolvedConfig::parameters(); }
    std::vector<Constraint> constraints(const Problem& problem, const Device& device) const override {
        return autotune::constraints(View(problem), device);
    }
    Config usual_config(const SearchSpace&, const Problem& problem, const Device&) const override {
        return autotune::usual_config(View(problem));
    }
    std::vector<NamedConfig> named_configs(const Problem& problem, const Device&) const override {
        return autotune::named_configs(View(problem));
    }
};

LaunchPlan SoftmaxRows::plan(const Problem& problem, const Config& config, const Device& device) const {
    const View view(problem);
    LaunchStep step = softmax::step_of(problem, config, clusters_of(config, view, device));
    step.entry = RowLayout(config, view.element_bytes).held_cols >= view.cols ? "" : "_long";
    return {.steps = {step}};
}

}  // namespace

const Family& family_softmax_rows() {
    static const Immortal<SoftmaxRows> family;
    return *family;
}

}  // namespace autotune
