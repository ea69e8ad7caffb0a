#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "kernel_templates/gemm/op/epilogue.h"
#include "kernel_templates/gemm/op/gemm_problem.h"
#include "kernel_templates/gemm/shared/device_maps.h"
#include "kernel_templates/gemm/shared/family_parts.h"
#include "kernel_templates/gemm/shared/hopper_rules.h"
#include "kernel_templates/gemm/shared/tile_shapes.h"
#include "kernel_templates/parameter_table.h"
#include "kernel_templates/registry.h"
#include "kernel_templates/structured_family.h"
#include "src/core/immortal.h"
#include "src/core/integer_math.h"

namespace autotune {
namespace {

using gemm::ceil_div;
using gemm::Gemm;
using gemm::i32;
using gemm::Scaling;
using std::int64_t;

// clang-format off
#define GEMM_WGMMA_FP8_PLAIN_PARAMETERS(ROW) \
    ROW(loads, 1, compile, "stages arrive by 0: cp.async of all threads, 1: TMA", 0, 1) \
    ROW(block_m, 1, compile, "rows of a tile", 64, 128, 256) \
    ROW(block_n, 1, compile, "columns of a tile", 32, 64, 96, 128, 160, 192, 256) \
    ROW(block_k, 1, compile, "depth of a stage", 64, 128) \
    ROW(consumer_warpgroups, 1, compile, "warpgroups that share a tile", 1, 2) \
    ROW(stages, 1, compile, "stages of shared memory", 3, 4, 5, 6) \
    ROW(device_maps, 0, compile, "who makes the tensor maps: 0: the host, 1: a kernel before this one", 0, 1) \
    ROW(persistent, 1, launch, "0: a block ends with its tile; 1: blocks stay and walk over tiles", 0, 1) \
    ROW(raster, 1, launch, "tiles in sequence go along 0: M, 1: N", 0, 1) \
    ROW(group, 1, launch, "tiles along that direction before the other advances", 1, 8)
// clang-format on

struct ResolvedConfig {
    AUTOTUNE_RESOLVED_CONFIG(GEMM_WGMMA_FP8_PLAIN_PARAMETERS)

    int64_t threads() const { return 128 * consumer_warpgroups; }
    int64_t bands() const { return block_m / (64 * consumer_warpgroups); }
    int64_t tiles_m(const Gemm& g) const { return ceil_div(g.m, block_m); }
    int64_t tiles_n(const Gemm& g) const { return ceil_div(g.n, block_n); }
    int64_t tiles(const Gemm& g) const { return tiles_m(g) * tiles_n(g) * g.batch; }
    // The registers for sums and, with promotion, for the products of one band.
    int64_t sums(const Gemm& g) const { return bands() * block_n / 2 + (g.promotes ? block_n / 2 : 0); }
    // Shared memory for alignment, stages, the columns' scales and biases of each warpgroup, and barriers.
    int64_t smem_bytes(const Gemm& g) const {
        const int64_t of_columns = (g.scaling == Scaling::row ? 1 : 0) + (g.has_bias ? 1 : 0);
        return 1024 + stages * (block_m + block_n) * block_k + of_columns * consumer_warpgroups * block_n * 4 + stages * 8;
    }
    // Blocks per SM at once, with about 60 registers in addition to the sums.
    int64_t resident(const Gemm& g, const Device& device) const {
        return gemm::blocks_per_sm(device.limits, smem_bytes(g), threads(), std::min<int64_t>(255, sums(g) + 60));
    }
};

constexpr auto rule = rules_by<ResolvedConfig>();

std::vector<Constraint> constraints(const Gemm& g, const Device& device) {
    std::vector<Constraint> all;
    all.push_back({"a warpgroup's rows are not 64 or 128", {"block_m", "consumer_warpgroups"}, rule([](const ResolvedConfig& s) {
                       return s.block_m % (64 * s.consumer_warpgroups) == 0 && s.bands() >= 1 && s.bands() <= 2;
                   })});
    all.push_back({"sums exceed a thread's registers",
                   {"block_m", "block_n", "consumer_warpgroups"},
                   rule([g](const ResolvedConfig& s) { return s.sums(g) <= 160; })});
    all.push_back(
        {"device_maps outside the one kernel that shows them: TMA loads, a 128x128x128 tile, 4 stages, persistent blocks",
         {"loads", "block_m", "block_n", "block_k", "stages", "device_maps", "persistent"},
         rule([](const ResolvedConfig& s) {
             return s.device_maps == 0 || (s.loads == 1 && s.block_m == 128 && s.block_n == 128 && s.block_k == 128 &&
                                           s.stages == 4 && s.persistent == 1);
         })});
    all.push_back({"stages exceed shared memory",
                   {"block_m", "block_n", "block_k", "consumer_warpgroups", "stages"},
                   rule([g, device](const ResolvedConfig& s) { return s.smem_bytes(g) <= device.limits.smem_per_block_bytes; })});
    all.push_back({"block_k is not 128 although products are promoted", {"block_k"}, rule([g](const ResolvedConfig& s) {
                       return !g.promotes || s.block_k == 128;
                   })});
    all.push_back({"a tile's columns would lie in three blocks of scales", {"block_n"}, rule([g](const ResolvedConfig& s) {
                       const int64_t first_at_most = gemm::kScaleBlock - std::gcd(gemm::kScaleBlock, s.block_n);
                       return g.scaling != Scaling::block || first_at_most + s.block_n <= 2 * gemm::kScaleBlock;
                   })});
    all.push_back({"a tile is at least twice as long or wide as C", {"block_m", "block_n"}, rule([g](const ResolvedConfig& s) {
                       return (s.block_m == 64 || s.block_m < 2 * g.m) && (s.block_n == 32 || s.block_n < 2 * g.n);
                   })});
    return all;
}

// The time of multiplications, loads and stores on one SM. They are added up, because they do not overlap. cp.async needs more
// instructions than TMA.
double predict(const Gemm& g, const ResolvedConfig& s, const Device& device) {
    const auto steps = static_cast<double>(ceil_div(g.k, s.block_k));
    const double mac = static_cast<double>(s.block_m * s.block_n * s.block_k);
    const double loads = static_cast<double>((s.block_m + s.block_n) * s.block_k) / (s.loads == 1 ? 64.0 : 40.0);
    const double step = std::max(mac / 4096.0, loads) + 200.0;
    const double end = 1500.0 + static_cast<double>(s.block_m * s.block_n) / 8.0;
    const auto at_once = static_cast<double>(s.resident(g, device) * device.identity.sm_count);
    const double rounds = std::ceil(static_cast<double>(s.tiles(g)) / at_once) * static_cast<double>(s.resident(g, device));
    const double bytes = static_cast<double>(((g.m + g.n) * g.k * g.in_bytes() + g.m * g.n * g.out_bytes()) * g.batch);
    const double start = s.device_maps != 0 ? 8.0 : 3.5;  // The value is a guess for two more launches and was not measured.
    return start + std::max(rounds * (steps * step + end) / device.clock_mhz, bytes / (device.memory_gb_per_s * 0.8 * 1e3));
}

class WgmmaFp8Plain final : public StructuredFamily {
  public:
    std::string_view name() const override { return "gemm/wgmma_fp8_plain"; }
    std::string_view about() const override {
        return "fp8 by wgmma, no warps set apart for loading: cp.async or TMA, sm_90a alone";
    }

    std::optional<std::string> refuses(const Problem& problem, const Device& device) const override {
        if (device.identity.cc() != 90) return "wgmma exists on compute capability 9.0 alone";
        if (auto reason = gemm::refuses_fp8_product(problem)) return reason;
        if (auto reason = gemm::refuses_maps(problem)) return reason;
        const Gemm g(problem);
        if (g.packs_any()) return "it copies operands whose rows start at multiples of 16 bytes; gemm/wgmma_fp8 packs others";
        const double tiles =
            static_cast<double>(ceil_div(g.m, 64)) * static_cast<double>(ceil_div(g.n, 32)) * static_cast<double>(g.batch);
        if (tiles > 1e9) return "C has more tiles than 32-bit numbers count";
        return std::nullopt;
    }
    int complexity_order() const override { return 50; }

    std::vector<Binding> facts(const Problem& problem) const override { return gemm::fp8_facts(problem); }

    LaunchPlan plan(const Problem& problem, const Config& config, const Device& device) const override {
        const Gemm g(problem);
        LaunchPlan plan;
        if (g.m == 0 || g.n == 0 || g.k == 0 || g.batch == 0) return plan;
        const auto s = resolve<ResolvedConfig>(config);
        const std::array<TypedMatrix, 3> o = gemm::matrices(problem);
        const int64_t tiles = s.tiles(g), at_once = s.resident(g, device) * device.identity.sm_count;
        LaunchStep step;
        step.grid = gemm::one_dimension(s.persistent != 0 ? std::min(tiles, at_once) : tiles);
        step.block = {narrow<std::uint32_t>(s.threads()), 1, 1};
        step.dynamic_smem_bytes = static_cast<std::size_t>(s.smem_bytes(g));
        step.arguments = {gemm::tile_map(o[0], gemm::kA, {s.block_k, s.block_m}),
                          gemm::tile_map(o[1], gemm::kB, {s.block_k, s.block_n})};
        // leaves out the last argument, the workspace, because this family has none
        const std::vector<Argument> common = gemm::arguments(problem);
        step.arguments.insert(step.arguments.end(), common.begin(), common.end() - 1);
        for (const int64_t value : {s.tiles_m(g), s.tiles_n(g), s.group, s.raster}) step.arguments.push_back(i32(value));
        gemm::add_scales_and_epilogue(step.arguments, problem);
        plan.steps.push_back(std::move(step));
        if (s.device_maps != 0) gemm::make_maps_on_device(plan);
        return plan;
    }

    Predictor predictor(const Problem& problem, const Device& device) const override {
        return [g = Gemm(problem), device](const Config& config) { return predict(g, resolve<ResolvedConfig>(config), device); };
    }

  protected:
    std::vector<Parameter> parameters() const override { return ResolvedConfig::parameters(); }
    std::vector<Constraint> constraints(const Problem& problem, const Device& device) const override {
        return autotune::constraints(Gemm(problem), device);
    }
    Config usual_config(const SearchSpace& rules, const Problem& problem, const Device& device) const override {
        const Gemm g(problem);
        gemm::DefaultChoice choice(rules);
        for (const int64_t block_m : {128, 64}) {
            for (const int64_t block_n : {128, 64, 32}) {
                const ResolvedConfig s = tile(1, block_m, block_n, 0, g);
                choice.offer(config_from(s), predict(g, s, device));
            }
        }
        return choice.choose();
    }
    std::vector<NamedConfig> named_configs(const Problem& problem, const Device&) const override {
        const Gemm g(problem);
        ResolvedConfig with_device_maps = tile(1, 128, 128, 1, g);
        with_device_maps.device_maps = 1;
        return {{"plain", config_from(tile(0, 128, 128, 0, g))},
                {"persistent", config_from(tile(0, 128, 128, 1, g))},
                {"tma", config_from(tile(1, 128, 128, 0, g))},
                {"tma_persistent", config_from(tile(1, 128, 128, 1, g))},
                {"device_descriptor_persistent", config_from(with_device_maps)}};
    }

  private:
    // A tile with four stages.
    static ResolvedConfig tile(int64_t loads, int64_t block_m, int64_t block_n, int64_t persistent, const Gemm& g) {
        return {.loads = loads,
                .block_m = block_m,
                .block_n = block_n,
                .block_k = 128,
                .consumer_warpgroups = block_m / 64,
                .stages = 4,
                .persistent = persistent,
                .raster = 0,
                .group = g.m > block_m * 8 ? 8 : 1};
    }
};

}  // namespace

const Family& family_gemm_wgmma_fp8_plain() {
    static const Immortal<WgmmaFp8Plain> family;
    return *family;
}

}  // namespace autotune
