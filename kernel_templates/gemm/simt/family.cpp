#include "src/core/family.h"

#include <algorithm>
#include <array>

#include "kernel_templates/gemm/gemm_problem.h"

namespace autotune {
namespace {

using gemm::View;

// A template without dynamic shared memory: 48 KiB is what every GPU gives without asking.
constexpr std::int64_t kStaticSmemBytes = 48 * 1024;
constexpr std::int64_t kMostBlocks = 2147483647;
// Registers beside the sums: a row and a column of operands, addresses, loop counters.
constexpr std::int64_t kOtherRegisters = 48;

std::int64_t threads_of(const Config& c) {
    return c["block_m"] / c["thread_m"] * (c["block_n"] / c["thread_n"]);
}

std::int64_t smem_bytes(const Config& c, std::int64_t element_bytes) {
    return c["block_k"] * (c["block_m"] + c["block_n"] + 2 * c["smem_pad"]) * element_bytes;
}

std::int64_t tiles(std::int64_t extent, std::int64_t tile) {
    return (extent + tile - 1) / tile;
}

std::vector<Parameter> parameters() {
    const auto compile = ParameterKind::compile;
    return {{"smem", {0, 1}, compile, "tiles go through shared memory"},
            {"block_m", {8, 16, 32, 64, 128}, compile, "rows of C a block"},
            {"block_n", {16, 32, 64, 128}, compile, "columns of C a block"},
            {"thread_m", {1, 4, 8}, compile, "rows of C a thread"},
            {"thread_n", {1, 4, 8}, compile, "columns of C a thread"},
            {"block_k", {8, 16, 32}, compile, "depth of a tile"},
            {"vec", {1, 2, 4, 8}, compile, "elements of one global access, as far as alignment allows"},
            {"smem_pad", {0, 8}, compile, "unused elements after each row of a tile, against bank conflicts"}};
}

std::vector<Constraint> constraints(const View& view, const Device& device) {
    const auto size = static_cast<std::int64_t>(size_bytes(view.in));
    const std::int64_t widest = std::max(gemm::access_width(view.a, 8), gemm::access_width(view.b, 8));
    const std::int64_t registers = device.limits.registers_per_block;
    const std::int64_t most_threads = std::min(device.limits.threads_per_block, 1024);
    return {
        {"without shared memory a thread computes one element",
         {"smem", "thread_m", "thread_n"},
         [](const Config& c) { return c["smem"] == 1 || (c["thread_m"] == 1 && c["thread_n"] == 1); }},
        {"block_k, vec and smem_pad mean nothing without shared memory",
         {"smem", "block_k", "vec", "smem_pad"},
         [](const Config& c) { return c["smem"] == 1 || (c["block_k"] == 8 && c["vec"] == 1 && c["smem_pad"] == 0); }},
        {"the block needs whole warps and at most as many threads as the GPU allows",
         {"block_m", "block_n", "thread_m", "thread_n"},
         [=](const Config& c) { return threads_of(c) % 32 == 0 && threads_of(c) >= 32 && threads_of(c) <= most_threads; }},
        {"the sums exceed the register file",
         {"block_m", "block_n", "thread_m", "thread_n"},
         [=](const Config& c) { return threads_of(c) * (c["thread_m"] * c["thread_n"] + kOtherRegisters) <= registers; }},
        {"vec is wider than the alignment of A and B", {"vec"}, [=](const Config& c) { return c["vec"] <= widest; }},
        {"tiles exceed static shared memory",
         {"block_m", "block_n", "block_k", "smem_pad"},
         [=](const Config& c) { return smem_bytes(c, size) <= kStaticSmemBytes; }},
        {"some threads would load nothing",
         {"smem", "block_m", "block_n", "thread_m", "thread_n", "block_k", "vec"},
         [](const Config& c) {
             return c["smem"] == 0 ||
                    std::min(c["block_m"], c["block_n"]) * c["block_k"] >= threads_of(c) * std::min<std::int64_t>(c["vec"], 2);
         }},
    };
}

// In declared order of parameters.
Config config_of(const std::array<std::int64_t, 8>& values) {
    Config config;
    std::size_t i = 0;
    for (const Parameter& parameter : parameters()) config.set(parameter.name, values.at(i++));
    return config;
}

std::vector<NamedConfig> named_configs() {
    //                         smem  bm   bn  tm tn  bk vec pad
    return {{"naive", config_of({0, 16, 16, 1, 1, 8, 1, 0})},
            {"sliced_k", config_of({1, 32, 32, 1, 1, 32, 1, 0})},
            {"t_4x4_sliced_k_f16x4", config_of({1, 64, 64, 4, 4, 16, 4, 0})},
            {"t_8x8_sliced_k_f16x4", config_of({1, 128, 128, 8, 8, 8, 4, 0})},
            {"t_8x8_sliced_k_f16x4_offset", config_of({1, 128, 128, 8, 8, 8, 4, 8})},
            {"t_8x8_sliced_k_k16_f16x8_offset", config_of({1, 128, 128, 8, 8, 16, 8, 8})}};
}

class GemmSimt final : public Family {
  public:
    std::string_view name() const override { return "gemm/simt"; }
    std::string_view about() const override {
        return "CUDA cores: naive, and tiles through shared memory; any layout and alignment";
    }
    std::optional<std::string> refuses(const Problem& problem, const Device& device) const override;
    SearchSpace space(const Problem& problem, const Device& device) const override;
    std::vector<Binding> facts(const Problem& problem) const override { return gemm::facts(problem); }
    LaunchPlan plan(const Problem& problem, const Config& config, const Device& device) const override;
    std::optional<double> predict_us(const Problem& problem, const Config& config, const Device& device) const override;
};

std::optional<std::string> GemmSimt::refuses(const Problem& problem, const Device&) const {
    const View view(problem);
    const bool is_half = view.in == DType::f16 || view.in == DType::bf16;
    if (!is_half || view.in != view.out) return "gemm/simt computes in f16 or bf16, with C of the same type";
    if (view.acc == DType::f16 && view.in != DType::f16) return "gemm/simt accumulates in f16 only for f16 operands";
    return std::nullopt;
}

SearchSpace GemmSimt::space(const Problem& problem, const Device& device) const {
    const View view(problem);
    SearchSpace space;
    space.version = space_version();
    space.parameters = parameters();
    space.constraints = constraints(view, device);
    const std::int64_t widest = std::max(gemm::access_width(view.a, 8), gemm::access_width(view.b, 8));
    space.default_config = config_of({1, 64, 64, 4, 4, 16, std::min<std::int64_t>(4, widest), 8});
    // A variant that is named after its wide accesses does not exist for operands that forbid them.
    for (const NamedConfig& named : named_configs()) {
        if (space.contains(named.config)) space.named.push_back(named);
    }
    return space;
}

LaunchPlan GemmSimt::plan(const Problem& problem, const Config& config, const Device&) const {
    const View view(problem);
    LaunchPlan plan;
    const std::int64_t blocks = tiles(view.m, config["block_m"]) * tiles(view.n, config["block_n"]) * view.batch;
    if (blocks == 0) return plan;
    LaunchStep step;
    step.grid.x = static_cast<std::uint32_t>(std::min(blocks, kMostBlocks));  // the kernel loops over the rest
    step.block.x = static_cast<std::uint32_t>(threads_of(config));
    step.arguments = gemm::arguments(problem);
    plan.steps.push_back(step);
    return plan;
}

// Waves of blocks, each limited by multiply-adds (one a lane and clock, less what moving operands into registers takes) or by
// global accesses. For ranking only.
std::optional<double> GemmSimt::predict_us(const Problem& problem, const Config& config, const Device& device) const {
    const View view(problem);
    const auto sm_count = static_cast<double>(device.identity.sm_count);
    const std::int64_t blocks = tiles(view.m, config["block_m"]) * tiles(view.n, config["block_n"]) * view.batch;
    const auto rounds = static_cast<double>(tiles(blocks, static_cast<std::int64_t>(sm_count)));
    const auto sums = static_cast<double>(config["thread_m"] * config["thread_n"]);
    const auto moved = static_cast<double>(config["thread_m"] + config["thread_n"]);
    const bool is_tiled = config["smem"] == 1;
    const double instructions = sums + (is_tiled ? 2 * moved : 8 * moved);
    const double clocks = rounds * static_cast<double>(threads_of(config)) * static_cast<double>(view.k) * instructions / 128;
    const double element_bytes = static_cast<double>(size_bytes(view.in));
    const double perimeter = static_cast<double>(config["block_m"] + config["block_n"]);
    const double traffic =
        static_cast<double>(blocks) * perimeter * static_cast<double>(view.k) * element_bytes / (is_tiled ? 1 : 0.25);
    const double l2_bytes_per_us = sm_count * 48 * device.clock_mhz;
    return std::max(clocks / device.clock_mhz, traffic / l2_bytes_per_us) + 2;
}

}  // namespace

const Family& family_gemm_simt() {
    static const GemmSimt family;
    return family;
}

}  // namespace autotune
