#include <algorithm>
#include <array>
#include <cmath>

#include "kernel_templates/gemm/op/epilogue.h"
#include "kernel_templates/gemm/op/gemm_problem.h"
#include "kernel_templates/gemm/shared/family_parts.h"
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
using std::int64_t;

// clang-format off
#define GEMM_MMA_FP8_PARAMETERS(ROW) \
    ROW(block_m, 1, compile, "rows of a tile", 16, 32, 64, 128) \
    ROW(block_n, 1, compile, "columns of a tile", 32, 64, 128, 256) \
    ROW(block_k, 1, compile, "depth of a stage", 64, 128) \
    ROW(warps_m, 1, compile, "warps along M", 1, 2, 4) \
    ROW(warps_n, 1, compile, "warps along N", 1, 2, 4) \
    ROW(stages, 1, compile, "stages of shared memory", 2, 3, 4, 5) \
    ROW(raster, 1, launch, "tiles in sequence go along 0: M, 1: N", 0, 1) \
    ROW(group, 1, launch, "tiles along that direction before the other advances", 1, 8)
// clang-format on

struct ResolvedConfig {
    AUTOTUNE_RESOLVED_CONFIG(GEMM_MMA_FP8_PARAMETERS)

    int64_t threads() const { return 32 * warps_m * warps_n; }
    int64_t tiles_m(const Gemm& g) const { return ceil_div(g.m, block_m); }
    int64_t tiles_n(const Gemm& g) const { return ceil_div(g.n, block_n); }
    int64_t tiles(const Gemm& g) const { return tiles_m(g) * tiles_n(g) * g.batch; }
    int64_t smem_bytes() const { return stages * (block_m + block_n) * block_k; }
    // Registers for a thread's sums (twice with promotion) and for the fragments of one step of 32 k.
    int64_t registers(const Gemm& g) const {
        const int64_t sums = block_m * block_n / threads();
        return sums * (g.promotes ? 2 : 1) + block_m / warps_m / 4 + block_n / warps_n / 4 + 50;
    }
    int64_t resident(const Gemm& g, const Device& device) const {
        return gemm::blocks_per_sm(device.limits, smem_bytes(), threads(), std::min<int64_t>(255, registers(g)));
    }
};

constexpr auto rule = rules_by<ResolvedConfig>();

std::vector<Constraint> constraints(const Gemm& g, const Device& device) {
    std::vector<Constraint> all;
    all.push_back(
        {"a warp's part is not whole multiplications of 16 x 16",
         {"block_m", "block_n", "warps_m", "warps_n"},
         rule([](const ResolvedConfig& s) { return s.block_m % (16 * s.warps_m) == 0 && s.block_n % (16 * s.warps_n) == 0; })});
    all.push_back({"a block has fewer than 64 or more than 256 threads",
                   {"warps_m", "warps_n"},
                   rule([](const ResolvedConfig& s) { return s.threads() >= 64 && s.threads() <= 256; })});
    all.push_back({"sums and fragments exceed a thread's registers",
                   {"block_m", "block_n", "warps_m", "warps_n"},
                   rule([g](const ResolvedConfig& s) { return s.registers(g) <= 190; })});
    all.push_back({"stages exceed shared memory",
                   {"block_m", "block_n", "block_k", "stages"},
                   rule([device](const ResolvedConfig& s) { return s.smem_bytes() <= device.limits.smem_per_block_bytes; })});
    all.push_back({"block_k is not 128 although products are promoted", {"block_k"}, rule([g](const ResolvedConfig& s) {
                       return !g.promotes || s.block_k == 128;
                   })});
    all.push_back({"a tile is at least twice as long or wide as C", {"block_m", "block_n"}, rule([g](const ResolvedConfig& s) {
                       return (s.block_m == 16 || s.block_m < 2 * g.m) && (s.block_n == 32 || s.block_n < 2 * g.n);
                   })});
    return all;
}

// Counts 1024 multiplications of 32 x 16 x 8 per SM and clock (sm_89), copies, and waves of blocks.
double predict(const Gemm& g, const ResolvedConfig& s, const Device& device) {
    const auto steps = static_cast<double>(ceil_div(g.k, s.block_k));
    const double mac = static_cast<double>(s.block_m * s.block_n * s.block_k);
    const double narrow = g.packs_any() ? 4.0 : 1.0;
    const double copies = narrow * static_cast<double>((s.block_m + s.block_n) * s.block_k) / 40.0;
    const double fragments =
        mac * (1.0 / static_cast<double>(s.block_m / s.warps_m) + 1.0 / static_cast<double>(s.block_n / s.warps_n)) / 128.0;
    const double resident = static_cast<double>(s.resident(g, device));
    const double step = std::max({mac / 1024.0, copies, fragments}) + 250.0 / resident;
    const double end = 800.0 + static_cast<double>(s.block_m * s.block_n) / 8.0;
    const double rounds = std::ceil(static_cast<double>(s.tiles(g)) / (resident * device.identity.sm_count)) * resident;
    const double bytes = static_cast<double>(((g.m + g.n) * g.k * g.in_bytes() + g.m * g.n * g.out_bytes()) * g.batch);
    return 3.5 +
           std::max(rounds * (steps * step + end / resident) / device.clock_mhz, bytes / (device.memory_gb_per_s * 0.8 * 1e3));
}

struct Tile {
    const char* name;
    int64_t block_m, block_n, warps_m, warps_n;
};
constexpr std::array<Tile, 6> kTiles = {{{"mma_fp8_128x128", 128, 128, 2, 4},
                                         {"mma_fp8_64x128", 64, 128, 2, 4},
                                         {"mma_fp8_128x64", 128, 64, 4, 2},
                                         {"mma_fp8_64x64", 64, 64, 2, 2},
                                         {"mma_fp8_32x64", 32, 64, 1, 4},
                                         {"mma_fp8_16x64", 16, 64, 1, 2}}};

class MmaFp8 final : public StructuredFamily {
  public:
    std::string_view name() const override { return "gemm/mma_fp8"; }
    std::string_view about() const override { return "fp8 by mma.sync m16n8k32 fed by cp.async, any alignment, sm_89 and later"; }

    std::optional<std::string> refuses(const Problem& problem, const Device& device) const override {
        if (device.identity.cc() < 89) return "tensor cores multiply fp8 from compute capability 8.9 on";
        if (auto reason = gemm::refuses_fp8_product(problem)) return reason;
        const Gemm g(problem);
        const double tiles =
            static_cast<double>(ceil_div(g.m, 16)) * static_cast<double>(ceil_div(g.n, 32)) * static_cast<double>(g.batch);
        if (tiles > 1e9) return "C has more tiles than 32-bit numbers count";
        return std::nullopt;
    }
    int complexity_order() const override { return 45; }

    std::vector<Binding> facts(const Problem& problem) const override { return gemm::fp8_facts(problem); }

    LaunchPlan plan(const Problem& problem, const Config& config, const Device&) const override {
        const Gemm g(problem);
        LaunchPlan plan;
        if (g.m == 0 || g.n == 0 || g.k == 0 || g.batch == 0) return plan;
        const auto s = resolve<ResolvedConfig>(config);
        LaunchStep step;
        step.grid = gemm::one_dimension(s.tiles(g));
        step.block = {narrow<std::uint32_t>(s.threads()), 1, 1};
        step.dynamic_smem_bytes = static_cast<std::size_t>(s.smem_bytes());
        // leaves out the last argument, the workspace, because this family has none
        const std::vector<Argument> common = gemm::arguments(problem);
        step.arguments.assign(common.begin(), common.end() - 1);
        for (const int64_t value : {s.tiles_m(g), s.tiles_n(g), s.group, s.raster}) step.arguments.push_back(i32(value));
        gemm::add_scales_and_epilogue(step.arguments, problem);
        plan.steps.push_back(std::move(step));
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
        for (const Tile& tile : kTiles) {
            const ResolvedConfig s = with_tile(tile, g);
            choice.offer(config_from(s), predict(g, s, device));
        }
        return choice.choose();
    }
    std::vector<NamedConfig> named_configs(const Problem& problem, const Device&) const override {
        std::vector<NamedConfig> all;
        for (const Tile& tile : kTiles) all.push_back({tile.name, config_from(with_tile(tile, Gemm(problem)))});
        return all;
    }

  private:
    static ResolvedConfig with_tile(const Tile& tile, const Gemm& g) {
        return {.block_m = tile.block_m,
                .block_n = tile.block_n,
                .block_k = 128,
                .warps_m = tile.warps_m,
                .warps_n = tile.warps_n,
                .stages = 3,
                .raster = 0,
                .group = g.m > tile.block_m * 8 ? 8 : 1};
    }
};

}  // namespace

const Family& family_gemm_mma_fp8() {
    static const Immortal<MmaFp8> family;
    return *family;
}

}  // namespace autotune
