#include <algorithm>
#include <array>
#include <limits>

#include "kernel_templates/gemm/gemv/geometry.h"
#include "kernel_templates/gemm/op/gemm_problem.h"
#include "kernel_templates/gemm/shared/tile_shapes.h"
#include "kernel_templates/registry.h"
#include "kernel_templates/structured_family.h"
#include "src/core/immortal.h"
#include "src/core/integer_math.h"

namespace autotune {
namespace {

using gemm::ceil_div;
using gemm::DefaultChoice;
using gemm::Gemm;
using gemm::i32;
using gemv::Grid;
using gemv::kParts;
using gemv::ResolvedConfig;
using gemv::Streams;
using std::int64_t;

constexpr int64_t kRegisters = 255;      // the most that a thread can have
constexpr int64_t kOtherRegisters = 48;  // registers that a thread needs besides sums and loaded steps
constexpr int64_t kClusterBlocks = 8;    // largest cluster that every GPU with clusters supports

// ---- the space ----

constexpr auto rule = rules_by<ResolvedConfig>();

void add_tile_rules(std::vector<Constraint>& to, const Gemm& g) {
    const Streams x(g);
    to.push_back({"the operand with fewer lines is streamed", {"swap_ab"}, rule([=](const ResolvedConfig& s) {
                      return (s.swap_ab != 0) == (g.m <= g.n);
                  })});
    to.push_back({"another width covers the other operand with less waste", {"block_n"}, rule([=](const ResolvedConfig& s) {
                      return s.block_n == x.block_n();
                  })});
    to.push_back({"a warp does not have 16, 32 or 64 lines, or not 64 where lines are contiguous",
                  {"block_m", "warps_m"},
                  rule([=](const ResolvedConfig& s) {
                      const int64_t lines = s.block_m / s.warps_m;
                      return lines == 64 || (x.x_along_k && (lines == 16 || lines == 32));
                  })});
    to.push_back({"a block has fewer than 2 or more than 16 warps", {"warps_m", "warps_k"}, rule([](const ResolvedConfig& s) {
                      return s.warps() >= 2 && s.warps() <= 16;
                  })});
    to.push_back({"fewer than eight warps along K for rows at eight places of 16 bytes",
                  {"warps_k"},
                  rule([=](const ResolvedConfig& s) { return !x.groups_k() || s.warps_k >= 8; })});
    to.push_back({"a block is at least twice as long as the operand", {"block_m", "warps_m"}, rule([=](const ResolvedConfig& s) {
                      return s.warps_m == 1 || s.block_m < 2 * x.lines;
                  })});
}

bool parts_fill_block_k(const Streams& x, const ResolvedConfig& s) {
    return s.block_k == 128 || s.block_k < 2 * ceil_div(x.k, s.split_k) ||
           (x.groups_k() && s.block_k == s.round_k() && s.unroll == 1);
}

void add_depth_rules(std::vector<Constraint>& to, const Gemm& g, const Device& device) {
    const Streams x(g);
    to.push_back({"sums and what is loaded ahead exceed the registers",
                  {"block_m", "block_n", "warps_m", "warps_k", "unroll", "x_smem", "min_blocks"},
                  rule([=](const ResolvedConfig& s) {
                      return s.registers() <= kRegisters && s.min_blocks <= s.most_blocks(device.limits);
                  })});
    to.push_back(
        {"registers would hold more than twice as many blocks",
         {"block_m", "block_n", "warps_m", "warps_k", "unroll", "x_smem", "min_blocks"},
         rule([=](const ResolvedConfig& s) { return s.min_blocks == 4 || 2 * s.min_blocks >= s.most_blocks(device.limits); })});
    to.push_back({"block_k is not a whole number of the warps' rounds",
                  {"warps_k", "unroll", "block_k"},
                  rule([](const ResolvedConfig& s) { return s.block_k % s.round_k() == 0; })});
    to.push_back({"block_k is at least twice a part of K",
                  {"warps_k", "unroll", "block_k", "split_k"},
                  rule([=](const ResolvedConfig& s) { return parts_fill_block_k(x, s); })});
    to.push_back({"an L2 policy although cp.async may be ignored: an illegal instruction on an H200",
                  {"x_smem", "evict_first"},
                  rule([](const ResolvedConfig& s) { return s.x_smem == 0 || s.evict_first == 0; })});
    // The rule looks at all extents of the class, because one instance serves them all.
    to.push_back(
        {"shared memory is too small",
         {"block_m", "block_n", "warps_m", "warps_k", "unroll", "x_smem", "block_k", "cluster"},
         rule([=](const ResolvedConfig& s) { return s.smem_bytes(s.block_n, 2) <= device.limits.smem_per_block_bytes; })});
}

bool may_be_cluster(int64_t split_k) {
    return split_k == 2 || split_k == 4 || split_k == kClusterBlocks;
}
bool parts_are_deep(const Streams& x, const ResolvedConfig& s) {
    return s.split_k == 1 || x.k >= 128 * s.split_k;
}
bool parts_fill_idle_sms(const Streams& x, const ResolvedConfig& s, const Device& device) {
    return s.split_k == 1 || Grid(x, s).tiles * s.split_k <= 16 * int64_t{device.identity.sm_count};
}

void add_split_rules(std::vector<Constraint>& to, const Gemm& g, const Device& device) {
    const Streams x(g);
    const bool hopper = device.identity.cc_major >= 9;
    to.push_back({"a cluster before sm_90, or one without 2, 4 or 8 blocks",
                  {"cluster", "split_k"},
                  rule([=](const ResolvedConfig& s) { return s.cluster == 0 || (hopper && may_be_cluster(s.split_k)); })});
    to.push_back({"prefetch_k before sm_90: a kernel cannot start early", {"prefetch_k"}, rule([=](const ResolvedConfig& s) {
                      return s.prefetch_k == 0 || hopper;
                  })});
    to.push_back({"prefetch_k is at least twice a part of K", {"split_k", "prefetch_k"}, rule([=](const ResolvedConfig& s) {
                      return s.prefetch_k < std::max<int64_t>(2 * ceil_div(x.k, s.split_k), 513);
                  })});
    to.push_back({"a part of K would have fewer than 128 k", {"split_k"}, rule([=](const ResolvedConfig& s) {
                      return parts_are_deep(x, s);
                  })});
    to.push_back({"split-K although tiles alone fill the SMs several times",
                  {"swap_ab", "block_m", "block_n", "warps_m", "split_k"},
                  rule([=](const ResolvedConfig& s) { return parts_fill_idle_sms(x, s, device); })});
}

struct Point {
    const char* name;
    int64_t block_m, warps_m, warps_k, unroll, block_k;
};
// Configs that have proved good. The default is the one that is predicted fastest.
constexpr std::array<Point, 19> kPoints = {{{"stream_16_k16_unroll4", 16, 1, 16, 4, 2048},
                                            {"stream_16_k16_unroll2", 16, 1, 16, 2, 1024},
                                            {"stream_16_k8_unroll4", 16, 1, 8, 4, 1024},
                                            {"stream_16_k8_unroll2", 16, 1, 8, 2, 512},
                                            {"stream_32_k8_unroll2", 32, 1, 8, 2, 512},
                                            {"stream_32_m2_k8_unroll4", 32, 2, 8, 4, 1024},
                                            {"stream_32_k4_unroll4", 32, 1, 4, 4, 512},
                                            {"stream_64_m4_k4_unroll4", 64, 4, 4, 4, 512},
                                            {"stream_64_m2_k4_unroll2", 64, 2, 4, 2, 256},
                                            {"stream_64_m2_k8_unroll2", 64, 2, 8, 2, 512},
                                            {"stream_128_m4_k2_unroll4", 128, 4, 2, 4, 256},
                                            {"stream_128_m4_k4_unroll2", 128, 4, 4, 2, 256},
                                            {"stream_128_m8_k2_unroll4", 128, 8, 2, 4, 256},
                                            {"stream_256_m8_k1_unroll4", 256, 8, 1, 4, 256},
                                            {"stream_256_m8_k2_unroll4", 256, 8, 2, 4, 256},
                                            {"stream_64_k8_unroll1", 64, 1, 8, 1, 256},
                                            {"stream_64_k8_unroll2", 64, 1, 8, 2, 512},
                                            {"stream_64_k4_unroll2", 64, 1, 4, 2, 256},
                                            {"stream_64_k2_unroll2", 64, 1, 2, 2, 128}}};

Config config_at(const Point& p, int64_t x_smem, const Gemm& g, const Device& device) {
    ResolvedConfig s = {.swap_ab = g.m <= g.n ? 1 : 0,
                        .block_m = p.block_m,
                        .block_n = Streams(g).block_n(),
                        .warps_m = p.warps_m,
                        .warps_k = p.warps_k,
                        .unroll = p.unroll,
                        .x_smem = x_smem,
                        .block_k = p.block_k,
                        .evict_first = 1 - x_smem,
                        .cluster = 0,
                        .prefetch_k = 0};
    s.min_blocks = std::clamp<int64_t>(s.most_blocks(device.limits), 1, 4);
    return config_from(s);
}

// At most a quarter of L2.
int64_t prefetch_of(const Gemm& g, int64_t split_k, const Device& device) {
    if (device.identity.cc_major < 9) return 0;
    const double lines = static_cast<double>(std::max(g.m, g.n) * g.batch);
    const double most = device.identity.l2_mib * 0.25e6 / (lines * static_cast<double>(split_k * gemm::kElementBytes));
    const int64_t part_k = ceil_div(g.k, split_k);
    for (const int64_t k : {8192, 2048, 512})
        if (static_cast<double>(std::min(k, part_k)) <= most && k < std::max<int64_t>(2 * part_k, 513)) return k;
    return 0;
}

Config choose_default(const SearchSpace& space, const Gemm& g, const Device& device) {
    DefaultChoice choice(space);
    for (const Point& point : kPoints) {
        for (const int64_t split_k : {1, 2, 3, 4, 6, 8, 16}) {
            for (const int64_t cluster : {0, 1}) {
                Config config = config_at(point, 0, g, device);
                config.set("split_k", split_k);
                config.set("cluster", cluster);
                config.set("prefetch_k", prefetch_of(g, split_k, device));
                choice.offer(config, gemv::predict(Streams(g), resolve<ResolvedConfig>(config), device));
            }
        }
    }
    return choice.choose();
}

// The number of parts of K that is predicted fastest; early fetches as in the default.
Relaunched relaunched(ResolvedConfig s, const Gemm& g, const Device& device) {
    const Streams x(g, s.swap_ab != 0);
    ResolvedConfig best = s;
    double best_us = std::numeric_limits<double>::infinity();
    for (const int64_t split_k : kParts) {
        s.split_k = split_k;
        s.prefetch_k = prefetch_of(g, split_k, device);
        const bool is_legal = parts_fill_block_k(x, s) && parts_are_deep(x, s) && parts_fill_idle_sms(x, s, device) &&
                              (s.cluster == 0 || may_be_cluster(split_k));
        const double us = is_legal ? gemv::predict(x, s, device) : best_us;
        if (us < best_us) best = s, best_us = us;
    }
    return {{{"split_k", best.split_k}, {"prefetch_k", best.prefetch_k}}, best_us};
}

std::vector<NamedConfig> all_named(const Gemm& g, const Device& device) {
    std::vector<NamedConfig> all;
    for (const Point& point : kPoints) {
        for (const int64_t x_smem : {0, 1})
            all.push_back({point.name + std::string(x_smem != 0 ? "_smem" : ""), config_at(point, x_smem, g, device)});
    }
    return all;
}

// ---- the family ----

class Gemv final : public StructuredFamily {
  public:
    std::string_view name() const override { return "gemm/gemv"; }
    std::string_view about() const override {
        return "few rows or columns: the other operand is streamed once into mma.sync, any layout and alignment";
    }
    int complexity_order() const override { return 5; }
    std::optional<std::string> refuses(const Problem& problem, const Device& device) const override;
    std::vector<Binding> facts(const Problem& problem) const override { return gemm::stream_facts(problem); }
    LaunchPlan plan(const Problem& problem, const Config& config, const Device& device) const override;
    Predictor predictor(const Problem& problem, const Device& device) const override {
        return [g = Gemm(problem), device](const Config& config) {
            const auto s = resolve<ResolvedConfig>(config);
            return gemv::predict(Streams(g, s.swap_ab != 0), s, device);
        };
    }
    Relauncher relauncher(const Problem& problem, const Device& device) const override {
        return
            [g = Gemm(problem), device](const Config& config) { return relaunched(resolve<ResolvedConfig>(config), g, device); };
    }

  protected:
    std::vector<Parameter> parameters() const override { return ResolvedConfig::parameters(); }
    std::vector<Constraint> constraints(const Problem& problem, const Device& device) const override {
        const Gemm g(problem);
        std::vector<Constraint> all;
        add_tile_rules(all, g);
        add_depth_rules(all, g, device);
        add_split_rules(all, g, device);
        return all;
    }
    Config usual_config(const SearchSpace& rules, const Problem& problem, const Device& device) const override {
        return choose_default(rules, Gemm(problem), device);
    }
    std::vector<NamedConfig> named_configs(const Problem& problem, const Device& device) const override {
        return all_named(Gemm(problem), device);
    }
};

std::optional<std::string> Gemv::refuses(const Problem& problem, const Device& device) const {
    if (device.identity.cc() < 80) return "mma.sync m16n8k16 needs sm_80 or later";
    return gemm::refuses_streams(problem);
}

LaunchPlan Gemv::plan(const Problem& problem, const Config& config, const Device& device) const {
    const Gemm g(problem);
    LaunchPlan plan;
    if (g.m == 0 || g.n == 0 || g.batch == 0) return plan;
    const auto s = resolve<ResolvedConfig>(config);
    const Streams x(g, s.swap_ab != 0);
    const Grid grid(x, s);
    gemm::WorkspaceLayout layout;
    std::size_t partial = 0;
    if (s.split_k > 1 && s.cluster == 0) {
        layout.take(grid.tiles * 4);
        plan.workspace_zero_bytes = static_cast<std::size_t>(grid.tiles) * 4;
        partial = layout.take(grid.tiles * s.split_k * s.block_lines(x) * s.block_n * 4);
    }
    plan.workspace_bytes = layout.bytes();
    LaunchStep step;
    step.grid = {narrow<std::uint32_t>(grid.tiles_m * s.split_k), narrow<std::uint32_t>(grid.tiles_n),
                 narrow<std::uint32_t>(g.batch)};
    step.block = gemm::one_dimension(s.threads());
    step.cluster = gemm::one_dimension(s.cluster != 0 ? s.split_k : 1);
    step.dynamic_smem_bytes = static_cast<std::size_t>(grid.smem_bytes);
    step.programmatic_dependent = device.identity.cc_major >= 9;
    step.arguments = gemm::arguments(problem);
    step.arguments.push_back(WorkspaceArg{partial});
    step.arguments.push_back(i32(s.split_k));
    step.arguments.push_back(i32(grid.part_k));
    step.arguments.push_back(i32(s.prefetch_k));
    plan.steps.push_back(std::move(step));
    return plan;
}

}  // namespace

const Family& family_gemm_gemv() {
    static const Immortal<Gemv> family;
    return *family;
}

}  // namespace autotune
