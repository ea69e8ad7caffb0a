#include <array>

#include "kernel_templates/gemm/op/gemm_problem.h"
#include "kernel_templates/gemm/shared/hopper_rules.h"
#include "kernel_templates/gemm/wgmma/defaults.h"
#include "kernel_templates/gemm/wgmma/launch.h"
#include "kernel_templates/gemm/wgmma/relaunch.h"
#include "kernel_templates/gemm/wgmma/rules.h"
#include "kernel_templates/registry.h"
#include "kernel_templates/structured_family.h"
#include "src/core/immortal.h"

namespace autotune {
namespace {

using std::int64_t;
using wgmma::ceil_div;
using wgmma::Gemm;
using wgmma::has_few_rows;
using wgmma::ResolvedConfig;
using wgmma::Tile;

// The useful tiles, large to small. Left out: ping-pong 128x176, which spills 36 bytes with clusters in some layouts under NVRTC
// 13.0, though it is fastest for products of short K; and 128x192, which spills 288 bytes.
constexpr std::array<Tile, 13> kTiles = {{{"coop_128x256x64", 128, 256, 64, 2, 0},
                                          {"coop_256x128x64", 256, 128, 64, 2, 0},
                                          {"coop_128x192x64", 128, 192, 64, 2, 0},
                                          {"pingpong_128x160x64", 128, 160, 64, 2, 1},
                                          {"pingpong_128x128x64", 128, 128, 64, 2, 1},
                                          {"pingpong_64x256x64", 64, 256, 64, 2, 1},
                                          {"coop_128x128x128", 128, 128, 128, 2, 0},
                                          {"coop_128x64x128", 128, 64, 128, 2, 0},
                                          {"pingpong_64x128x64", 64, 128, 64, 2, 1},
                                          {"single_64x128x128", 64, 128, 128, 1, 0},
                                          {"single_64x64x128", 64, 64, 128, 1, 0},
                                          {"single_64x32x128", 64, 32, 128, 1, 0},
                                          {"single_64x16x128", 64, 16, 128, 1, 0}}};
// Tiles whose sums fit into registers only in f16.
constexpr std::array<Tile, 4> kHalfSumTiles = {{{"coop_256x256x64", 256, 256, 64, 2, 0, 1},
                                                {"coop_256x192x64", 256, 192, 64, 2, 0, 1},
                                                {"pingpong_128x256x64", 128, 256, 64, 2, 1, 1},
                                                {"pingpong_128x192x64", 128, 192, 64, 2, 1}}};

Config config_of(const ResolvedConfig& s) {
    return AUTOTUNE_CONFIG(GEMM_WGMMA_PARAMETERS, s);
}

wgmma::Candidates candidates(const Gemm& g, const Device& device) {
    std::vector<Tile> tiles;
    if (g.acc_f16) tiles.assign(kHalfSumTiles.begin(), kHalfSumTiles.end());
    tiles.insert(tiles.end(), kTiles.begin(), kTiles.end());
    return {g, device, tiles, ResolvedConfig(Config{}, g), &config_of};
}

// The rules of this family alone. gemm/wgmma_fp8 shares the others.
std::vector<Constraint> own_rules(const Gemm& g, const Device& device) {
    const auto rule = gemm::rules_on<ResolvedConfig>(g);
    const auto is_large = [](const ResolvedConfig& s) { return s.block_m * s.block_n >= int64_t{128} * 112 && s.block_k <= 64; };
    std::vector<Constraint> all;
    // Larger tiles read less from L2: for products of more waves, none of 143 winners had a tile below 64x240, steps of 128 or
    // three groups. The usual loop with only advance_descriptors stays legal, because it can replace a kernel that is not
    // compiled yet.
    all.push_back(
        {"non-default mainloop in more than four waves on a tile below 128x112, with steps above 64 or with three consumer "
         "warpgroups",
         {"block_m", "block_n", "block_k", "consumer_warpgroups", "cluster_m", "cluster_n", "cluster_k", "swap_ab",
          "advance_descriptors", "overlap_epilogue"},
         rule([=](const ResolvedConfig& s) {
             if ((s.advance_descriptors == 1 && s.overlap_epilogue == 0) || has_few_rows(g)) return true;
             return (is_large(s) && s.consumer_warpgroups <= 2) ||
                    wgmma::Grid(g, s, device).tiles * s.sharing_blocks() <= 4 * g.batch * device.identity.sm_count;
         })});
    // One of 143 winners of large products uses squares of four tiles, and none uses larger squares.
    all.push_back({"Hilbert's curve through squares that are not four tiles wide",
                   {"raster", "group"},
                   rule([](const ResolvedConfig& s) { return s.raster != 2 || s.group == 4; })});
    all.push_back(
        {"serpentine_k without several whole tiles a cluster, in a tile below 128x112, with steps above 64 or a non-default "
         "mainloop",
         {"block_m", "block_n", "block_k", "cluster_m", "cluster_n", "cluster_k", "swap_ab", "split_k", "advance_descriptors",
          "serpentine_k"},
         rule([=](const ResolvedConfig& s) {
             if (s.serpentine_k == 0) return true;
             const wgmma::Grid grid(g, s, device);
             return is_large(s) && s.advance_descriptors == 1 && s.cluster_k == 1 && s.split_k == 1 && grid.tiles > grid.clusters;
         })});
    // 8192x28672x4096 and 8192x24576x1536 took 2.3 and 2.6 % less energy in strips of 11 and 22 tiles than in strips of 8 and 16.
    all.push_back({"strips of 12 or 24 tiles without serpentine_k", {"group", "serpentine_k"}, rule([](const ResolvedConfig& s) {
                       return s.serpentine_k == 1 || (s.group != 12 && s.group != 24);
                   })});
    all.push_back({"overlap_epilogue without advance_descriptors or without tma_store",
                   {"tma_store", "advance_descriptors", "overlap_epilogue"},
                   rule([=](const ResolvedConfig& s) {
                       return s.overlap_epilogue == 0 || (s.advance_descriptors == 1 && s.tma_store == 1);
                   })});
    all.push_back({"overlap_epilogue and C is read, but with swap_ab or without a store under the next tile",
                   {"block_m", "block_n", "consumer_warpgroups", "pingpong", "swap_ab", "epilogue_stages", "overlap_epilogue"},
                   rule([=](const ResolvedConfig& s) {
                       return s.overlap_epilogue == 0 || !g.reads_c || (s.late_rounds() > 0 && s.swap_ab == 0);
                   })});
    // NVRTC 13.0 spills addresses: 80 bytes with 128 sums, 2,784 with 160, 4,736 with 192. 3453x29023x1826 takes 2.7 ms with such
    // a tile and 0.95 ms with 128x128 (H100, 2026-11-27).
    all.push_back(
        {"more than 128 exchanged sums a thread leave no registers for the addresses of direct stores",
         {"block_m", "block_n", "consumer_warpgroups", "pingpong", "swap_ab", "cluster_k", "tma_store", "reduce_kernel"},
         rule([](const ResolvedConfig& s) {
             const bool stores_alone = s.tma_store == 0 && s.reduce_kernel == 0 && s.cluster_k == 1;
             return s.swap_ab == 0 || !stores_alone || s.accumulators() <= 128;
         })});
    // With NVRTC 13.0, 64 sums spill 160 bytes, 96 sums 770, and 56 sums none.
    all.push_back(
        {"three consumer warpgroups leave no registers for what direct stores read of C beside more than 56 sums a thread",
         {"block_m", "block_n", "consumer_warpgroups", "pingpong", "cluster_k", "tma_store", "reduce_kernel"},
         rule([=](const ResolvedConfig& s) {
             const bool stores_alone = s.tma_store == 0 && s.reduce_kernel == 0 && s.cluster_k == 1;
             return !g.reads_c || s.consumer_warpgroups < 3 || !stores_alone || s.accumulators() <= 56;
         })});
    for (Constraint& each : wgmma::whole_tile_rules(g, device)) all.push_back(std::move(each));
    return all;
}

class Wgmma final : public StructuredFamily {
  public:
    std::string_view name() const override { return "gemm/wgmma"; }
    std::string_view about() const override { return "wgmma fed by TMA, warp-specialised and persistent, sm_90a alone"; }

    std::optional<std::string> refuses(const Problem& problem, const Device& device) const override {
        if (device.identity.cc() != 90) return "wgmma exists on compute capability 9.0 alone";
        if (auto reason = gemm::refuses_half_product(problem)) return reason;
        if (auto reason = gemm::refuses_maps(problem)) return reason;
        const Gemm g(problem);
        if (g.out == DType::f32) return "it writes f16 or bf16";
        const double tiles =
            static_cast<double>(ceil_div(g.m, 64)) * static_cast<double>(ceil_div(g.n, 16)) * static_cast<double>(g.batch);
        if (tiles > 1e9 / 16) return "C has more tiles than 32-bit numbers count";
        return std::nullopt;
    }
    int complexity_order() const override { return 40; }

    std::vector<Binding> facts(const Problem& problem) const override { return gemm::facts(problem); }

    LaunchPlan plan(const Problem& problem, const Config& config, const Device& device) const override {
        return wgmma::plan(problem, ResolvedConfig(config, Gemm(problem)), device);
    }

    Predictor predictor(const Problem& problem, const Device& device) const override {
        return [g = Gemm(problem), device](const Config& config) { return wgmma::predict(g, ResolvedConfig(config, g), device); };
    }
    Relauncher relauncher(const Problem& problem, const Device& device) const override {
        return [g = Gemm(problem), device](const Config& config) { return wgmma::relaunched(config, g, device); };
    }

  protected:
    std::vector<Parameter> parameters() const override { return AUTOTUNE_PARAMETERS(GEMM_WGMMA_PARAMETERS); }
    std::vector<Constraint> constraints(const Problem& problem, const Device& device) const override {
        std::vector<Constraint> all = wgmma::rules(Gemm(problem), device);
        for (Constraint& rule : own_rules(Gemm(problem), device)) all.push_back(std::move(rule));
        return all;
    }
    Config usual_config(const SearchSpace& rules, const Problem& problem, const Device& device) const override {
        return wgmma::choose_default(rules, candidates(Gemm(problem), device));
    }
    std::vector<NamedConfig> named_configs(const Problem& problem, const Device& device) const override {
        return wgmma::named_configs("wgmma_", candidates(Gemm(problem), device));
    }
};

}  // namespace

const Family& family_gemm_wgmma() {
    static const Immortal<Wgmma> family;
    return *family;
}

}  // namespace autotune
