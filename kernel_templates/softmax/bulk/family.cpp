#include <algorithm>

#include "kernel_templates/parameter_table.h"
#include "kernel_templates/softmax/op/softmax_problem.h"
#include "kernel_templates/structured_family.h"
#include "src/core/immortal.h"
#include "src/core/integer_math.h"

namespace autotune {
namespace {

using softmax::View;

constexpr std::int64_t kAccessBytes = 16;
constexpr std::int64_t kOtherSmemBytes = 3072;  // barriers, parts of rows, and what the hardware reserves for every block
constexpr std::int64_t kOtherRegisters = 40, kOtherRegistersDrained = 32;
constexpr std::int64_t kMostRegisters = 255;
constexpr int kLeastCc = 90;

// clang-format off
#define SOFTMAX_BULK_PARAMETERS(ROW) \
    ROW(threads, 1, compile, "threads of a block", 64, 128, 256, 512, 1024) \
    ROW(threads_per_row, 1, compile, "threads of a block that share a row", 8, 16, 32, 64, 128, 256, 512, 1024) \
    SOFTMAX_CLUSTER_PARAMETER(ROW) \
    ROW(register_chunks, 1, compile, "accesses of a row whose exponentials a thread keeps in registers", 0, 1, 2, 4, 8, 16) \
    ROW(copy_to_registers, 1, compile, "1: a row goes to registers at once, and its stage is filled again meanwhile", 0, 1) \
    ROW(resident_blocks, 1, compile, "blocks of an SM that registers are shared out for", 1, 2, 3, 4, 6, 8) \
    ROW(bulk_store, 1, compile, "0 threads store answers, 1 they leave as bulk copies of a row", 0, 1) \
    SOFTMAX_LOAD_HINT_PARAMETER(ROW) \
    SOFTMAX_STORE_HINT_PARAMETER(ROW) \
    ROW(stages, 1, launch, "tiles of rows in shared memory, asked for ahead", 1, 2, 3, 4, 6) \
    ROW(waves, 1, launch, "grid in fillings of the GPU; 0: one block a tile of rows", 0, 1, 2, 4, 8, 16) \
    SOFTMAX_PDL_PARAMETER(ROW)
// clang-format on

struct ResolvedConfig {
    AUTOTUNE_RESOLVED_CONFIG(SOFTMAX_BULK_PARAMETERS)
};

std::int64_t row_accesses(const View& view) {
    return softmax::ceil_div(view.cols * view.element_bytes, kAccessBytes);
}

// Shared memory for one block's part of a row.
std::int64_t slot_bytes(const Config& c, std::int64_t accesses) {
    return softmax::ceil_div(accesses, c["cluster_blocks"]) * kAccessBytes;
}

std::int64_t rows_per_tile(const Config& c) {
    return c["threads"] / c["threads_per_row"];
}

std::int64_t smem_bytes(const Config& c, std::int64_t accesses) {
    return c["stages"] * rows_per_tile(c) * slot_bytes(c, accesses);
}

std::int64_t registers_of(const Config& c, std::int64_t vec) {
    return (c["copy_to_registers"] == 1 ? kOtherRegistersDrained : kOtherRegisters) + c["register_chunks"] * vec;
}

std::vector<Constraint> constraints(const View& view, const Device& device) {
    std::vector<Constraint> all = softmax::shared_constraints(device);
    const std::int64_t accesses = row_accesses(view);
    const std::int64_t rows = view.rows;
    const std::int64_t vec = kAccessBytes / view.element_bytes;
    const DeviceLimits limits = device.limits;
    all.push_back({"a block has twice the rows that there are", {"threads", "threads_per_row"}, [=](const Config& c) {
                       return c["threads"] == 64 || rows_per_tile(c) < 2 * rows;
                   }});
    all.push_back({"threads, or what they hold, lie behind the end of the row",
                   {"threads_per_row", "cluster_blocks", "register_chunks"},
                   [=](const Config& c) {
                       const std::int64_t share = softmax::ceil_div(accesses, c["cluster_blocks"]);
                       const std::int64_t whole = std::max<std::int64_t>(c["register_chunks"] / 2, 1);
                       const bool is_needed = c["threads_per_row"] == 8 || c["threads_per_row"] < 2 * share;
                       return is_needed && (c["register_chunks"] == 0 || c["threads_per_row"] * whole < 2 * share) &&
                              c["cluster_blocks"] <= accesses;
                   }});
    all.push_back({"the stages exceed shared memory",
                   {"threads", "threads_per_row", "cluster_blocks", "stages"},
                   [=](const Config& c) { return smem_bytes(c, accesses) + kOtherSmemBytes <= limits.smem_per_block_bytes; }});
    all.push_back({"an SM has no room for as many blocks",
                   {"threads", "threads_per_row", "cluster_blocks", "stages", "resident_blocks"},
                   [=](const Config& c) {
                       return c["threads"] * c["resident_blocks"] <= limits.threads_per_sm &&
                              c["resident_blocks"] * (smem_bytes(c, accesses) + kOtherSmemBytes) <= limits.smem_per_sm_bytes;
                   }});
    all.push_back({"a thread has too few registers for what it holds",
                   {"threads", "resident_blocks", "register_chunks", "copy_to_registers"},
                   [=](const Config& c) {
                       const std::int64_t most =
                           std::min(limits.registers_per_sm / (c["threads"] * c["resident_blocks"]), kMostRegisters);
                       return registers_of(c, vec) <= most;
                   }});
    all.push_back({"copy_to_registers with bulk_store, or although registers do not hold the whole row",
                   {"threads_per_row", "cluster_blocks", "register_chunks", "copy_to_registers", "bulk_store"},
                   [=](const Config& c) {
                       const std::int64_t share = softmax::ceil_div(accesses, c["cluster_blocks"]);
                       return c["copy_to_registers"] == 0 ||
                              (c["register_chunks"] * c["threads_per_row"] >= share && c["bulk_store"] == 0);
                   }});
    all.push_back({"more than one stage in a block with a single tile", {"stages", "waves"}, [](const Config& c) {
                       return c["waves"] > 0 || c["stages"] == 1;
                   }});
    const std::int64_t sm_count = device.identity.sm_count;
    all.push_back({"blocks of so many fillings have less than two tiles each",
                   {"threads", "threads_per_row", "cluster_blocks", "waves"},
                   [=](const Config& c) {
                       const std::int64_t blocks = softmax::ceil_div(rows, rows_per_tile(c)) * c["cluster_blocks"];
                       return c["waves"] <= 1 || blocks >= 2 * c["waves"] * sm_count;
                   }});
    return all;
}

Config config_of(std::initializer_list<std::int64_t> values) {
    return config_with<ResolvedConfig>(values);
}

std::int64_t power_up_to(std::int64_t value, std::int64_t least, std::int64_t most) {
    std::int64_t power = least;
    while (power * 2 <= value && power < most) power *= 2;
    return power;
}

Config usual_config(const View& view) {
    const std::int64_t accesses = row_accesses(view);
    constexpr std::int64_t kRowOfBlock = 128 * 1024 / kAccessBytes;  // longer rows use a cluster
    std::int64_t cluster = 1;
    while (softmax::ceil_div(accesses, cluster) > kRowOfBlock && cluster < 8) cluster *= 2;
    constexpr std::int64_t kThreads = 256, kAccessesOfThread = 16;  // with these a tile has 64 KiB, and three blocks run on an SM
    std::int64_t per_row = power_up_to(softmax::ceil_div(accesses, cluster) / kAccessesOfThread, 8, kThreads);
    if (cluster > 1) per_row = kThreads;
    std::int64_t threads = kThreads;
    while (threads > std::max<std::int64_t>(64, per_row) && threads / per_row >= 2 * view.rows) threads /= 2;
    return config_of({threads, per_row, cluster, 0, 0, 1, 0, 0, 0, 1, 0, 0});
}

// Eight accesses per thread; a cluster shares rows of more than 64 KiB. Blocks of a persistent grid end at different times, so
// the grid has several waves. A cluster would lose more time by refilling its rings than that gains.
Config drained_config(const View& view, const Device& device) {
    constexpr std::int64_t kHeld = 8, kRowOfBlock = 64 * 1024 / kAccessBytes, kMostWaves = 8;
    const std::int64_t accesses = row_accesses(view);
    std::int64_t cluster = 1;
    while (softmax::ceil_div(accesses, cluster) > kRowOfBlock && cluster < 8) cluster *= 2;
    const std::int64_t share = softmax::ceil_div(accesses, cluster);
    std::int64_t per_row = 8;
    while (per_row * kHeld < share && per_row < 1024) per_row *= 2;
    const std::int64_t threads = cluster > 1 ? per_row : std::max<std::int64_t>(per_row, 128);
    const std::int64_t blocks = softmax::ceil_div(view.rows, threads / per_row) * cluster;
    std::int64_t waves = cluster > 1 ? 1 : kMostWaves;
    while (waves > 0 && blocks < 2 * waves * device.identity.sm_count) waves /= 2;
    const std::int64_t stages = waves == 0 ? 1 : cluster > 1 ? 3 : 2;
    return config_of({threads, per_row, cluster, kHeld, 1, 1, 0, 0, 0, stages, waves, 0});
}

std::vector<NamedConfig> named_configs(const View& view, const Device& device) {
    Config rings = usual_config(view);
    rings.set("stages", 2);
    rings.set("waves", 1);
    Config stored = rings;
    stored.set("bulk_store", 1);
    Config clusters = usual_config(view);
    clusters.set("cluster_blocks", 4);
    clusters.set("threads", 256);
    clusters.set("threads_per_row", 256);
    return {{"bulk", usual_config(view)},
            {"bulk_stage2", rings},
            {"bulk_stage2_store", stored},
            {"bulk_cluster4", clusters},
            {"bulk_drained", drained_config(view, device)}};
}

std::int64_t resident_blocks(const Config& c, const View& view, const Device& device) {
    const std::int64_t by_threads = device.limits.threads_per_sm / c["threads"];
    const std::int64_t by_smem = device.limits.smem_per_sm_bytes / (smem_bytes(c, row_accesses(view)) + kOtherSmemBytes);
    const std::int64_t registers = registers_of(c, kAccessBytes / view.element_bytes);
    const std::int64_t by_registers = device.limits.registers_per_sm / (c["threads"] * registers);
    return std::max<std::int64_t>(1, std::min({by_threads, by_smem, by_registers, std::int64_t{device.limits.blocks_per_sm}}));
}

std::int64_t clusters_of(const Config& c, const View& view, const Device& device) {
    return softmax::clusters_of(c, softmax::ceil_div(view.rows, rows_per_tile(c)), resident_blocks(c, view, device), device);
}

double predicted_us(const View& view, const Config& c, const Device& device) {
    const auto share = static_cast<double>(softmax::ceil_div(row_accesses(view), c["cluster_blocks"]));
    const double held_share = std::min(1.0, static_cast<double>(c["register_chunks"] * c["threads_per_row"]) / share);
    softmax::Traffic traffic;
    traffic.blocks = clusters_of(c, view, device) * c["cluster_blocks"];
    traffic.resident_blocks = resident_blocks(c, view, device);
    traffic.block_bytes = static_cast<double>(smem_bytes(c, row_accesses(view)));
    traffic.weights = 2 - held_share;
    traffic.instructions = 18 - 5 * held_share;
    // The whole tile must arrive before its first element is used.
    traffic.steps_us = 1.2 + (c["threads_per_row"] > 32 ? 0.3 : 0) + (c["cluster_blocks"] > 1 ? 0.9 : 0);
    // A ring whose rows are copied to registers loads ahead, so its rounds are not counted. Blocks of a persistent grid have
    // equal numbers of rows but end at different times.
    const auto tiles = static_cast<double>(softmax::ceil_div(view.rows, rows_per_tile(c)) * c["cluster_blocks"]);
    if (c["waves"] > 0 && c["copy_to_registers"] == 0)
        traffic.rounds = std::max(1.0, tiles / static_cast<double>(traffic.blocks));
    if (c["waves"] > 0) traffic.imbalance = 0.05 / static_cast<double>(c["waves"]);
    traffic.starts_early = c["pdl"] == 1;
    return softmax::predict_us(view, traffic, device);
}

class SoftmaxBulk final : public StructuredFamily {
  public:
    std::string_view name() const override { return "softmax/bulk"; }
    std::string_view about() const override {
        return "bulk copies through shared memory, rows asked for ahead; a block or a cluster for one row or several";
    }
    int complexity_order() const override { return 10; }
    std::optional<std::string> refuses(const Problem& problem, const Device& device) const override;
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
    Config usual_config(const SearchSpace& space, const Problem& problem, const Device& device) const override {
        const View view(problem);
        const Config drained = drained_config(view, device);
        return space.contains(drained) ? drained : autotune::usual_config(view);
    }
    std::vector<NamedConfig> named_configs(const Problem& problem, const Device& device) const override {
        return autotune::named_configs(View(problem), device);
    }
};

std::optional<std::string> SoftmaxBulk::refuses(const Problem& problem, const Device& device) const {
    const View view(problem);
    if (device.identity.cc() < kLeastCc) return "softmax/bulk needs bulk copies, which GPUs have from sm_90 on";
    if (std::min(view.align_x, view.align_y) < kAccessBytes)
        return "softmax/bulk copies units of 16 bytes; rows must be aligned to that, and as long";
    if (!rules(problem, device).contains(autotune::usual_config(view)))
        return "softmax/bulk keeps a row in the shared memory of a cluster of eight blocks; this one is too long";
    return std::nullopt;
}

LaunchPlan SoftmaxBulk::plan(const Problem& problem, const Config& config, const Device& device) const {
    const View view(problem);
    const std::int64_t accesses = row_accesses(view);
    LaunchStep step = softmax::step_of(problem, config, clusters_of(config, view, device));
    step.dynamic_smem_bytes = static_cast<std::size_t>(smem_bytes(config, accesses));
    step.arguments.push_back(I32Arg{narrow<std::int32_t>(config["stages"])});
    step.arguments.push_back(I32Arg{narrow<std::int32_t>(slot_bytes(config, accesses))});
    return {.steps = {step}};
}

}  // namespace

const Family& family_softmax_bulk() {
    static const Immortal<SoftmaxBulk> family;
    return *family;
}

}  // namespace autotune
