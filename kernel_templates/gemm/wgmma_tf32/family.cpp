#include <algorithm>
#include <array>

#include "kernel_templates/gemm/op/gemm_problem.h"
#include "kernel_templates/gemm/shared/f32_operands.h"
#include "kernel_templates/gemm/shared/f32_parts.h"
#include "kernel_templates/gemm/shared/hopper_rules.h"
#include "kernel_templates/gemm/wgmma_tf32/geometry.h"
#include "kernel_templates/structured_family.h"
#include "src/core/immortal.h"
#include "src/core/integer_math.h"

namespace autotune {
namespace {

using gemm::i32;
using Operand = gemm::F32Operand;
using std::int64_t;
using wgmma_tf32::ceil_div;
using wgmma_tf32::Gemm;
using wgmma_tf32::Grid;
using wgmma_tf32::kBlockK;
using wgmma_tf32::ResolvedConfig;
using wgmma_tf32::transposes_y;

// ---- the space ----

// TMA stores whole chunks of 16 bytes, so it would write past the end of a row that is not a multiple of them.
bool tma_can_store(const Gemm& g) {
    return g.align_c == gemm::kChunkBytes && g.n * 4 % gemm::kChunkBytes == 0;
}

void add_tile_rules(std::vector<Constraint>& to, const Gemm& g) {
    const auto rule = gemm::rules_on<ResolvedConfig>(g);
    to.push_back({"a consumer warpgroup's rows are not 64 or 128",
                  {"block_m", "consumer_warpgroups", "pingpong"},
                  rule([](const ResolvedConfig& s) {
                      return s.block_m % (64 * s.groups_per_tile()) == 0 && s.bands() >= 1 && s.bands() <= 2;
                  })});
    to.push_back({"an operand in registers without 128 rows for each consumer warpgroup",
                  {"block_m", "consumer_warpgroups", "pingpong"},
                  rule([](const ResolvedConfig& s) { return !s.x_in_registers || s.bands() == 2; })});
    to.push_back({"ping-pong without exactly two consumer warpgroups",
                  {"consumer_warpgroups", "pingpong"},
                  rule([](const ResolvedConfig& s) { return s.pingpong == 0 || s.consumer_warpgroups == 2; })});
    to.push_back({"sums and X exceed the registers that setmaxnreg can give",
                  {"block_m", "consumer_warpgroups", "pingpong", "block_n"},
                  rule([](const ResolvedConfig& s) {
                      // 160 sums with 32 registers of X spill up to 200 bytes (NVRTC 13.0); 192 sums alone spill none.
                      return s.accumulators() + s.held() <= (s.consumer_warpgroups == 1 ? 200 : s.x_in_registers ? 176 : 192);
                  })});
    to.push_back({"more than one set of registers without an operand in registers", {"x_sets"}, rule([](const ResolvedConfig& s) {
                      return s.x_sets == 1 || s.x_in_registers;
                  })});
    to.push_back({"swap_ab puts an operand on wgmma's N side that does not lie along K",
                  {"swap_ab"},
                  rule([=](const ResolvedConfig& s) { return wgmma_tf32::may_swap(g, s.swap_ab != 0); })});
    to.push_back(
        {"a tile is at least twice as long or wide as C", {"block_m", "block_n", "swap_ab"}, rule([=](const ResolvedConfig& s) {
             const int64_t rows = s.swap_ab != 0 ? g.n : g.m;
             const int64_t columns = s.swap_ab != 0 ? g.m : g.n;
             return (s.block_m <= 128 || s.block_m < 2 * rows) && (s.block_n == 32 || s.block_n < columns + 64);
         })});
    to.push_back({"TMA store although rows of C are not a multiple of 16 bytes, or no TMA store although they are",
                  {"tma_store"},
                  rule([=](const ResolvedConfig& s) { return (s.tma_store != 0) == tma_can_store(g); })});
    to.push_back({"more than one epilogue buffer without TMA store",
                  {"tma_store", "epilogue_stages"},
                  rule([](const ResolvedConfig& s) { return s.tma_store == 1 || s.epilogue_stages == 1; })});
}

void add_cluster_rules(std::vector<Constraint>& to, const Gemm& g) {
    const auto rule = gemm::rules_on<ResolvedConfig>(g);
    to.push_back({"a block's share of a tile is not whole swizzle patterns",
                  {"block_m", "block_n", "cluster_m", "cluster_n"},
                  rule([](const ResolvedConfig& s) {
                      const int64_t unit = s.x_in_registers ? 32 : 8;
                      return s.block_m % (unit * s.cluster_n) == 0 && s.block_n % (8 * s.cluster_m) == 0;
                  })});
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
    const std::vector<std::string> tile = {"block_m", "block_n",   "consumer_warpgroups", "pingpong",
                                           "swap_ab", "tma_store", "epilogue_stages",     "stages"};
    to.push_back({"the ring exceeds shared memory", tile,
                  rule([=](const ResolvedConfig& s) { return s.smem_bytes(s.stages) <= device.limits.smem_per_block_bytes; })});
    to.push_back({"the ring is shorter than it could be: two more stages fit", tile, rule([=](const ResolvedConfig& s) {
                      return s.stages + 2 > 8 || s.smem_bytes(s.stages + 2) > device.limits.smem_per_block_bytes;
                  })});
    const std::vector<std::string> order = {"block_m", "block_n", "cluster_m", "cluster_n", "swap_ab", "raster", "group"};
    to.push_back({"tiles do not reach across a group", order, rule([=](const ResolvedConfig& s) {
                      const Grid at(g, s, device);
                      return s.group == 1 || s.group <= (s.raster == 1 ? at.count_n : at.count_m);
                  })});
    to.push_back({"one direction has a single tile: the order is the same", order, rule([=](const ResolvedConfig& s) {
                      const Grid at(g, s, device);
                      return (at.count_m > 1 && at.count_n > 1) || (s.raster == 0 && s.group == 1);
                  })});
}

// ---- well-known points ----

struct Tile {
    const char* name;
    int64_t block_m, block_n, consumer_warpgroups, pingpong;
};
constexpr std::array<Tile, 14> kTiles = {{{"coop_128x256", 128, 256, 2, 0},
                                          {"coop_128x224", 128, 224, 2, 0},
                                          {"coop_128x192", 128, 192, 2, 0},
                                          {"coop_256x128", 256, 128, 2, 0},
                                          {"coop_256x160", 256, 160, 2, 0},
                                          {"coop_256x96", 256, 96, 2, 0},
                                          {"pingpong_128x160", 128, 160, 2, 1},
                                          {"pingpong_128x128", 128, 128, 2, 1},
                                          {"pingpong_128x96", 128, 96, 2, 1},
                                          {"pingpong_64x256", 64, 256, 2, 1},
                                          {"coop_128x128", 128, 128, 2, 0},
                                          {"single_128x128", 128, 128, 1, 0},
                                          {"single_128x64", 128, 64, 1, 0},
                                          {"single_128x32", 128, 32, 1, 0}}};

struct Corner {
    int64_t cluster_m, swap_ab, epilogue_stages, group;
};

ResolvedConfig corner_config(const Tile& t, const Corner& corner, const Gemm& g, const Device& device) {
    ResolvedConfig s(Config{}, g);
    s.block_m = t.block_m, s.block_n = t.block_n;
    s.consumer_warpgroups = t.consumer_warpgroups, s.pingpong = t.pingpong;
    s.cluster_m = corner.cluster_m, s.swap_ab = corner.swap_ab;
    s.tma_store = tma_can_store(g) ? 1 : 0, s.epilogue_stages = s.tma_store != 0 ? corner.epilogue_stages : 1;
    s.x_sets = s.x_in_registers ? 2 : 1;  // 4 to 9 % faster on 4096^3
    s.raster = 0, s.group = corner.group;
    for (const int64_t stages : {8, 7, 6, 5, 4, 3, 2}) {
        s.stages = stages;
        if (s.smem_bytes(stages) <= device.limits.smem_per_block_bytes) break;
    }
    return s;
}

Config choose_default(const SearchSpace& space, const Gemm& g, const Device& device) {
    gemm::DefaultChoice choice(space);
    for (const Tile& tile : kTiles) {
        for (const int64_t swap_ab : {0, 1}) {
            if (!wgmma_tf32::may_swap(g, swap_ab != 0)) continue;
            for (const int64_t group : {8, 1}) {
                const ResolvedConfig s = corner_config(tile, {1, swap_ab, 1, group}, g, device);
                const double us = wgmma_tf32::predict_us(g, s, device);
                if (choice.wants(us)) choice.offer(config_from(s), us);
            }
        }
    }
    return choice.choose();
}

std::vector<NamedConfig> all_named(const Gemm& g, const Device& device) {
    std::vector<NamedConfig> all;
    for (const Tile& tile : kTiles) {
        for (const int64_t cluster : {1, 2}) {
            for (const int64_t epilogue_stages : {1, 2}) {
                for (const int64_t swap_ab : {0, 1}) {
                    const std::string name = std::string("wgmma_m64k8_") + tile.name + (cluster == 2 ? "_cluster2x1" : "") +
                                             (epilogue_stages == 2 ? "_2buffers" : "") +
                                             (transposes_y(g) && swap_ab != 0 ? "_swapab" : "");
                    const Grid grid(g, corner_config(tile, {cluster, swap_ab, epilogue_stages, 1}, g, device), device);
                    const int64_t group = grid.count_m >= 8 && grid.count_n > 1 ? 8 : 1;
                    const bool is_new = epilogue_stages == 1 || tma_can_store(g);
                    if (!is_new) continue;
                    all.push_back(
                        {name, config_from(corner_config(tile, {cluster, swap_ab, epilogue_stages, group}, g, device))});
                }
            }
        }
    }
    return all;
}

// ---- the launch ----

LaunchStep main_step(const Problem& problem, const ResolvedConfig& s, const Operand& x, const Operand& y, const Device& device) {
    const Gemm g(problem);
    const Grid grid(g, s, device);
    const Operand c(problem, gemm::kC, false);
    const std::array<int64_t, 2> box_x = {32, s.x_in_registers ? kBlockK : s.block_m / s.cluster_n};
    const TensorMapArg map_x = x.map(box_x);
    LaunchStep step;
    step.grid = gemm::one_dimension(grid.clusters * s.cluster_blocks());
    step.block = {narrow<std::uint32_t>(s.threads()), 1, 1};
    step.cluster = {narrow<std::uint32_t>(s.cluster_blocks()), 1, 1};
    step.dynamic_smem_bytes = static_cast<std::size_t>(s.smem_bytes(s.stages));
    step.programmatic_dependent = s.pdl != 0;
    step.arguments = {map_x,
                      y.map({kBlockK, s.block_n / s.cluster_m}),
                      s.tma_store != 0 ? c.map({32, s.buffer_rows()}) : map_x,  // unused without tma_store
                      TensorArg{gemm::kC},
                      ScalarArg{gemm::kAlpha},
                      ScalarArg{gemm::kBeta},
                      i32(g.m),
                      i32(g.n),
                      i32(g.k),
                      I64Arg{c.stored.ld},
                      i32(g.batch),
                      I64Arg{c.stored.batch_stride},
                      i32(s.stages),
                      i32(grid.count_m),
                      i32(grid.count_n),
                      i32(s.group),
                      i32(s.raster)};
    return step;
}

class WgmmaTf32 final : public StructuredFamily {
  public:
    std::string_view name() const override { return "gemm/wgmma_tf32"; }
    std::string_view about() const override {
        return "f32 operands as tf32 on wgmma, fed by TMA, warp-specialised and persistent, sm_90a alone";
    }
    int complexity_order() const override { return 40; }

    std::optional<std::string> refuses(const Problem& problem, const Device& device) const override {
        if (device.identity.cc() != 90) return "wgmma exists on compute capability 9.0 alone";
        const Gemm g(problem);
        if (g.in != DType::f32 || problem.word("compute") != gemm::kTf32) return "it multiplies f32 operands as tf32";
        if (auto reason = gemm::refuses_maps(problem)) return reason;
        return gemm::refuses_large(g, 64, 32);
    }
    std::vector<Binding> facts(const Problem& problem) const override { return gemm::f32_facts(problem); }
    LaunchPlan plan(const Problem& problem, const Config& config, const Device& device) const override;
    Predictor predictor(const Problem& problem, const Device& device) const override {
        return [g = Gemm(problem), device](const Config& c) { return wgmma_tf32::predict_us(g, ResolvedConfig(c, g), device); };
    }

  protected:
    std::vector<Parameter> parameters() const override { return ResolvedConfig::parameters(); }
    std::vector<Constraint> constraints(const Problem& problem, const Device& device) const override {
        const Gemm g(problem);
        std::vector<Constraint> all;
        add_tile_rules(all, g);
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

LaunchPlan WgmmaTf32::plan(const Problem& problem, const Config& config, const Device& device) const {
    const Gemm g(problem);
    LaunchPlan plan;
    if (g.m == 0 || g.n == 0 || g.k == 0 || g.batch == 0) return plan;
    const ResolvedConfig s(config, g);
    Operand x(problem, s.swap_ab != 0 ? gemm::kB : gemm::kA, false);
    Operand y(problem, s.swap_ab != 0 ? gemm::kA : gemm::kB, transposes_y(g));
    gemm::WorkspaceLayout layout;
    for (Operand* operand : {&x, &y}) {
        if (!operand->is_copied) continue;
        operand->at = layout.take(operand->bytes());
        plan.steps.push_back(operand->copy_step());
    }
    plan.workspace_bytes = layout.bytes();
    plan.steps.push_back(main_step(problem, s, x, y, device));
    return plan;
}

}  // namespace

const Family& family_gemm_wgmma_tf32() {
    static const Immortal<WgmmaTf32> family;
    return *family;
}

}  // namespace autotune
