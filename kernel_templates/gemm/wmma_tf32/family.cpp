#include <algorithm>
#include <array>

#include "kernel_templates/gemm/op/gemm_problem.h"
#include "kernel_templates/gemm/shared/f32_parts.h"
#include "kernel_templates/gemm/wmma_tf32/geometry.h"
#include "kernel_templates/structured_family.h"
#include "src/core/immortal.h"

namespace autotune {
namespace {

using namespace wmma_tf32;
using std::int64_t;

constexpr int64_t kStaticSmemBytes = 48 * 1024;  // the most that a kernel may declare

constexpr auto rule = rules_by<ResolvedConfig>();

void add_tile_rules(std::vector<Constraint>& to, const Gemm& g) {
    const std::vector<std::string> tile = {"block_m", "block_n", "warps_m", "warps_n"};
    to.push_back({"a tile is at least twice as long or wide as C", {"block_m", "block_n"}, rule([=](const ResolvedConfig& s) {
                      return (s.block_m <= 32 || s.block_m < 2 * g.m) && (s.block_n <= 32 || s.block_n < 2 * g.n);
                  })});
    to.push_back({"a warp's tile is no whole wmma tiles", tile, rule([](const ResolvedConfig& s) {
                      return s.block_m % (16 * s.warps_m) == 0 && s.block_n % (16 * s.warps_n) == 0;
                  })});
    to.push_back(gemm::warp_aspect_rule<ResolvedConfig>());
    to.push_back({"fewer than 4 warps on a tile that 4 can share", tile,
                  rule([](const ResolvedConfig& s) { return s.warps() >= 4 || s.block_m * s.block_n <= 64 * 64; })});
}

void add_resource_rules(std::vector<Constraint>& to, const Gemm& g, const DeviceLimits& limits) {
    const std::vector<std::string> memory = {"block_m", "block_n", "warps_m",  "warps_n",
                                             "block_k", "stages",  "smem_pad", "dsmem"};
    to.push_back({"more buffers than tiles along K", {"block_k", "stages"}, rule([=](const ResolvedConfig& s) {
                      return s.stages <= 2 || (s.stages - 1) * s.block_k <= gemm::round_up(g.k, s.block_k);
                  })});
    to.push_back({"buffers exceed static shared memory", memory,
                  rule([=](const ResolvedConfig& s) { return s.dsmem != 0 || smem_bytes(g, s) <= kStaticSmemBytes; })});
    to.push_back({"buffers exceed shared memory", memory,
                  rule([=](const ResolvedConfig& s) { return smem_bytes(g, s) <= limits.smem_per_block_bytes; })});
    to.push_back(
        {"sums and fragments exceed the registers",
         {"block_m", "block_n", "warps_m", "warps_n"},
         rule([=](const ResolvedConfig& s) { return registers_needed(s) <= gemm::registers_allowed(limits, s.threads(), 1); })});
    to.push_back(gemm::panel_rule<ResolvedConfig>(g));
}

// The classic kernels name a block by the wmma tiles of a warp and its warps: mma4x2_warp2x4 is 4x2 warps of 2x4 tiles each.
struct Classic {
    int64_t warps_m, warps_n, tiles_m, tiles_n;

    ResolvedConfig shape(int64_t stages, int64_t smem_pad) const {
        return {.block_m = 16 * warps_m * tiles_m,
                .block_n = 16 * warps_n * tiles_n,
                .warps_m = warps_m,
                .warps_n = warps_n,
                .block_k = 8,
                .stages = stages,
                .smem_pad = smem_pad,
                .dsmem = 0,
                .raster = 0,
                .swizzle_stride = 0};
    }
};

// Rings of 2 to 5 padded stages in static and dynamic shared memory, each with tiles in the order of C and in panels.
void add_stages(std::vector<NamedConfig>& named, const std::string& name, ResolvedConfig shape) {
    for (const int64_t stages : {2, 3, 4, 5}) {
        for (const int64_t dsmem : {0, 1}) {
            shape.stages = stages;
            shape.dsmem = dsmem;
            shape.swizzle_stride = 0;
            const std::string staged = name + "_stage" + std::to_string(stages) + (dsmem != 0 ? "_dsmem" : "");
            named.push_back({staged, config_from(shape)});
            for (const int64_t stride : {1024, 2048}) {
                shape.swizzle_stride = stride;
                named.push_back({staged + "_swizzle" + std::to_string(stride), config_from(shape)});
            }
        }
    }
}

std::vector<NamedConfig> named_configs() {
    const std::string m16 = "wmma_m16n16k8";
    const Classic large = {4, 2, 2, 4};
    std::vector<NamedConfig> named = {{m16 + "_naive", config_from(Classic{1, 1, 1, 1}.shape(1, 0))},
                                      {m16 + "_mma4x2", config_from(Classic{4, 2, 1, 1}.shape(1, 0))},
                                      {m16 + "_mma4x2_warp2x4", config_from(large.shape(1, 0))}};
    add_stages(named, m16 + "_mma4x2_warp2x4", large.shape(2, 4));
    ResolvedConfig deep = large.shape(2, 4);
    deep.block_k = 32;
    add_stages(named, m16 + "x4_mma4x2_warp2x4", deep);
    return named;
}

// Tiles worth trying first: {block_m, block_n, warps_m, warps_n, block_k, stages}.
constexpr std::array<std::array<int64_t, 6>, 5> kGoodTiles = {
    {{128, 128, 2, 2, 32, 3}, {128, 128, 4, 2, 16, 3}, {64, 64, 2, 2, 32, 3}, {32, 32, 1, 1, 16, 2}, {16, 16, 1, 1, 8, 1}}};

Config choose_default(const SearchSpace& space, const Gemm& g, const Device& device) {
    gemm::DefaultChoice choice(space);
    for (const auto& t : kGoodTiles) {
        const ResolvedConfig s = {.block_m = t[0],
                                  .block_n = t[1],
                                  .warps_m = t[2],
                                  .warps_n = t[3],
                                  .block_k = t[4],
                                  .stages = t[5],
                                  .smem_pad = 4,
                                  .dsmem = 1,
                                  .raster = 0,
                                  .swizzle_stride = 0};
        const double us = wmma_tf32::predict_us(g, s, device);
        if (choice.wants(us)) choice.offer(config_from(s), us);
    }
    return choice.choose();
}

class WmmaTf32 final : public StructuredFamily {
  public:
    std::string_view name() const override { return "gemm/wmma_tf32"; }
    std::string_view about() const override {
        return "f32 operands as tf32 on warp-wide wmma tiles of m16n16k8, sm_80 and later";
    }
    int complexity_order() const override { return 20; }
    std::optional<std::string> refuses(const Problem& problem, const Device& device) const override {
        if (device.identity.cc() < 80) return "wmma of tf32 and cp.async need sm_80 or later";
        const Gemm g(problem);
        if (g.in != DType::f32 || problem.word("compute") != gemm::kTf32) return "it multiplies f32 operands as tf32";
        return gemm::refuses_large(g, 16, 16);
    }
    std::vector<Binding> facts(const Problem& problem) const override { return gemm::f32_facts(problem); }
    LaunchPlan plan(const Problem& problem, const Config& config, const Device&) const override {
        const ResolvedConfig s = resolve<ResolvedConfig>(config);
        return gemm::tile_plan(problem, s, s.dsmem != 0 ? smem_bytes(Gemm(problem), s) : 0);
    }
    Predictor predictor(const Problem& problem, const Device& device) const override {
        return
            [g = Gemm(problem), device](const Config& c) { return wmma_tf32::predict_us(g, resolve<ResolvedConfig>(c), device); };
    }

  protected:
    std::vector<Parameter> parameters() const override { return ResolvedConfig::parameters(); }
    std::vector<Constraint> constraints(const Problem& problem, const Device& device) const override {
        const Gemm g(problem);
        std::vector<Constraint> all;
        add_tile_rules(all, g);
        add_resource_rules(all, g, device.limits);
        return all;
    }
    Config usual_config(const SearchSpace& rules, const Problem& problem, const Device& device) const override {
        return choose_default(rules, Gemm(problem), device);
    }
    std::vector<NamedConfig> named_configs(const Problem&, const Device&) const override { return autotune::named_configs(); }
};

}  // namespace

const Family& family_gemm_wmma_tf32() {
    static const Immortal<WmmaTf32> family;
    return *family;
}

}  // namespace autotune
