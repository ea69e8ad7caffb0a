#include <algorithm>
#include <array>
#include <functional>
#include <optional>

#include "kernel_templates/gemm/op/gemm_problem.h"
#include "kernel_templates/gemm/shared/descent.h"
#include "kernel_templates/gemm/shared/hopper_rules.h"
#include "kernel_templates/gemm/wgmma_nonpersistent/geometry.h"
#include "kernel_templates/registry.h"
#include "kernel_templates/structured_family.h"
#include "src/core/immortal.h"
#include "src/core/integer_math.h"

namespace autotune {
namespace {

using gemm::i32;
using std::int64_t;
using wgmma_nonpersistent::ceil_div;
using wgmma_nonpersistent::deepest_ring;
using wgmma_nonpersistent::Gemm;
using wgmma_nonpersistent::Grid;
using wgmma_nonpersistent::ResolvedConfig;

constexpr int64_t kMaxWaves = 4;         // waves of blocks
constexpr int64_t kMaxLargestWaves = 2;  // the most waves of blocks that the largest tile may need

int64_t largest_tiles(const Gemm& g) {
    const auto tiles = [&](int64_t rows, int64_t columns) { return ceil_div(rows, 128) * ceil_div(columns, 256) * g.batch; };
    return std::min(tiles(g.m, g.n), tiles(g.n, g.m));
}

// ---- the space ----

void add_tile_rules(std::vector<Constraint>& to, const Gemm& g, const Device& device) {
    const auto rule = gemm::rules_on<ResolvedConfig>(g);
    to.push_back({"a consumer warpgroup's rows are not 64 or 128",
                  {"block_m", "consumer_warpgroups"},
                  rule([](const ResolvedConfig& s) { return s.block_m % (64 * s.consumer_warpgroups) == 0 && s.bands() <= 2; })});
    to.push_back({"accumulators and addresses exceed the registers of a thread",
                  {"block_m", "block_n", "consumer_warpgroups", "k_warpgroups"},
                  rule([=](const ResolvedConfig& s) {
                      // An SM allocates registers to warps in groups of four: 13 warps get as many as 16 would, and 192x208 in
                      // three groups does not compile (C7602). Tiles that compile take 26 registers besides their sums, and more
                      // if there are any.
                      const int64_t given = gemm::registers_allowed(device.limits, gemm::round_up(s.threads(), 128), 1);
                      const int64_t room = std::min(gemm::registers_allowed(device.limits, s.threads(), 1) - 48, given - 26);
                      // With 144 accumulators in each of two sets of warpgroups multiplications are serialised (C7511): 128x144
                      // takes ten times as long.
                      return s.accumulators() <= (s.k_warpgroups > 1 ? std::min<int64_t>(room, 128) : room);
                  })});
    to.push_back({"at most 32 rows without swap_ab do not fill wgmma's M side", {"swap_ab"}, rule([=](const ResolvedConfig& s) {
                      return s.swap_ab == 1 || g.m > 32 || g.m >= g.n;
                  })});
    to.push_back(
        {"a tile is at least twice as long or wide as C", {"block_m", "block_n", "swap_ab"}, rule([=](const ResolvedConfig& s) {
             const int64_t rows = s.swap_ab != 0 ? g.n : g.m;
             const int64_t columns = s.swap_ab != 0 ? g.m : g.n;
             return (s.block_m == 64 || s.block_m < 2 * rows) && (s.block_n == 16 || s.block_n < columns + 64);
         })});
    to.push_back(
        {"an odd multiple of eight columns without N-side lines along K, f32 sums and undivided K, or with no fewer tiles than a "
         "narrower one",
         {"block_n", "k_warpgroups", "cluster_k", "swap_ab"},
         rule([=](const ResolvedConfig& s) {
             const int64_t columns = s.swap_ab != 0 ? g.m : g.n;
             const bool y_k_major = s.swap_ab != 0 ? !g.trans_a : g.trans_b;
             return s.block_n % 16 == 0 || (y_k_major && !g.acc_f16 && s.parts() == 1 &&
                                            ceil_div(columns, s.block_n - 8) > ceil_div(columns, s.block_n));
         })});
    to.push_back({"block_k is at least twice K", {"block_k"}, rule([=](const ResolvedConfig& s) {
                      return s.block_k == 64 || s.block_k < 2 * g.k;
                  })});
}

void add_division_rules(std::vector<Constraint>& to, const Gemm& g, const Device& device) {
    const auto rule = gemm::rules_on<ResolvedConfig>(g);
    to.push_back(
        {"the columns of a consumer warpgroup's rows do not divide among the parts of K by 16, or nearly so among blocks",
         {"block_m", "block_n", "consumer_warpgroups", "k_warpgroups", "cluster_k"},
         rule([](const ResolvedConfig& s) {
             return s.units() % s.parts() == 0 || (s.k_warpgroups == 1 && s.cluster_k > 2 && s.units() > s.cluster_k);
         })});
    to.push_back({"a part of K has no step", {"block_k", "k_warpgroups", "cluster_k"}, rule([=](const ResolvedConfig& s) {
                      return s.parts() == 1 || ceil_div(g.k, s.block_k) >= s.parts();
                  })});
    to.push_back({"K divided in clusters although tiles alone leave no SM idle",
                  {"block_m", "block_n", "cluster_m", "cluster_n", "cluster_k", "swap_ab"},
                  rule([=](const ResolvedConfig& s) {
                      // An H200 can run 66 clusters of two blocks at once, 30 of four and 15 of eight.
                      const int64_t room = device.identity.sm_count - (s.cluster_blocks() > 2 ? 12 : 0);
                      return s.cluster_k == 1 || Grid(g, s, device).blocks <= room;
                  })});
}

void add_cluster_rules(std::vector<Constraint>& to, const Gemm& g) {
    const auto rule = gemm::rules_on<ResolvedConfig>(g);
    to.push_back(
        {"a cluster has more than 8 blocks, or divides K and shares tiles with more than one set of warpgroups or fewer than 8 "
         "steps",
         {"block_k", "k_warpgroups", "cluster_m", "cluster_n", "cluster_k"},
         rule([=](const ResolvedConfig& s) {
             return s.cluster_blocks() <= 8 && (s.cluster_k == 1 || s.sharing_blocks() == 1 ||
                                                (s.k_warpgroups == 1 && ceil_div(g.k, s.block_k) >= 8 * s.cluster_k));
         })});
    to.push_back(gemm::swizzle_share_rule<ResolvedConfig>(g));
    to.push_back({"more than half of a cluster's tiles lie outside of C",
                  {"block_m", "block_n", "cluster_m", "cluster_n", "swap_ab"},
                  rule([=](const ResolvedConfig& s) {
                      const int64_t rows = s.swap_ab != 0 ? g.n : g.m;
                      const int64_t columns = s.swap_ab != 0 ? g.m : g.n;
                      return (s.cluster_m == 1 || rows > s.block_m * s.cluster_m / 2) &&
                             (s.cluster_n == 1 || columns > s.block_n * s.cluster_n / 2);
                  })});
}

void add_launch_rules(std::vector<Constraint>& to, const Gemm& g, const Device& device) {
    const auto rule = gemm::rules_on<ResolvedConfig>(g);
    to.push_back({"more than four waves of blocks, where larger tiles take fewer",
                  {"block_m", "block_n", "cluster_m", "cluster_n", "cluster_k", "swap_ab"},
                  rule([=](const ResolvedConfig& s) {
                      return s.block_m * s.block_n >= 128 * 256 ||
                             Grid(g, s, device).blocks <= kMaxWaves * device.identity.sm_count;
                  })});
    to.push_back({"raster although there is no second cluster along M or along N: the order is the same",
                  {"block_m", "block_n", "cluster_m", "cluster_n", "swap_ab", "raster"},
                  rule([=](const ResolvedConfig& s) {
                      const Grid grid(g, s, device);
                      return s.raster == 0 || (grid.tiles_m > s.cluster_m && grid.tiles_n > s.cluster_n);
                  })});
    const std::vector<std::string> all = {"block_m",      "block_n",   "block_k",   "consumer_warpgroups",
                                          "k_warpgroups", "cluster_m", "cluster_n", "cluster_k",
                                          "swap_ab",      "stages"};
    to.push_back({"the ring is neither the deepest with which one, two or three blocks fit an SM nor one that K fills", all,
                  rule([=](const ResolvedConfig& s) {
                      const Grid grid(g, s, device);
                      for (const int64_t blocks : {1, 2, 3}) {
                          if (blocks > 1 && grid.blocks <= device.identity.sm_count) break;
                          if (deepest_ring(s, grid.steps_each, blocks, device) == s.stages) return true;
                      }
                      return false;
                  })});
}

struct Tile {
    const char* name;
    int64_t block_m, block_n, block_k, consumer_warpgroups, k_warpgroups;
};
// The useful tiles, small to large.
constexpr std::array<Tile, 13> kTiles = {{{"64x16x128", 64, 16, 128, 1, 1},
                                          {"64x32x128", 64, 32, 128, 1, 1},
                                          {"64x32x128_k2", 64, 32, 128, 1, 2},
                                          {"64x48x64", 64, 48, 64, 1, 1},
                                          {"64x64x64", 64, 64, 64, 1, 1},
                                          {"64x64x128_k2", 64, 64, 128, 1, 2},
                                          {"64x128x64", 64, 128, 64, 1, 1},
                                          {"128x64x128", 128, 64, 128, 2, 1},
                                          {"128x96x64", 128, 96, 64, 2, 1},
                                          {"128x128x64", 128, 128, 64, 2, 1},
                                          {"192x96x64", 192, 96, 64, 3, 1},
                                          {"128x192x64", 128, 192, 64, 2, 1},
                                          {"128x256x64", 128, 256, 64, 2, 1}}};

// A tile's shape with no clusters and the shallowest ring.
ResolvedConfig with_tile(const Tile& t, const Gemm& g) {
    ResolvedConfig s(Config{}, g);
    s.block_m = t.block_m, s.block_n = t.block_n, s.block_k = t.block_k;
    s.consumer_warpgroups = t.consumer_warpgroups, s.k_warpgroups = t.k_warpgroups;
    s.swap_ab = 0, s.stages = 2, s.raster = 0, s.pdl = 0;
    return s;
}

// Sets the deepest ring with which `blocks` blocks fit on an SM. If there is none, it sets 2 stages, which a rule then refuses.
ResolvedConfig with_ring(ResolvedConfig s, int64_t blocks, const Gemm& g, const Device& device) {
    s.stages = deepest_ring(s, Grid(g, s, device).steps_each, blocks, device).value_or(2);
    return s;
}

// Offers configs with another tile, or other clusters.
void for_neighbours(const ResolvedConfig& of, const Gemm& g, const Device& device,
                    const gemm::Descent<ResolvedConfig>::Offer& offer) {
    const auto offer_rings = [&](const ResolvedConfig& s) {
        for (const int64_t blocks : {1, 2}) offer(with_ring(s, blocks, g, device));
    };
    const auto change = [&](int64_t ResolvedConfig::*member, int64_t value) {
        ResolvedConfig s = of;
        s.*member = value;
        offer_rings(s);
    };
    for (const auto& [block_m, consumer_warpgroups] :
         std::initializer_list<std::pair<int64_t, int64_t>>{{64, 1}, {128, 1}, {128, 2}, {192, 3}, {256, 2}}) {
        for (const int64_t wider : {-64, -32, -16, -8, 0, 8, 16, 32, 64}) {
            ResolvedConfig s = of;
            s.block_m = block_m, s.consumer_warpgroups = consumer_warpgroups, s.block_n += wider;
            if (s.block_n >= 16 && s.block_n <= 256) offer_rings(s);
        }
    }
    for (const int64_t block_n : {of.block_n / 2, of.block_n * 2})
        if (block_n >= 16 && block_n <= 256 && block_n % 16 == 0) change(&ResolvedConfig::block_n, block_n);
    change(&ResolvedConfig::block_k, 192 - of.block_k);
    for (const int64_t k_warpgroups : {1, 2, 4}) change(&ResolvedConfig::k_warpgroups, k_warpgroups);
    change(&ResolvedConfig::swap_ab, 1 - of.swap_ab);
    change(&ResolvedConfig::raster, 1 - of.raster);
    for (const int64_t cluster_m : {1, 2, 4}) {
        for (const int64_t cluster_n : {1, 2, 4}) {
            for (const int64_t cluster_k : {1, 2, 3, 4, 6, 8}) {
                ResolvedConfig s = of;
                s.cluster_m = cluster_m, s.cluster_n = cluster_n, s.cluster_k = cluster_k;
                if (s.cluster_blocks() <= 8) offer_rings(s);
            }
        }
    }
}

Config choose_default(const SearchSpace& space, const Gemm& g, const Device& device) {
    const gemm::Descent<ResolvedConfig>::Family family = {
        [&](const ResolvedConfig& s) { return wgmma_nonpersistent::predict(g, s, device); },
        [](const ResolvedConfig& s) { return config_from(s); },
        [&](const ResolvedConfig& s, const gemm::Descent<ResolvedConfig>::Offer& offer) { for_neighbours(s, g, device, offer); }};
    // A descent seldom changes the assignment of the operands, or between K divided and K whole. So descents start from all four.
    const auto offer_start = [&](int i, gemm::Descent<ResolvedConfig>& descent) {
        const bool is_divided = i % 2 != 0;
        for (const Tile& tile : kTiles) {
            ResolvedConfig s = with_tile(tile, g);
            s.swap_ab = i / 2;
            for (const int64_t cluster_m : {1, 2}) {
                for (const int64_t cluster_k : {1, 2, 4}) {
                    s.cluster_m = cluster_m, s.cluster_k = cluster_k;
                    if ((s.parts() > 1) != is_divided) continue;
                    for (const int64_t blocks : {1, 2}) descent.offer(with_ring(s, blocks, g, device));
                }
            }
        }
    };
    return gemm::best_of_descents<ResolvedConfig>(space, family, 4, offer_start);
}

std::vector<NamedConfig> all_named(const Gemm& g, const Device& device) {
    std::vector<NamedConfig> all;
    for (const Tile& tile : kTiles) {
        for (const int64_t cluster_k : {1, 2}) {
            const std::string name = std::string("wgmma_nonpersistent_") + tile.name + (cluster_k == 2 ? "_clusterk2" : "");
            for (const int64_t swap_ab : {0, 1}) {
                ResolvedConfig s = with_tile(tile, g);
                s.cluster_k = cluster_k, s.swap_ab = swap_ab;
                all.push_back({name + (swap_ab != 0 ? "_swapab" : ""), config_from(with_ring(s, 1, g, device))});
            }
        }
    }
    return all;
}

// ---- the launch ----

// The box of one TMA load of a stored operand, for a tile that `shares` blocks load together. K-major boxes are a span along K by
// a share of the tile's rows, MN-major boxes a span along M or N by a share of block_k.
TensorMapArg map_of(const TypedMatrix& o, int index, bool k_major, const ResolvedConfig& s, int64_t extent, int64_t shares) {
    const int64_t span = k_major ? 64 : ResolvedConfig::span(extent);
    return gemm::tile_map(o, index, {span, (k_major ? extent : s.block_k) / shares});
}

LaunchStep step_of(const Problem& problem, const Gemm& g, const ResolvedConfig& s, const Device& device) {
    const std::array<TypedMatrix, 3> o = gemm::matrices(problem);
    const Grid grid(g, s, device);
    const auto map_a = [&](int64_t extent, int64_t shares) { return map_of(o[0], 0, !g.trans_a, s, extent, shares); };
    const auto map_b = [&](int64_t extent, int64_t shares) { return map_of(o[1], 1, g.trans_b, s, extent, shares); };
    const bool swap = s.swap_ab != 0;
    LaunchStep step;
    const int64_t clusters_m = grid.tiles_m / s.cluster_m, clusters_n = grid.tiles_n / s.cluster_n;
    step.grid = {narrow<std::uint32_t>((s.raster == 0 ? clusters_m : clusters_n) * s.cluster_m * s.cluster_k),
                 narrow<std::uint32_t>((s.raster == 0 ? clusters_n : clusters_m) * s.cluster_n), narrow<std::uint32_t>(g.batch)};
    step.block = {narrow<std::uint32_t>(s.threads()), 1, 1};
    step.cluster = {narrow<std::uint32_t>(s.cluster_m * s.cluster_k), narrow<std::uint32_t>(s.cluster_n), 1};
    step.dynamic_smem_bytes = static_cast<std::size_t>(s.smem_bytes(s.stages));
    step.programmatic_dependent = s.pdl != 0;
    step.arguments = {swap ? map_b(s.block_m, s.cluster_n) : map_a(s.block_m, s.cluster_n),
                      swap ? map_a(s.block_n, s.cluster_m) : map_b(s.block_n, s.cluster_m),
                      TensorArg{2},
                      ScalarArg{0},
                      ScalarArg{1},
                      i32(g.m),
                      i32(g.n),
                      i32(g.k),
                      I64Arg{o[2].ld},
                      I64Arg{o[2].batch_stride}};
    return step;
}

class WgmmaNonpersistent final : public StructuredFamily {
  public:
    std::string_view name() const override { return "gemm/wgmma_nonpersistent"; }
    std::string_view about() const override { return "wgmma fed by TMA, a tile of C a block, for small products, sm_90a alone"; }

    std::optional<std::string> refuses(const Problem& problem, const Device& device) const override {
        if (device.identity.cc() != 90) return "wgmma exists on compute capability 9.0 alone";
        if (auto reason = gemm::refuses_half_product(problem)) return reason;
        if (auto reason = gemm::refuses_maps(problem)) return reason;
        const Gemm g(problem);
        if (g.out == DType::f32) return "it writes f16 or bf16";
        if (g.packs_any()) return "TMA reads rows of a multiple of 16 bytes";
        if (largest_tiles(g) > kMaxLargestWaves * device.identity.sm_count)
            return "C has more than two waves of tiles of 128x256: blocks that stay are for that";
        return std::nullopt;
    }
    int complexity_order() const override { return 40; }

    std::vector<Binding> facts(const Problem& problem) const override { return gemm::facts(problem); }

    LaunchPlan plan(const Problem& problem, const Config& config, const Device& device) const override {
        const Gemm g(problem);
        LaunchPlan plan;
        if (g.m == 0 || g.n == 0 || g.k == 0 || g.batch == 0) return plan;
        plan.steps.push_back(step_of(problem, g, ResolvedConfig(config, g), device));
        return plan;
    }

    Predictor predictor(const Problem& problem, const Device& device) const override {
        return [g = Gemm(problem), device](const Config& config) {
            return wgmma_nonpersistent::predict(g, ResolvedConfig(config, g), device);
        };
    }

  protected:
    std::vector<Parameter> parameters() const override { return ResolvedConfig::parameters(); }
    std::vector<Constraint> constraints(const Problem& problem, const Device& device) const override {
        const Gemm g(problem);
        std::vector<Constraint> all;
        add_tile_rules(all, g, device);
        add_division_rules(all, g, device);
        add_cluster_rules(all, g);
        add_launch_rules(all, g, device);
        return all;
    }
    Config usual_config(const SearchSpace& rules, const Problem& problem, const Device& device) const override {
        return choose_default(rules, Gemm(problem), device);
    }
    std::vector<NamedConfig> named_configs(const Problem& problem, const Device& device) const override {
        return all_named(Gemm(problem), device);
    }
};

}  // namespace

const Family& family_gemm_wgmma_nonpersistent() {
    static const Immortal<WgmmaNonpersistent> family;
    return *family;
}

}  // namespace autotune
