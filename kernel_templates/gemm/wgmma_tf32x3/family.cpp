#include <algorithm>
#include <array>

#include "kernel_templates/gemm/op/gemm_problem.h"
#include "kernel_templates/gemm/shared/f32_operands.h"
#include "kernel_templates/gemm/shared/f32_parts.h"
#include "kernel_templates/gemm/shared/hopper_rules.h"
#include "kernel_templates/gemm/shared/tile_shapes.h"
#include "kernel_templates/gemm/wgmma_tf32/geometry.h"
#include "kernel_templates/gemm/wgmma_tf32x3/geometry.h"
#include "kernel_templates/structured_family.h"
#include "src/core/immortal.h"
#include "src/core/integer_math.h"

namespace autotune {
namespace {

using gemm::F32Operand;
using gemm::i32;
using std::int64_t;
using wgmma_tf32x3::ceil_div;
using wgmma_tf32x3::Gemm;
using wgmma_tf32x3::Grid;
using wgmma_tf32x3::kBlockK;
using wgmma_tf32x3::kBlockM;
using wgmma_tf32x3::ResolvedConfig;

// ---- the space ----

constexpr std::array<int64_t, 6> kStages = {8, 6, 5, 4, 3, 2};

constexpr auto rule = rules_by<ResolvedConfig>();

void add_tile_rules(std::vector<Constraint>& to, const Gemm& g, const Device& device) {
    to.push_back({"a part's columns are not a multiple of 32", {"block_n", "parts_n"}, rule([](const ResolvedConfig& s) {
                      return s.block_n % (32 * s.parts_n) == 0;
                  })});
    to.push_back({"sums, products and X exceed the registers", {"block_n", "parts_n"}, rule([](const ResolvedConfig& s) {
                      return s.held() <= 200;
                  })});
    to.push_back({"swap_ab puts an operand on wgmma's N side that does not lie along K",
                  {"swap_ab"},
                  rule([=](const ResolvedConfig& s) { return wgmma_tf32::may_swap(g, s.swap_ab != 0); })});
    to.push_back({"a tile is at least twice as wide as C", {"block_n", "swap_ab"}, rule([=](const ResolvedConfig& s) {
                      return s.block_n == 32 || s.block_n < (s.swap_ab != 0 ? g.m : g.n) + 64;
                  })});
    to.push_back({"more than half of a cluster's tiles lie outside of C",
                  {"block_n", "cluster_m", "cluster_n", "swap_ab"},
                  rule([=](const ResolvedConfig& s) {
                      const int64_t rows = s.swap_ab != 0 ? g.n : g.m;
                      const int64_t columns = s.swap_ab != 0 ? g.m : g.n;
                      return (s.cluster_m == 1 || rows > kBlockM) && (s.cluster_n == 1 || columns > s.block_n);
                  })});
    to.push_back({"a cluster has more than two blocks", {"cluster_m", "cluster_n"}, rule([](const ResolvedConfig& s) {
                      return s.cluster_blocks() <= 2;
                  })});
    const int64_t room = device.limits.smem_per_block_bytes;
    to.push_back({"the ring exceeds shared memory", {"block_n", "stages"}, rule([=](const ResolvedConfig& s) {
                      return s.smem_bytes(s.stages) <= room;
                  })});
    to.push_back({"the ring is shorter than it could be: two more stages fit",
                  {"block_n", "stages"},
                  rule([=](const ResolvedConfig& s) { return s.stages + 2 > 8 || s.smem_bytes(s.stages + 2) > room; })});
}

void add_order_rules(std::vector<Constraint>& to, const Gemm& g, const Device& device) {
    const std::vector<std::string> order = {"block_n", "cluster_m", "cluster_n", "swap_ab", "raster", "group"};
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
    int64_t block_n, parts_n;
};
constexpr std::array<Tile, 7> kTiles = {{{128, 1}, {160, 1}, {192, 2}, {128, 2}, {96, 1}, {64, 1}, {32, 1}}};

// Adds the deepest ring that fits, and the usual order.
ResolvedConfig with_tile(const Tile& tile, int64_t cluster_m, int64_t swap_ab, const Gemm& g, const Device& device) {
    ResolvedConfig s = {
        .block_n = tile.block_n, .parts_n = tile.parts_n, .cluster_m = cluster_m, .swap_ab = swap_ab, .raster = 0};
    for (const int64_t stages : kStages) {
        s.stages = stages;
        if (s.smem_bytes(stages) <= device.limits.smem_per_block_bytes) break;
    }
    const Grid grid(g, s, device);
    s.group = grid.count_m >= 8 && grid.count_n > 1 ? 8 : 1;
    return s;
}

// The named configs that the layout allows.
std::vector<NamedConfig> all_named(const Gemm& g, const Device& device) {
    std::vector<NamedConfig> all;
    for (const Tile& tile : kTiles) {
        for (const int64_t cluster : {1, 2}) {
            for (const int64_t swap_ab : {0, 1}) {
                if (!wgmma_tf32::may_swap(g, swap_ab != 0)) continue;
                const std::string name = "wgmma_m64k8_128x" + std::to_string(tile.block_n) +
                                         (tile.parts_n == 2 ? "_2parts" : "") + (cluster == 2 ? "_cluster2x1" : "") +
                                         (wgmma_tf32::transposes_y(g) && swap_ab != 0 ? "_swapab" : "");
                all.push_back({name, config_from(with_tile(tile, cluster, swap_ab, g, device))});
            }
        }
    }
    return all;
}

class WgmmaTf32x3 final : public StructuredFamily {
  public:
    std::string_view name() const override { return "gemm/wgmma_tf32x3"; }
    std::string_view about() const override {
        return "f32 operands as three products of tf32 parts on wgmma, split beside the loads, sm_90a alone";
    }
    int complexity_order() const override { return 45; }

    std::optional<std::string> refuses(const Problem& problem, const Device& device) const override {
        if (device.identity.cc() != 90) return "wgmma exists on compute capability 9.0 alone";
        const Gemm g(problem);
        if (g.in != DType::f32 || problem.word("compute") != gemm::kTf32x3) return "it multiplies f32 operands as tf32x3";
        if (auto reason = gemm::refuses_short_sums(problem)) return reason;
        if (auto reason = gemm::refuses_maps(problem)) return reason;
        return gemm::refuses_large(g, 128, 32);
    }
    std::vector<Binding> facts(const Problem& problem) const override { return gemm::f32_facts(problem); }
    LaunchPlan plan(const Problem& problem, const Config& config, const Device& device) const override;
    Predictor predictor(const Problem& problem, const Device& device) const override {
        return [g = Gemm(problem), device](const Config& c) {
            return wgmma_tf32x3::predict_us(g, resolve<ResolvedConfig>(c), device);
        };
    }

  protected:
    std::vector<Parameter> parameters() const override { return ResolvedConfig::parameters(); }
    std::vector<Constraint> constraints(const Problem& problem, const Device& device) const override {
        const Gemm g(problem);
        std::vector<Constraint> all;
        add_tile_rules(all, g, device);
        add_order_rules(all, g, device);
        return all;
    }
    Config usual_config(const SearchSpace& rules, const Problem& problem, const Device& device) const override {
        const Gemm g(problem);
        gemm::DefaultChoice choice(rules);
        for (const NamedConfig& named : all_named(g, device))
            choice.offer(named.config, wgmma_tf32x3::predict_us(g, resolve<ResolvedConfig>(named.config), device));
        return choice.choose();
    }
    std::vector<NamedConfig> named_configs(const Problem& problem, const Device& device) const override {
        return all_named(Gemm(problem), device);
    }
};

// ---- the launch ----

LaunchPlan WgmmaTf32x3::plan(const Problem& problem, const Config& config, const Device& device) const {
    const Gemm g(problem);
    LaunchPlan plan;
    if (g.m == 0 || g.n == 0 || g.k == 0 || g.batch == 0) return plan;
    const auto s = resolve<ResolvedConfig>(config);
    const Grid grid(g, s, device);
    F32Operand x(problem, s.swap_ab != 0 ? gemm::kB : gemm::kA, false);
    F32Operand y(problem, s.swap_ab != 0 ? gemm::kA : gemm::kB, wgmma_tf32::transposes_y(g));
    gemm::WorkspaceLayout layout;
    for (F32Operand* operand : {&x, &y}) {
        if (!operand->is_copied) continue;
        operand->at = layout.take(operand->bytes());
        plan.steps.push_back(operand->copy_step());
    }
    plan.workspace_bytes = layout.bytes();
    const bool x_along_m = g.trans_a || !g.trans_b;
    LaunchStep step;
    step.grid = gemm::one_dimension(grid.clusters * s.cluster_blocks());
    step.block = {wgmma_tf32x3::kThreads, 1, 1};
    step.cluster = {narrow<std::uint32_t>(s.cluster_blocks()), 1, 1};
    step.dynamic_smem_bytes = static_cast<std::size_t>(s.smem_bytes(s.stages));
    step.programmatic_dependent = s.pdl != 0;
    step.arguments = {x.map({32, x_along_m ? kBlockK : kBlockM / s.cluster_n}), y.map({kBlockK, s.block_n / s.cluster_m})};
    const std::vector<Argument> common = gemm::arguments(problem);  // less the workspace
    step.arguments.insert(step.arguments.end(), common.begin(), common.end() - 1);
    for (const int64_t value : {s.stages, grid.count_m, grid.count_n, s.group, s.raster}) step.arguments.push_back(i32(value));
    plan.steps.push_back(std::move(step));
    return plan;
}

}  // namespace

const Family& family_gemm_wgmma_tf32x3() {
    static const Immortal<WgmmaTf32x3> family;
    return *family;
}

}  // namespace autotune
