#include <algorithm>
#include <array>
#include <numeric>

#include "kernel_templates/gemm/op/epilogue.h"
#include "kernel_templates/gemm/op/gemm_problem.h"
#include "kernel_templates/gemm/shared/device_maps.h"
#include "kernel_templates/gemm/shared/hopper_rules.h"
#include "kernel_templates/gemm/wgmma/defaults.h"
#include "kernel_templates/gemm/wgmma/launch.h"
#include "kernel_templates/gemm/wgmma/rules.h"
#include "kernel_templates/registry.h"
#include "kernel_templates/structured_family.h"
#include "src/core/immortal.h"

namespace autotune {
namespace {

using gemm::Scaling;
using std::int64_t;
using wgmma::ceil_div;
using wgmma::Gemm;
using wgmma::Grid;
using wgmma::ResolvedConfig;
using wgmma::Tile;

std::vector<Parameter> parameters() {
    std::vector<Parameter> all = AUTOTUNE_PARAMETERS(GEMM_WGMMA_FP8_PARAMETERS);
    parameter_of(all, "block_k").values = {64, 128, 256};
    parameter_of(all, "group").values = {1, 4, 8, 16};
    return all;
}

Config config_of(const ResolvedConfig& s) {
    return AUTOTUNE_CONFIG(GEMM_WGMMA_FP8_PARAMETERS, s);
}

// Whether C is stored with a hint so that it does not displace the operands in L2. The hint gains 1 to 5 % (H200, 8192x8192x1024
// and x128).
bool stores_with_hint(const Gemm& g, const Device& device) {
    return wgmma::tma_can_store(g) && static_cast<double>(g.m * g.n * g.batch * g.out_bytes()) > device.identity.l2_mib * 0.25e6;
}

std::vector<Constraint> own_rules(const Gemm& g, const Device& device) {
    const auto rule = gemm::rules_on<ResolvedConfig>(g);
    const std::vector<std::string> grid = {"block_m",   "block_n", "block_k", "cluster_m", "cluster_n",
                                           "cluster_k", "swap_ab", "split_k", "persistent"};
    std::vector<Constraint> all;
    all.push_back({"block_k is not 128 although products are promoted", {"block_k"}, [g](const Config& c) {
                       return !g.promotes || c.find("block_k").value_or(128) == 128;
                   }});
    all.push_back({"two sets of products without one promoted band each, or with too few registers for both",
                   {"block_m", "block_n", "consumer_warpgroups", "pingpong", "product_sets"},
                   rule([g](const ResolvedConfig& s) {
                       return s.product_sets == 1 ||
                              (g.promotes && s.bands() == 1 &&
                               s.accumulators() + s.temporaries() <= (s.consumer_warpgroups == 3 ? 96 : 192));
                   })});
    all.push_back({"stagger without two cooperative consumer warpgroups that promote one set of products each",
                   {"consumer_warpgroups", "pingpong", "product_sets", "stagger"},
                   rule([g](const ResolvedConfig& s) {
                       return s.stagger == 0 ||
                              (g.promotes && s.product_sets == 1 && s.consumer_warpgroups == 2 && s.pingpong == 0);
                   })});
    all.push_back({"K divided with ping-pong, or although a tile above 128x128 promotes its products",
                   {"block_m", "block_n", "pingpong", "split_k", "cluster_k"},
                   rule([g](const ResolvedConfig& s) {
                       const bool is_whole = s.split_k == 1 && s.cluster_k == 1;
                       return is_whole || (s.pingpong == 0 && !(g.promotes && s.block_m * s.block_n > 128 * 128));
                   })});
    all.push_back({"overlap_epilogue without persistent blocks or TMA store, or although products are promoted or C is read",
                   {"tma_store", "persistent", "overlap_epilogue"},
                   rule([g](const ResolvedConfig& s) {
                       return s.overlap_epilogue == 0 || (!g.promotes && s.persistent == 1 && s.tma_store == 1 && !g.reads_c);
                   })});
    for (Constraint& each : wgmma::whole_tile_rules(g, device)) all.push_back(std::move(each));
    all.push_back({"device_maps outside the one kernel that shows them: a 128x128 tile, persistent blocks, aligned operands",
                   {"block_m", "block_n", "consumer_warpgroups", "pingpong", "cluster_m", "cluster_n", "cluster_k", "swap_ab",
                    "tma_store", "reduce_kernel", "raster", "prefetch_steps", "persistent", "overlap_epilogue", "device_maps"},
                   rule([g](const ResolvedConfig& s) {
                       if (s.device_maps == 0) return true;
                       return s.block_m == 128 && s.block_n == 128 && s.consumer_warpgroups == 2 && s.pingpong == 0 &&
                              s.cluster_blocks() == 1 && s.swap_ab == 0 && s.tma_store == 1 && s.reduce_kernel == 0 &&
                              s.raster == 0 && s.prefetch_steps == 0 && s.persistent == 1 && s.overlap_epilogue == 0 &&
                              !g.packs_any();
                   })});
    all.push_back({"TMA store although f32 or fp8 is exchanged", {"swap_ab", "tma_store"}, rule([](const ResolvedConfig& s) {
                       return s.tma_store == 0 || s.swap_ab == 0 || s.out_bytes == 2;
                   })});
    // The kernel selects the factor of a column from two blocks, so the columns of a tile must lie in at most two blocks of 128.
    all.push_back(
        {"a tile's columns would lie in three blocks of scales", {"block_n", "swap_ab"}, rule([g](const ResolvedConfig& s) {
             if (g.scaling != Scaling::block || s.swap_ab != 0) return true;
             const int64_t first_at_most = gemm::kScaleBlock - std::gcd(gemm::kScaleBlock, s.block_n);
             return first_at_most + s.block_n <= 2 * gemm::kScaleBlock;
         })});
    all.push_back(
        {"more than 128 exchanged columns with block scales", {"block_n", "swap_ab"}, rule([g](const ResolvedConfig& s) {
             return g.scaling != Scaling::block || s.swap_ab == 0 || s.block_n <= 128;
         })});
    all.push_back({"persistent 0 with divided K, clusters or ping-pong, or although all tiles run at once", grid,
                   rule([g, device](const ResolvedConfig& s) {
                       if (s.persistent != 0) return true;
                       ResolvedConfig walking = s;
                       walking.persistent = 1;
                       const Grid at(g, walking, device);
                       return at.parts == 1 && s.cluster_blocks() == 1 && s.pingpong == 0 && at.tiles > at.clusters;
                   })});
    all.push_back({"store_hint although C fits in L2 or leaves without TMA store, or none although C does not fit",
                   {"tma_store", "store_hint"},
                   rule([leaves = stores_with_hint(g, device)](const ResolvedConfig& s) {
                       return s.store_hint == (leaves && s.tma_store == 1 ? 1 : 0);
                   })});
    // After a kernel that triggers nothing early, none of these values changes the time, and each of them would double the space.
    all.push_back({"an early fetch is not of eight steps", {"prefetch_steps"}, [](const Config& c) {
                       const int64_t steps = c.find("prefetch_steps").value_or(0);
                       return steps == 0 || steps == 8;
                   }});
    all.push_back({"raster or group although there are few rows", {"raster", "group"}, [g](const Config& c) {
                       return !wgmma::has_few_rows(g) || (c.find("raster").value_or(0) == 0 && c.find("group").value_or(1) == 1);
                   }});
    all.push_back(
        {"evict_first on an operand that is not the larger one", {"swap_ab", "evict_first"}, rule([g](const ResolvedConfig& s) {
             const bool x_is_larger = s.swap_ab != 0 ? g.n >= g.m : g.m > g.n;
             return s.evict_first == 0 || s.evict_first == (x_is_larger ? 1 : 2);
         })});
    all.push_back(
        {"stages of 256 although rows are not few, or of 64 although K is not short", {"block_k"}, [g](const Config& c) {
             const int64_t block_k = c.find("block_k").value_or(128);
             return block_k == 128 || (block_k == 256 ? wgmma::has_few_rows(g) : g.k <= 256);
         }});
    return all;
}

// The useful tiles, large to small.
constexpr std::array<Tile, 26> kTiles = {{{"coop_128x256x128", 128, 256, 128, 2, 0},
                                          {"coop_256x128x128", 256, 128, 128, 2, 0},
                                          {"coop_256x96x128", 256, 96, 128, 2, 0},
                                          {"coop_192x128x128", 192, 128, 128, 3, 0},
                                          {"coop_128x192x128", 128, 192, 128, 2, 0},
                                          {"coop_128x160x128", 128, 160, 128, 2, 0},
                                          {"pingpong_128x192x128", 128, 192, 128, 2, 1},
                                          {"pingpong_128x176x128", 128, 176, 128, 2, 1},
                                          {"pingpong_128x128x128", 128, 128, 128, 2, 1},
                                          {"pingpong_64x256x128", 64, 256, 128, 2, 1},
                                          {"pingpong_64x192x128", 64, 192, 128, 2, 1},
                                          {"coop_128x128x128", 128, 128, 128, 2, 0},
                                          {"coop_128x64x128", 128, 64, 128, 2, 0},
                                          {"pingpong_64x128x128", 64, 128, 128, 2, 1},
                                          {"single_64x128x256", 64, 128, 256, 1, 0},
                                          {"single_64x64x256", 64, 64, 256, 1, 0},
                                          {"single_64x32x256", 64, 32, 256, 1, 0},
                                          {"single_64x16x256", 64, 16, 256, 1, 0},
                                          {"single_64x128x128", 64, 128, 128, 1, 0},
                                          {"single_64x64x128", 64, 64, 128, 1, 0},
                                          {"single_64x32x128", 64, 32, 128, 1, 0},
                                          {"single_64x16x128", 64, 16, 128, 1, 0},
                                          {"coop_128x128x128_two_sets", 128, 128, 128, 2, 0, 2, 2},
                                          {"coop_128x96x128_two_sets", 128, 96, 128, 2, 0, 2, 2},
                                          {"single_64x64x128_two_sets", 64, 64, 128, 1, 0, 2, 2},
                                          {"single_64x16x128_two_sets", 64, 16, 128, 1, 0, 2, 2}}};

wgmma::Candidates candidates(const Gemm& g, const Device& device) {
    ResolvedConfig usual(Config{}, g);
    usual.pdl = 0;
    usual.store_hint = stores_with_hint(g, device) ? 1 : 0;
    return {g, device, {kTiles.begin(), kTiles.end()}, usual, &config_of};
}

struct Rung {
    const char* name;
    int64_t persistent, device_maps;
};
constexpr std::array<Rung, 3> kRungs = {
    {{"tma_ws", 0, 0}, {"tma_persistent_ws", 1, 0}, {"device_descriptor_persistent_ws", 1, 1}}};

// The last steps of the well-known series of kernels: the same tile with one block per tile, with persistent blocks, and with
// tensor maps made by a kernel.
std::vector<NamedConfig> series_configs(const wgmma::Candidates& from) {
    std::vector<NamedConfig> all;
    for (const Rung& rung : kRungs) {
        wgmma::Candidates one = from;
        one.tiles = {{rung.name, 128, 128, 128, 2, 0}};
        one.usual.persistent = rung.persistent;
        one.usual.device_maps = rung.device_maps;
        for (NamedConfig& named : wgmma::named_configs("", one)) all.push_back(std::move(named));
    }
    std::erase_if(all, [](const NamedConfig& each) { return each.name.find("_cluster") != std::string::npos; });
    return all;
}

class WgmmaFp8 final : public StructuredFamily {
  public:
    std::string_view name() const override { return "gemm/wgmma_fp8"; }
    std::string_view about() const override {
        return "fp8 by wgmma fed by TMA, warp-specialised, with scales and promoted sums, sm_90a alone";
    }

    std::optional<std::string> refuses(const Problem& problem, const Device& device) const override {
        if (device.identity.cc() != 90) return "wgmma exists on compute capability 9.0 alone";
        if (auto reason = gemm::refuses_fp8_product(problem)) return reason;
        if (auto reason = gemm::refuses_maps(problem)) return reason;
        const Gemm g(problem);
        const double tiles =
            static_cast<double>(ceil_div(g.m, 64)) * static_cast<double>(ceil_div(g.n, 16)) * static_cast<double>(g.batch);
        if (tiles > 1e9 / 16) return "C has more tiles than 32-bit numbers count";
        return std::nullopt;
    }
    int complexity_order() const override { return 60; }

    std::vector<Binding> facts(const Problem& problem) const override { return gemm::fp8_facts(problem); }

    LaunchPlan plan(const Problem& problem, const Config& config, const Device& device) const override {
        LaunchPlan plan = wgmma::plan(problem, ResolvedConfig(config, Gemm(problem)), device);
        for (LaunchStep& step : plan.steps) {
            if (step.entry == "_pack") continue;
            if (step.entry.empty()) step.arguments.push_back(gemm::i32(config["store_hint"]));
            gemm::add_scales_and_epilogue(step.arguments, problem);
        }
        if (config["device_maps"] != 0 && !plan.steps.empty()) gemm::make_maps_on_device(plan);
        return plan;
    }

    Predictor predictor(const Problem& problem, const Device& device) const override {
        return [g = Gemm(problem), device](const Config& config) {
            const ResolvedConfig s(config, g);
            // The value is a guess for three launches and was not measured.
            const double maps_us = s.device_maps != 0 ? 6.0 : 0.0;
            return wgmma::predict(g, s, device) + maps_us;
        };
    }

  protected:
    std::vector<Parameter> parameters() const override { return autotune::parameters(); }
    std::vector<Constraint> constraints(const Problem& problem, const Device& device) const override {
        const Gemm g(problem);
        std::vector<Constraint> all = wgmma::rules(g, device);
        for (Constraint& rule : own_rules(g, device)) all.push_back(std::move(rule));
        return all;
    }
    Config usual_config(const SearchSpace& rules, const Problem& problem, const Device& device) const override {
        return wgmma::choose_default(rules, candidates(Gemm(problem), device));
    }
    std::vector<NamedConfig> named_configs(const Problem& problem, const Device& device) const override {
        const wgmma::Candidates from = candidates(Gemm(problem), device);
        std::vector<NamedConfig> all = series_configs(from);
        for (NamedConfig& named : wgmma::named_configs("wgmma_fp8_", from)) all.push_back(std::move(named));
        return all;
    }
};

}  // namespace

const Family& family_gemm_wgmma_fp8() {
    static const Immortal<WgmmaFp8> family;
    return *family;
}

}  // namespace autotune
