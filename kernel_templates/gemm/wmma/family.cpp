#include <algorithm>
#include <array>

#include "kernel_templates/gemm/op/gemm_problem.h"
#include "kernel_templates/gemm/wmma/geometry.h"
#include "kernel_templates/structured_family.h"
#include "src/core/immortal.h"

namespace autotune {
namespace {

using namespace wmma;
using gemm::DefaultChoice;
using std::int64_t;

constexpr int64_t kStaticSmemBytes = 48 * 1024;  // the most that a kernel may declare

// ---- the space ----

constexpr auto rule = rules_by<ResolvedConfig>();

void add_tile_rules(std::vector<Constraint>& to, const Gemm& g) {
    const auto fits_problem = [](int64_t block, int64_t extent) { return block <= 32 || block < 2 * extent; };
    to.push_back({"block_m is at least twice the problem's rows", {"block_m"}, rule([=](const ResolvedConfig& s) {
                      return fits_problem(s.block_m, g.m);
                  })});
    to.push_back({"block_n is at least twice the problem's columns", {"block_n"}, rule([=](const ResolvedConfig& s) {
                      return fits_problem(s.block_n, g.n);
                  })});
    to.push_back({"a warp's rows are no whole wmma tiles", {"wmma_m", "block_m", "warps_m"}, rule([](const ResolvedConfig& s) {
                      return s.block_m % (s.wmma_m * s.warps_m) == 0;
                  })});
    to.push_back({"a warp's columns are no whole wmma tiles", {"wmma_m", "block_n", "warps_n"}, rule([](const ResolvedConfig& s) {
                      return s.block_n % (s.wmma_n() * s.warps_n) == 0;
                  })});
    const std::vector<std::string> tile = {"block_m", "block_n", "warps_m", "warps_n"};
    to.push_back(gemm::warp_aspect_rule<ResolvedConfig>());
    to.push_back({"more than 8 warps on a tile that 8 can compute", tile,
                  rule([](const ResolvedConfig& s) { return s.warps() <= 8 || s.block_m * s.block_n >= 128 * 256; })});
    to.push_back({"fewer than 4 warps on a tile that 4 can share", tile,
                  rule([](const ResolvedConfig& s) { return s.warps() >= 4 || s.block_m * s.block_n <= 64 * 64; })});
}

void add_pipeline_rules(std::vector<Constraint>& to, const Gemm& g) {
    to.push_back({"block_k is more than twice K", {"block_k"}, rule([=](const ResolvedConfig& s) {
                      return s.block_k == 16 || s.block_k < 2 * g.k;
                  })});
    to.push_back({"more than two buffers for tiles that pass through registers",
                  {"cp_async", "stages"},
                  rule([](const ResolvedConfig& s) { return s.cp_async != 0 || s.stages <= 2; })});
    to.push_back({"more buffers than tiles along K", {"block_k", "stages"}, rule([=](const ResolvedConfig& s) {
                      return s.stages <= 2 || (s.stages - 1) * s.block_k <= round_up(g.k, s.block_k);
                  })});
}

void add_resource_rules(std::vector<Constraint>& to, const Gemm& g, const DeviceLimits& limits) {
    const std::vector<std::string> memory = {"wmma_m",  "block_m", "block_n",  "warps_m", "warps_n",
                                             "block_k", "stages",  "smem_pad", "dsmem"};
    to.push_back({"buffers exceed static shared memory", memory,
                  rule([=](const ResolvedConfig& s) { return s.dsmem != 0 || smem_bytes(g, s) <= kStaticSmemBytes; })});
    to.push_back({"buffers exceed shared memory", memory,
                  rule([=](const ResolvedConfig& s) { return smem_bytes(g, s) <= limits.smem_per_block_bytes; })});
    to.push_back({"more threads than a block may have", {"warps_m", "warps_n"}, rule([=](const ResolvedConfig& s) {
                      return s.threads() <= limits.threads_per_block;
                  })});
    to.push_back({"min_blocks does not bind: below 256 threads two blocks always have the registers",
                  {"warps_m", "warps_n", "min_blocks"},
                  rule([](const ResolvedConfig& s) { return s.min_blocks == 1 || s.threads() >= 256; })});
    to.push_back({"accumulators, fragments and copies exceed the registers",
                  {"block_m", "block_n", "warps_m", "warps_n", "block_k", "cp_async", "min_blocks"},
                  rule([=](const ResolvedConfig& s) { return registers_needed(g, s) <= registers_allowed(s, limits); })});
    std::vector<std::string> blocks = memory;
    blocks.emplace_back("min_blocks");
    to.push_back({"min_blocks do not fit the SM's shared memory", blocks, rule([=](const ResolvedConfig& s) {
                      return s.min_blocks * (smem_bytes(g, s) + 1024) <= limits.smem_per_sm_bytes;
                  })});
}

void add_launch_rules(std::vector<Constraint>& to, const Gemm& g) {
    to.push_back(gemm::panel_rule<ResolvedConfig>(g));
}

// ---- well-known points ----

// The classic kernels name a block by the wmma tiles of a warp and its warps: mma4x2_warp2x4 is 4x2 warps of 2x4 tiles each.
struct Classic {
    int64_t wmma_m, warps_m, warps_n, tiles_m, tiles_n;

    ResolvedConfig shape(int64_t cp_async, int64_t stages, int64_t smem_pad) const {
        return {.wmma_m = wmma_m,
                .block_m = wmma_m * warps_m * tiles_m,
                .block_n = 256 / wmma_m * warps_n * tiles_n,
                .warps_m = warps_m,
                .warps_n = warps_n,
                .block_k = 16,
                .cp_async = cp_async,
                .stages = stages,
                .smem_pad = smem_pad,
                .dsmem = 0,
                .min_blocks = 1,
                .raster = 0,
                .swizzle_stride = 0};
    }
};

class NamedList {
  public:
    void add(const std::string& name, const ResolvedConfig& shape) { named_.push_back({name, config_from(shape)}); }

    // Rings of 2 to 5 padded stages in static and dynamic shared memory, each with tiles in the order of C and in panels.
    void add_stages(const std::string& name, const Classic& classic) {
        for (const int64_t stages : {2, 3, 4, 5}) {
            for (const int64_t dsmem : {0, 1}) {
                const std::string staged = name + "_stage" + std::to_string(stages) + (dsmem != 0 ? "_dsmem" : "");
                ResolvedConfig shape = classic.shape(1, stages, 8);
                shape.dsmem = dsmem;
                add(staged, shape);
                for (const int64_t stride : {1024, 2048, 4096, 8192}) {
                    shape.swizzle_stride = stride;
                    add(staged + "_swizzle" + std::to_string(stride), shape);
                }
            }
        }
    }

    std::vector<NamedConfig> take() && { return std::move(named_); }

  private:
    std::vector<NamedConfig> named_;
};

std::vector<NamedConfig> named_configs() {
    const std::string m16 = "wmma_m16n16k16";
    const Classic large = {16, 4, 2, 2, 4};
    NamedList list;
    list.add(m16 + "_naive", Classic{16, 1, 1, 1, 1}.shape(0, 1, 0));
    list.add(m16 + "_mma4x2", Classic{16, 4, 2, 1, 1}.shape(0, 1, 0));
    const std::string base = m16 + "_mma4x2_warp2x4";
    list.add(base, large.shape(0, 1, 0));
    list.add(base + "_async", large.shape(1, 1, 0));
    list.add(base + "_async_offset", large.shape(1, 1, 8));
    list.add(base + "_dbuf_offset", large.shape(0, 2, 8));
    list.add(base + "_dbuf_async", large.shape(1, 2, 0));
    list.add(base + "_dbuf_async_offset", large.shape(1, 2, 8));
    list.add_stages(base, large);
    list.add_stages(m16 + "_mma4x2_warp4x4", {16, 4, 2, 4, 4});
    list.add_stages(m16 + "_mma4x4_warp4x4", {16, 4, 4, 4, 4});
    list.add("wmma_m32n8k16_mma2x4_warp2x4_dbuf_async", Classic{32, 2, 4, 2, 4}.shape(1, 2, 8));
    list.add("wmma_m8n32k16_mma4x2_warp4x2_dbuf_async", Classic{8, 4, 2, 4, 2}.shape(1, 2, 8));
    return std::move(list).take();
}

// Tiles worth trying first, large to small: {block_m, block_n, warps_m, warps_n, block_k, stages}.
constexpr std::array<std::array<int64_t, 6>, 11> kGoodTiles = {{{128, 256, 2, 4, 32, 3},
                                                                {128, 128, 2, 2, 32, 4},
                                                                {128, 128, 4, 2, 32, 3},
                                                                {64, 64, 2, 2, 64, 3},
                                                                {64, 64, 2, 2, 32, 2},
                                                                {64, 32, 2, 2, 32, 4},
                                                                {32, 32, 2, 2, 64, 3},
                                                                {16, 64, 1, 4, 64, 3},
                                                                {16, 32, 1, 2, 64, 3},
                                                                {32, 32, 1, 1, 32, 2},
                                                                {16, 16, 1, 1, 16, 1}}};

Config choose_default(const SearchSpace& space, const Gemm& g, const Device& device) {
    DefaultChoice choice(space);
    for (const auto& t : kGoodTiles) {
        for (const int64_t stride : {0, 1024}) {
            const bool is_aligned = std::min(g.align_a, g.align_b) >= 4;
            const ResolvedConfig s = {.wmma_m = 16,
                                      .block_m = t[0],
                                      .block_n = t[1],
                                      .warps_m = t[2],
                                      .warps_n = t[3],
                                      .block_k = t[4],
                                      .cp_async = is_aligned ? 1 : 0,
                                      .stages = is_aligned ? t[5] : std::min<int64_t>(2, t[5]),
                                      .smem_pad = 8,
                                      .dsmem = 1,
                                      .min_blocks = 1,
                                      .raster = 0,
                                      .swizzle_stride = stride};
            const Config config = config_from(s);
            choice.offer(config, wmma::predict_us(g, s, device));
        }
    }
    return choice.choose();
}

class Wmma final : public StructuredFamily {
  public:
    std::string_view name() const override { return "gemm/wmma"; }
    std::string_view about() const override { return "warp-wide wmma tiles from shared memory, sm_80 and later"; }

    std::optional<std::string> refuses(const Problem& problem, const Device& device) const override {
        const Gemm g(problem);
        if (device.identity.cc() < 80) return "wmma of bf16 and cp.async need sm_80 or later";
        if (auto reason = gemm::refuses_half_product(problem)) return reason;
        if (ceil_div(g.m, 16) * ceil_div(g.n, 16) > gemm::kMaxBlocks / std::max<int64_t>(1, g.batch))
            return "C has more tiles than a grid has blocks";
        return std::nullopt;
    }
    int complexity_order() const override { return 20; }

    std::vector<Binding> facts(const Problem& problem) const override { return gemm::facts(problem); }

    LaunchPlan plan(const Problem& problem, const Config& config, const Device&) const override {
        const ResolvedConfig s = resolve<ResolvedConfig>(config);
        return gemm::tile_plan(problem, s, s.dsmem != 0 ? smem_bytes(Gemm(problem), s) : 0);
    }

    Predictor predictor(const Problem& problem, const Device& device) const override {
        return [g = Gemm(problem), device](const Config& config) {
            return wmma::predict_us(g, resolve<ResolvedConfig>(config), device);
        };
    }

  protected:
    std::vector<Parameter> parameters() const override { return ResolvedConfig::parameters(); }
    std::vector<Constraint> constraints(const Problem& problem, const Device& device) const override {
        const Gemm g(problem);
        std::vector<Constraint> all;
        add_tile_rules(all, g);
        add_pipeline_rules(all, g);
        add_resource_rules(all, g, device.limits);
        add_launch_rules(all, g);
        return all;
    }
    Config usual_config(const SearchSpace& rules, const Problem& problem, const Device& device) const override {
        return choose_default(rules, Gemm(problem), device);
    }
    std::vector<NamedConfig> named_configs(const Problem&, const Device&) const override { return autotune::named_configs(); }
};

}  // namespace

const Family& family_gemm_wmma() {
    static const Immortal<Wmma> family;
    return *family;
}

}  // namespace autotune
