#include <algorithm>
#include <array>

#include "kernel_templates/gemm/op/gemm_problem.h"
#include "kernel_templates/gemm/shared/f32_parts.h"
#include "kernel_templates/gemm/simt_f32/geometry.h"
#include "kernel_templates/structured_family.h"
#include "src/core/immortal.h"

namespace autotune {
namespace {

using namespace simt_f32;
using std::int64_t;

constexpr auto rule = rules_by<ResolvedConfig>();

void add_tile_rules(std::vector<Constraint>& to, const Gemm& g, const DeviceLimits& limits) {
    to.push_back({"more than one element a thread, or parameters of the copies, without shared memory",
                  {"smem", "thread_m", "thread_n", "lanes_m", "block_k", "vec", "bcf", "smem_pad", "stages", "cp_async",
                   "reg_transpose", "reg_buffers", "min_blocks"},
                  rule([](const ResolvedConfig& s) {
                      return s.smem == 1 || (s.thread_m == 1 && s.thread_n == 1 && s.lanes_m == 0 && s.block_k == 8 &&
                                             s.vec == 1 && s.bcf == 0 && s.smem_pad == 0 && s.stages == 1 && s.cp_async == 0 &&
                                             s.reg_transpose == 0 && s.reg_buffers == 1 && s.min_blocks == 1);
                  })});
    to.push_back({"a thread's tile is more than 4 times as long as wide",
                  {"thread_m", "thread_n"},
                  rule([](const ResolvedConfig& s) { return s.thread_m <= 4 * s.thread_n && s.thread_n <= 4 * s.thread_m; })});
    to.push_back({"one element along M or N alone, or bcf, lanes_m, reg_buffers or min_blocks without effect on a single element",
                  {"thread_m", "thread_n", "bcf", "lanes_m", "reg_buffers", "min_blocks"},
                  rule([](const ResolvedConfig& s) {
                      if (s.thread_m > 1 && s.thread_n > 1) return true;
                      return s.thread_m == s.thread_n && s.bcf == 0 && s.lanes_m == 0 && s.reg_buffers == 1 && s.min_blocks == 1;
                  })});
    to.push_back({"accesses of one element, or tiles more than 16 deep, although a thread has more than one element",
                  {"thread_m", "block_k", "vec"},
                  rule([](const ResolvedConfig& s) { return s.thread_m == 1 || (s.vec == 4 && s.block_k <= 16); })});
    to.push_back({"a warp's tile without runs of four, or one that does not divide the block's",
                  {"block_m", "block_n", "thread_m", "thread_n", "lanes_m", "bcf"},
                  rule([](const ResolvedConfig& s) {
                      if (s.lanes_m == 0) return true;
                      return s.bcf == 1 && s.block_m % (s.lanes_m * s.thread_m) == 0 &&
                             s.block_n % (s.lanes_n() * s.thread_n) == 0;
                  })});
    to.push_back({"a warp's tile is more than 4 times as long as wide",
                  {"thread_m", "thread_n", "lanes_m"},
                  rule([](const ResolvedConfig& s) {
                      const int64_t rows = s.lanes_m * s.thread_m, columns = s.lanes_n() * s.thread_n;
                      return s.lanes_m == 0 || (rows <= 4 * columns && columns <= 4 * rows);
                  })});
    to.push_back({"the block's threads are not whole warps, or more than the GPU allows",
                  {"block_m", "block_n", "thread_m", "thread_n"},
                  rule([=](const ResolvedConfig& s) {
                      return s.threads() % 32 == 0 && s.threads() >= 32 &&
                             s.threads() <= std::min(limits.threads_per_block, 1024);
                  })});
    to.push_back(
        {"a tile is at least twice as long or wide as C", {"smem", "block_m", "block_n"}, rule([=](const ResolvedConfig& s) {
             return (s.block_m <= 64 || s.block_m < 2 * g.m) && (s.block_n <= 64 || s.block_n < 2 * g.n);
         })});
}

void add_pipeline_rules(std::vector<Constraint>& to, const Gemm& g, const DeviceLimits& limits) {
    const bool is_k_contiguous = !g.trans_a || g.trans_b;
    to.push_back({"more than two buffers without cp.async, or fewer than two with it",
                  {"stages", "cp_async"},
                  rule([](const ResolvedConfig& s) { return s.cp_async == 1 ? s.stages >= 2 : s.stages <= 2; })});
    to.push_back({"two register buffers without a second buffer in shared memory",
                  {"stages", "reg_buffers"},
                  rule([](const ResolvedConfig& s) { return s.reg_buffers == 1 || s.stages >= 2; })});
    to.push_back({"padded rows although neither operand is contiguous along K", {"smem_pad"}, rule([=](const ResolvedConfig& s) {
                      return s.smem_pad == 0 || is_k_contiguous;
                  })});
    to.push_back({"some threads would load nothing",
                  {"smem", "block_m", "block_n", "thread_m", "thread_n", "block_k", "vec"},
                  rule([](const ResolvedConfig& s) {
                      return s.smem == 0 || std::min(s.block_m, s.block_n) * s.block_k >= s.threads() * s.vec;
                  })});
    to.push_back({"chunks of a thread are not a constant step apart",
                  {"smem", "block_m", "block_n", "thread_m", "thread_n", "block_k", "vec", "bcf", "cp_async"},
                  rule([=](const ResolvedConfig& s) {
                      return s.smem == 0 || (copies_evenly(s, s.block_m, !g.trans_a) && copies_evenly(s, s.block_n, g.trans_b));
                  })});
    to.push_back({"tiles exceed shared memory",
                  {"smem", "block_m", "block_n", "block_k", "smem_pad", "stages"},
                  rule([=](const ResolvedConfig& s) { return smem_bytes(s) <= limits.smem_per_block_bytes; })});
    to.push_back({"sums and operands exceed the registers",
                  {"smem", "block_m", "block_n", "thread_m", "thread_n", "block_k", "cp_async", "reg_transpose", "reg_buffers",
                   "min_blocks"},
                  rule([=](const ResolvedConfig& s) {
                      return registers_needed(s) <= gemm::registers_allowed(limits, s.threads(), s.min_blocks);
                  })});
    to.push_back({"min_blocks does not bind: so many blocks have the threads and the registers anyhow",
                  {"block_m", "block_n", "thread_m", "thread_n", "min_blocks"},
                  rule([=](const ResolvedConfig& s) {
                      return s.min_blocks == 1 || (s.threads() * s.min_blocks <= 1024 && s.threads() * s.min_blocks >= 256);
                  })});
    to.push_back(
        {"min_blocks do not fit the SM's shared memory",
         {"smem", "block_m", "block_n", "block_k", "smem_pad", "stages", "min_blocks"},
         rule([=](const ResolvedConfig& s) { return s.min_blocks * (smem_bytes(s) + 1024) <= limits.smem_per_sm_bytes; })});
}

// The times below are of 4096x4096x1024 in blocks of 128x256 (H200, driver 580.159.04, 2026-11-27): docs/results/f32.md.
void add_transpose_rules(std::vector<Constraint>& to, const Gemm& g) {
    const bool has_runs = both_along_k(g) && g.align_a >= 16 && g.align_b >= 16;
    // With A transposed in registers nn takes 702 us, without 669 us; tt 702 and 698 us.
    to.push_back({"reg_transpose although the operands are not both stored along K in rows aligned to 16 bytes",
                  {"reg_transpose"},
                  rule([=](const ResolvedConfig& s) { return s.reg_transpose == 0 || has_runs; })});
    to.push_back({"reg_transpose without vec 4, two buffers and two register buffers, or with cp.async",
                  {"vec", "stages", "cp_async", "reg_transpose", "reg_buffers"},
                  rule([](const ResolvedConfig& s) {
                      return s.reg_transpose == 0 || (s.vec == 4 && s.stages == 2 && s.cp_async == 0 && s.reg_buffers == 2);
                  })});
    // Within this rule nt takes 719 us; with tiles 16 deep 830 us, without padding 804 us, by cp.async 765 us.
    to.push_back({"reg_transpose in tiles that are not 8 deep with padded rows: slower than cp.async",
                  {"block_k", "smem_pad", "reg_transpose"},
                  rule([](const ResolvedConfig& s) { return s.reg_transpose == 0 || (s.block_k == 8 && s.smem_pad == 4); })});
    to.push_back(
        {"patches of an operand's tile do not make whole warps",
         {"block_m", "block_n", "reg_transpose"},
         rule([](const ResolvedConfig& s) { return s.reg_transpose == 0 || (s.block_m % 64 == 0 && s.block_n % 64 == 0); })});
}

void add_launch_rules(std::vector<Constraint>& to, const Gemm& g, int sm_count) {
    to.push_back(
        {"a part of K would have fewer than 4 tiles, or none", {"smem", "block_k", "split_k"}, rule([=](const ResolvedConfig& s) {
             return s.split_k == 1 ||
                    (s.smem == 1 && g.k >= 4 * s.split_k * s.block_k && (s.split_k - 1) * k_per_split(g, s) < g.k);
         })});
    to.push_back({"split-K makes more than four blocks per SM",
                  {"block_m", "block_n", "split_k"},
                  rule([=](const ResolvedConfig& s) { return s.split_k == 1 || tiles(g, s) * s.split_k <= 4 * sm_count; })});
    to.push_back(gemm::panel_rule<ResolvedConfig>(g));
}

// ---- well-known points ----

ResolvedConfig tiled(int64_t block_m, int64_t block_n, int64_t thread_m, int64_t thread_n) {
    return {.smem = 1,
            .block_m = block_m,
            .block_n = block_n,
            .thread_m = thread_m,
            .thread_n = thread_n,
            .lanes_m = 0,
            .block_k = 8,
            .vec = 4,
            .bcf = 0,
            .smem_pad = 0,
            .stages = 1,
            .cp_async = 0,
            .reg_transpose = 0,
            .reg_buffers = 1,
            .min_blocks = 1,
            .split_k = 1,
            .raster = 0,
            .swizzle_stride = 0};
}

// The well-known steps of an f32 kernel, in their usual order.
std::vector<NamedConfig> classic_configs() {
    ResolvedConfig naive = tiled(16, 16, 1, 1);
    naive.smem = 0;
    naive.vec = 1;
    ResolvedConfig sliced = tiled(32, 32, 1, 1);
    sliced.block_k = 32;
    sliced.vec = 1;
    ResolvedConfig large = tiled(128, 128, 8, 8);
    const std::string t8x8 = "t_8x8_sliced_k_f32x4", k16 = "t_8x8_sliced_k16_f32x4_bcf_dbuf";
    std::vector<NamedConfig> named = {
        {"naive", config_from(naive)}, {"sliced_k", config_from(sliced)}, {t8x8, config_from(large)}};
    large.bcf = 1;
    named.push_back({t8x8 + "_bcf", config_from(large)});
    large.smem_pad = 4;
    named.push_back({t8x8 + "_bcf_offset", config_from(large)});
    large.smem_pad = 0;
    large.stages = 2;
    named.push_back({t8x8 + "_bcf_dbuf", config_from(large)});
    large.block_k = 16;
    named.push_back({k16, config_from(large)});
    large.smem_pad = 4;
    named.push_back({k16 + "_offset", config_from(large)});
    large.cp_async = 1;
    named.push_back({k16 + "_offset_async", config_from(large)});
    large.smem_pad = 0;
    named.push_back({k16 + "_async", config_from(large)});
    return named;
}

struct WarpTiled {
    const char* name;
    int64_t block_m, block_n, thread_m, thread_n, lanes_m, min_blocks;
};
constexpr std::array<WarpTiled, 8> kWarpTiles = {{{"warp_128x128_t_8x8", 128, 128, 8, 8, 4, 1},
                                                  {"warp_128x128_t_8x16", 128, 128, 8, 16, 8, 2},
                                                  {"warp_128x128_t_16x8", 128, 128, 16, 8, 4, 2},
                                                  {"warp_128x256_t_8x16", 128, 256, 8, 16, 8, 1},
                                                  {"warp_256x128_t_16x8", 256, 128, 16, 8, 4, 1},
                                                  {"warp_64x128_t_8x8", 64, 128, 8, 8, 4, 3},
                                                  {"warp_64x64_t_8x4", 64, 64, 8, 4, 4, 3},
                                                  {"warp_32x64_t_4x4", 32, 64, 4, 4, 4, 3}}};

ResolvedConfig warp_tiled(const WarpTiled& tile, int64_t block_k, int64_t stages, const Gemm& g) {
    ResolvedConfig s = tiled(tile.block_m, tile.block_n, tile.thread_m, tile.thread_n);
    s.lanes_m = tile.lanes_m;
    s.block_k = block_k;
    s.bcf = 1;
    s.smem_pad = !g.trans_a || g.trans_b ? 4 : 0;
    s.stages = stages;
    s.cp_async = 1;
    s.reg_buffers = 2;
    s.min_blocks = tile.min_blocks;
    return s;
}

// The same tile with its operands transposed in registers.
ResolvedConfig transposed(const WarpTiled& tile, const Gemm& g) {
    ResolvedConfig s = warp_tiled(tile, 8, 2, g);
    s.cp_async = 0;
    s.reg_transpose = 1;
    return s;
}

std::vector<NamedConfig> warp_tiled_configs(const Gemm& g) {
    std::vector<NamedConfig> named;
    for (const WarpTiled& tile : kWarpTiles) {
        for (const int64_t block_k : {8, 16}) {
            for (const int64_t stages : {2, 3, 4}) {
                const ResolvedConfig s = warp_tiled(tile, block_k, stages, g);
                const std::string suffix = "_k" + std::to_string(block_k) + "_stage" + std::to_string(stages);
                named.push_back({tile.name + suffix, config_from(s)});
                ResolvedConfig swizzled = s;
                swizzled.swizzle_stride = 1024;
                if (stages == 3) named.push_back({tile.name + suffix + "_swizzle1024", config_from(swizzled)});
            }
        }
        if (both_along_k(g)) named.push_back({std::string(tile.name) + "_reg_transpose", config_from(transposed(tile, g))});
    }
    return named;
}

Config choose_default(const SearchSpace& space, const Gemm& g, const Device& device) {
    gemm::DefaultChoice choice(space);
    for (const WarpTiled& tile : kWarpTiles) {
        std::vector<ResolvedConfig> shapes = {warp_tiled(tile, 8, 4, g)};
        if (both_along_k(g)) shapes.push_back(transposed(tile, g));
        for (const int64_t min_blocks : {tile.min_blocks, int64_t{1}}) {
            for (const int64_t split_k : {1, 2, 4, 8}) {
                for (ResolvedConfig s : shapes) {
                    s.min_blocks = min_blocks;
                    s.split_k = split_k;
                    const double us = simt_f32::predict_us(g, s, device);
                    if (choice.wants(us)) choice.offer(config_from(s), us);
                }
            }
        }
    }
    return choice.choose();
}

class SimtF32 final : public StructuredFamily {
  public:
    std::string_view name() const override { return "gemm/simt_f32"; }
    std::string_view about() const override { return "f32 on CUDA cores: naive, and tiles through shared memory; any layout"; }
    int complexity_order() const override { return 10; }
    std::optional<std::string> refuses(const Problem& problem, const Device&) const override {
        const Gemm g(problem);
        const bool is_strict = problem.word("compute") == to_string(DType::f32) || gemm::refuses_short_sums(problem);
        if (g.in != DType::f32 || !is_strict) return "it multiplies f32 by f32 in f32";
        return gemm::refuses_large(g, 16, 16);
    }
    std::vector<Binding> facts(const Problem& problem) const override { return gemm::f32_facts(problem); }
    LaunchPlan plan(const Problem& problem, const Config& config, const Device&) const override {
        const ResolvedConfig s = resolve<ResolvedConfig>(config);
        return gemm::split_plan(problem, s, smem_bytes(s));
    }
    Predictor predictor(const Problem& problem, const Device& device) const override {
        return
            [g = Gemm(problem), device](const Config& c) { return simt_f32::predict_us(g, resolve<ResolvedConfig>(c), device); };
    }

  protected:
    std::vector<Parameter> parameters() const override { return ResolvedConfig::parameters(); }
    std::vector<Constraint> constraints(const Problem& problem, const Device& device) const override {
        const Gemm g(problem);
        std::vector<Constraint> all;
        add_tile_rules(all, g, device.limits);
        add_pipeline_rules(all, g, device.limits);
        add_transpose_rules(all, g);
        add_launch_rules(all, g, device.identity.sm_count);
        return all;
    }
    Config usual_config(const SearchSpace& rules, const Problem& problem, const Device& device) const override {
        return choose_default(rules, Gemm(problem), device);
    }
    std::vector<NamedConfig> named_configs(const Problem& problem, const Device&) const override {
        std::vector<NamedConfig> all = classic_configs();
        for (NamedConfig& named : warp_tiled_configs(Gemm(problem))) all.push_back(std::move(named));
        return all;
    }
};

}  // namespace

const Family& family_gemm_simt_f32() {
    static const Immortal<SimtF32> family;
    return *family;
}

}  // namespace autotune
