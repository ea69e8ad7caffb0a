#include <algorithm>
#include <array>

#include "kernel_templates/gemm/mma_tf32/geometry.h"
#include "kernel_templates/gemm/op/gemm_problem.h"
#include "kernel_templates/gemm/shared/f32_parts.h"
#include "kernel_templates/structured_family.h"
#include "src/core/immortal.h"

namespace autotune {
namespace {

using namespace mma_tf32;
using std::int64_t;

constexpr auto rule = rules_by<ResolvedConfig>();

void add_tile_rules(std::vector<Constraint>& to, const Gemm& g) {
    const std::vector<std::string> tile = {"block_m", "block_n", "warps_m", "warps_n"};
    to.push_back({"a tile is at least twice as long or wide as C", {"block_m", "block_n"}, rule([=](const ResolvedConfig& s) {
                      return (s.block_m <= 64 || s.block_m < 2 * g.m) && (s.block_n <= 64 || s.block_n < 2 * g.n);
                  })});
    to.push_back({"a warp's tile is not a multiple of 32x32", tile, rule([](const ResolvedConfig& s) {
                      return s.block_m % (32 * s.warps_m) == 0 && s.block_n % (32 * s.warps_n) == 0;
                  })});
    to.push_back(gemm::warp_aspect_rule<ResolvedConfig>());
    to.push_back({"fewer than 2 warps", {"warps_m", "warps_n"}, rule([](const ResolvedConfig& s) { return s.warps() >= 2; })});
}

void add_pipeline_rules(std::vector<Constraint>& to, const Gemm& g, int terms, const DeviceLimits& limits) {
    to.push_back({"a tile does not divide evenly among the threads",
                  {"block_m", "block_n", "warps_m", "warps_n", "block_k"},
                  rule([=](const ResolvedConfig& s) { return copies_evenly(g, s); })});
    to.push_back({"the ring is deeper than K", {"block_k", "stages"}, rule([=](const ResolvedConfig& s) {
                      return s.stages == 2 || (s.stages - 1) * s.block_k <= gemm::round_up(g.k, s.block_k);
                  })});
    to.push_back({"promote_k with a single product: nothing to promote", {"promote_k"}, rule([=](const ResolvedConfig& s) {
                      return terms > 1 || s.promote_k == 8;
                  })});
    to.push_back({"promote_k exceeds block_k", {"block_k", "promote_k"}, rule([](const ResolvedConfig& s) {
                      return s.promote_k <= s.block_k;
                  })});
    to.push_back({"tiles exceed shared memory", {"block_m", "block_n", "block_k", "stages"}, rule([=](const ResolvedConfig& s) {
                      return smem_bytes(s) <= limits.smem_per_block_bytes;
                  })});
    to.push_back({"sums and elements exceed the registers",
                  {"block_m", "block_n", "warps_m", "warps_n", "promote_k", "min_blocks"},
                  rule([=](const ResolvedConfig& s) {
                      return registers_needed(s, terms) <= gemm::registers_allowed(limits, s.threads(), s.min_blocks);
                  })});
    to.push_back({"min_blocks does not bind: so many blocks always have the registers",
                  {"warps_m", "warps_n", "min_blocks"},
                  rule([](const ResolvedConfig& s) { return s.min_blocks == 1 || s.threads() * s.min_blocks > 256; })});
    to.push_back(
        {"min_blocks do not fit the SM's shared memory",
         {"block_m", "block_n", "block_k", "stages", "min_blocks"},
         rule([=](const ResolvedConfig& s) { return s.min_blocks * (smem_bytes(s) + 1024) <= limits.smem_per_sm_bytes; })});
}

// Found by compiling the named configs: code that fits on sm_89 and sm_90 spills 72 to 204 bytes on sm_80, sm_86 and sm_120.
void add_spill_rule(std::vector<Constraint>& to, int terms, const Device& device) {
    const bool is_hopper = device.identity.cc_major == 9;
    to.push_back({"a warp's tile is too large: outside sm_90 the compiler spills it",
                  {"block_m", "block_n", "warps_m", "warps_n"},
                  rule([=](const ResolvedConfig& s) {
                      if (is_hopper) return true;
                      const int64_t tile = s.warp_m() * s.warp_n();
                      return terms > 1 ? s.warp_m() < 64 || tile < 64 * 32 : tile < 64 * 64;
                  })});
}

void add_launch_rules(std::vector<Constraint>& to, const Gemm& g, int sm_count) {
    to.push_back(
        {"a part of K would have fewer than 4 tiles, or none", {"block_k", "split_k"}, rule([=](const ResolvedConfig& s) {
             return s.split_k == 1 || (g.k >= 4 * s.split_k * s.block_k && (s.split_k - 1) * k_per_split(g, s) < g.k);
         })});
    to.push_back({"split-K makes more than four blocks per SM",
                  {"block_m", "block_n", "split_k"},
                  rule([=](const ResolvedConfig& s) { return s.split_k == 1 || tiles(g, s) * s.split_k <= 4 * sm_count; })});
    to.push_back(gemm::panel_rule<ResolvedConfig>(g));
}

// ---- well-known points ----

struct Tile {
    int64_t block_m, block_n, warps_m, warps_n, min_blocks;
};
constexpr std::array<Tile, 9> kTiles = {{{128, 256, 2, 4, 1},
                                         {256, 128, 4, 2, 1},
                                         {128, 128, 2, 2, 1},
                                         {128, 128, 2, 4, 1},
                                         {128, 128, 2, 4, 2},
                                         {64, 128, 2, 2, 2},
                                         {128, 64, 2, 2, 2},
                                         {64, 64, 2, 2, 2},
                                         {32, 64, 1, 2, 1}}};

ResolvedConfig with_tile(const Tile& tile, int64_t block_k, int64_t stages) {
    return {.block_m = tile.block_m,
            .block_n = tile.block_n,
            .warps_m = tile.warps_m,
            .warps_n = tile.warps_n,
            .block_k = block_k,
            .stages = stages,
            .promote_k = 8,
            .min_blocks = tile.min_blocks,
            .split_k = 1,
            .raster = 0,
            .swizzle_stride = 0};
}

// The classic names give the block's tile in mma and warps.
std::vector<NamedConfig> named_configs(int terms) {
    std::vector<NamedConfig> named;
    for (const Tile& tile : kTiles) {
        for (const int64_t block_k : {16, 32}) {
            for (const int64_t stages : {2, 3, 4}) {
                ResolvedConfig s = with_tile(tile, block_k, stages);
                const std::string name = "mma_m16n8k8_" + std::to_string(tile.block_m) + "x" + std::to_string(tile.block_n) +
                                         "x" + std::to_string(block_k) + "_warps" + std::to_string(tile.warps_m) + "x" +
                                         std::to_string(tile.warps_n) + (tile.min_blocks > 1 ? "_2blocks" : "") + "_stage" +
                                         std::to_string(stages) + "_dsmem";
                named.push_back({name, config_from(s)});
                ResolvedConfig swizzled = s;
                swizzled.swizzle_stride = 1024;
                if (stages == 3) named.push_back({name + "_swizzle1024", config_from(swizzled)});
                s.promote_k = 16;
                if (terms > 1 && stages == 3) named.push_back({name + "_promote16", config_from(s)});
            }
        }
    }
    return named;
}

Config choose_default(const SearchSpace& space, const Gemm& g, int terms, const Device& device) {
    gemm::DefaultChoice choice(space);
    for (const Tile& tile : kTiles) {
        for (const int64_t block_k : {32, 16}) {
            for (const int64_t stages : {3, 2}) {
                for (const int64_t split_k : {1, 2, 4, 8}) {
                    ResolvedConfig s = with_tile(tile, block_k, stages);
                    s.split_k = split_k;
                    const double us = mma_tf32::predict_us(g, s, terms, device);
                    if (choice.wants(us)) choice.offer(config_from(s), us);
                }
            }
        }
    }
    return choice.choose();
}

class MmaTf32 final : public StructuredFamily {
  public:
    std::string_view name() const override { return "gemm/mma_tf32"; }
    std::string_view about() const override {
        return "f32 operands on mma.sync m16n8k8, as tf32 or as three products of tf32 parts, sm_80 and later";
    }
    int complexity_order() const override { return 30; }
    std::optional<std::string> refuses(const Problem& problem, const Device& device) const override {
        if (device.identity.cc() < 80) return "mma.sync of tf32 and cp.async need sm_80 or later";
        const Gemm g(problem);
        if (g.in != DType::f32 || !gemm::tf32_terms(problem)) return "it multiplies f32 operands as tf32 or tf32x3";
        if (auto reason = gemm::refuses_short_sums(problem)) return reason;
        return gemm::refuses_large(g, 32, 32);
    }
    std::vector<Binding> facts(const Problem& problem) const override {
        std::vector<Binding> all = gemm::f32_facts(problem);
        all.push_back({"terms", terms_of(problem)});
        return all;
    }
    LaunchPlan plan(const Problem& problem, const Config& config, const Device&) const override {
        const ResolvedConfig s = resolve<ResolvedConfig>(config);
        return gemm::split_plan(problem, s, smem_bytes(s));
    }
    Predictor predictor(const Problem& problem, const Device& device) const override {
        return [g = Gemm(problem), terms = terms_of(problem), device](const Config& c) {
            return mma_tf32::predict_us(g, resolve<ResolvedConfig>(c), terms, device);
        };
    }

  protected:
    std::vector<Parameter> parameters() const override { return ResolvedConfig::parameters(); }
    std::vector<Constraint> constraints(const Problem& problem, const Device& device) const override {
        const Gemm g(problem);
        std::vector<Constraint> all;
        add_tile_rules(all, g);
        add_pipeline_rules(all, g, terms_of(problem), device.limits);
        add_spill_rule(all, terms_of(problem), device);
        add_launch_rules(all, g, device.identity.sm_count);
        return all;
    }
    Config usual_config(const SearchSpace& rules, const Problem& problem, const Device& device) const override {
        return choose_default(rules, Gemm(problem), terms_of(problem), device);
    }
    std::vector<NamedConfig> named_configs(const Problem& problem, const Device&) const override {
        return autotune::named_configs(terms_of(problem));
    }

  private:
    static int terms_of(const Problem& problem) { return gemm::tf32_terms(problem).value_or(1); }
};

}  // namespace

const Family& family_gemm_mma_tf32() {
    static const Immortal<MmaTf32> family;
    return *family;
}

}  // namespace autotune
