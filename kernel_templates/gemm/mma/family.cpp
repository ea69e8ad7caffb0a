#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "kernel_templates/gemm/mma/geometry.h"
#include "kernel_templates/gemm/op/gemm_problem.h"
#include "kernel_templates/gemm/shared/descent.h"
#include "kernel_templates/structured_family.h"
#include "src/core/immortal.h"
#include "src/core/integer_math.h"

namespace autotune {
namespace {

using namespace mma;
using gemm::i32;
using gemm::kMaxBlocks;
using gemm::kMaxExtent;
using gemm::one_dimension;
using gemm::packed_ld;
using std::int64_t;

// ---- the space ----

constexpr auto rule = rules_by<ResolvedConfig>();

bool parts_have_four_tiles(const Gemm& g, const ResolvedConfig& s) {
    return s.split_k == 1 || g.k >= 4 * s.split_k * s.block_k;
}
bool parts_are_not_empty(const Gemm& g, const ResolvedConfig& s) {
    return s.split_k == 1 || (s.split_k - 1) * k_per_split(g, s) < g.k;
}
bool parts_fill_idle_sms(const Gemm& g, const ResolvedConfig& s, int64_t sm_count) {
    return s.split_k == 1 || tiles(g, s) * s.split_k <= 4 * sm_count;
}

void add_tile_rules(std::vector<Constraint>& to, const Gemm& g) {
    const auto fits_problem = [](int64_t block, int64_t extent) { return block == 32 || block < 2 * extent; };
    to.push_back({"block_m is at least twice the problem's rows", {"block_m"}, rule([=](const ResolvedConfig& s) {
                      return fits_problem(s.block_m, g.m);
                  })});
    to.push_back({"block_n is at least twice the problem's columns", {"block_n"}, rule([=](const ResolvedConfig& s) {
                      return fits_problem(s.block_n, g.n);
                  })});
    to.push_back({"a warp's rows are not a multiple of 16", {"block_m", "warps_m"}, rule([](const ResolvedConfig& s) {
                      return s.block_m % (16 * s.warps_m) == 0;
                  })});
    to.push_back({"a warp's columns are not a multiple of 16", {"block_n", "warps_n"}, rule([](const ResolvedConfig& s) {
                      return s.block_n % (16 * s.warps_n) == 0;
                  })});
    to.push_back({"fewer than 2 warps", {"warps_m", "warps_n"}, rule([](const ResolvedConfig& s) { return s.warps() >= 2; })});
    const std::vector<std::string> tile = {"block_m", "block_n", "warps_m", "warps_n"};
    to.push_back({"a warp's tile is too small: shared memory would feed fewer than 2 mma a ldmatrix", tile,
                  rule([](const ResolvedConfig& s) { return s.warp_m() * s.warp_n() >= 512; })});
    to.push_back(gemm::warp_aspect_rule<ResolvedConfig>());
    to.push_back({"more than 8 warps on a tile that 8 can compute", tile,
                  rule([](const ResolvedConfig& s) { return s.warps() <= 8 || s.block_m * s.block_n >= 128 * 256; })});
}

void add_pipeline_rules(std::vector<Constraint>& to, const Gemm& g) {
    to.push_back({"block_k is more than twice K", {"block_k"}, rule([=](const ResolvedConfig& s) {
                      return s.block_k == 16 || s.block_k < 2 * g.k;
                  })});
    to.push_back({"a tile does not divide evenly among the threads",
                  {"block_m", "block_n", "warps_m", "warps_n", "block_k"},
                  rule([=](const ResolvedConfig& s) { return copies_evenly(g, s); })});
    to.push_back({"the ring is deeper than K", {"block_k", "stages"}, rule([=](const ResolvedConfig& s) {
                      return s.stages == 2 || (s.stages - 1) * s.block_k <= round_up(g.k, s.block_k);
                  })});
    to.push_back({"a split barrier without two register buffers",
                  {"reg_buffers", "split_barrier"},
                  rule([](const ResolvedConfig& s) { return s.split_barrier == 0 || s.reg_buffers == 2; })});
    to.push_back({"warps would meet before the next tile's copies are issued",
                  {"block_k", "stages", "split_barrier"},
                  rule([](const ResolvedConfig& s) { return s.split_barrier == 0 || s.stages > 2 || s.block_k > 32; })});
    to.push_back({"two register buffers although block_k has an odd number of mma steps",
                  {"block_k", "reg_buffers"},
                  rule([](const ResolvedConfig& s) { return s.reg_buffers == 1 || s.block_k % 32 == 0; })});
}

void add_resource_rules(std::vector<Constraint>& to, const Gemm& g, const DeviceLimits& limits) {
    to.push_back({"tiles exceed shared memory",
                  {"block_m", "block_n", "warps_m", "warps_n", "block_k", "stages", "smem_swizzle", "split_barrier"},
                  rule([=](const ResolvedConfig& s) { return smem_bytes(g, s) <= limits.smem_per_block_bytes; })});
    to.push_back({"min_blocks does not bind: below 256 threads two blocks always have the registers",
                  {"warps_m", "warps_n", "min_blocks"},
                  rule([](const ResolvedConfig& s) { return s.min_blocks == 1 || s.threads() >= 256; })});
    to.push_back({"accumulators and fragments exceed the registers",
                  {"block_m", "block_n", "warps_m", "warps_n", "block_k", "reg_buffers", "min_blocks"},
                  rule([=](const ResolvedConfig& s) { return registers_needed(g, s) <= registers_allowed(s, limits); })});
    to.push_back(
        {"min_blocks do not fit the SM's shared memory",
         {"block_m", "block_n", "warps_m", "warps_n", "block_k", "stages", "smem_swizzle", "split_barrier", "min_blocks"},
         rule([=](const ResolvedConfig& s) { return s.min_blocks * (smem_bytes(g, s) + 1024) <= limits.smem_per_sm_bytes; })});
    to.push_back({"pack although operands are aligned to 16 bytes: nothing to pack", {"pack"}, rule([=](const ResolvedConfig& s) {
                      return s.pack == 0 || std::min(g.align_a, g.align_b) < kChunkBytes;
                  })});
}

void add_launch_rules(std::vector<Constraint>& to, const Gemm& g, int sm_count) {
    to.push_back({"a part of K would have fewer than 4 tiles", {"block_k", "split_k"}, rule([=](const ResolvedConfig& s) {
                      return parts_have_four_tiles(g, s);
                  })});
    to.push_back({"a part of K would be empty", {"block_k", "split_k"}, rule([=](const ResolvedConfig& s) {
                      return parts_are_not_empty(g, s);
                  })});
    to.push_back({"split-K makes more than four blocks per SM",
                  {"block_m", "block_n", "split_k"},
                  rule([=](const ResolvedConfig& s) { return parts_fill_idle_sms(g, s, sm_count); })});
    to.push_back(gemm::panel_rule<ResolvedConfig>(g));
}

// ---- well-known points ----

// Two by four warps of four by four mma tiles, like the classic kernels: 128x128, one or two mma steps deep.
ResolvedConfig classic(int64_t block_k, int64_t stages) {
    return {.block_m = 128,
            .block_n = 128,
            .warps_m = 2,
            .warps_n = 4,
            .block_k = block_k,
            .stages = stages,
            .smem_swizzle = 0,
            .reg_buffers = 1,
            .split_barrier = 0,
            .min_blocks = 1,
            .pack = 0,
            .split_k = 1,
            .raster = 0,
            .swizzle_stride = 0};
}

void add_named(std::vector<NamedConfig>& to, const std::string& name, const ResolvedConfig& shape) {
    to.push_back({name, config_from(shape)});
    for (const int64_t stride : {1024, 2048, 4096}) {
        ResolvedConfig swizzled = shape;
        swizzled.swizzle_stride = stride;
        to.push_back({name + "_swizzle" + std::to_string(stride), config_from(swizzled)});
    }
}

// x2 is two mma steps deep, smem_swizzle XORs shared-memory addresses instead of padding rows, rbuf loads fragments ahead.
std::vector<NamedConfig> named_configs() {
    const std::string base = "mma_m16n8k16_mma2x4_warp4x4";
    std::vector<NamedConfig> named = {{base, config_from(classic(16, 2))}};
    for (const int64_t stages : {2, 3, 4, 5}) {
        const std::string suffix = "_stage" + std::to_string(stages) + "_dsmem";
        for (const bool smem_swizzle : {false, true}) {
            ResolvedConfig shallow = classic(16, stages);
            ResolvedConfig deep = classic(32, stages);
            shallow.smem_swizzle = deep.smem_swizzle = smem_swizzle ? 1 : 0;
            const std::string swizzled = smem_swizzle ? "_smem_swizzle" : "";
            add_named(named, base + swizzled + suffix, shallow);
            add_named(named, base + "x2" + swizzled + suffix, deep);
            deep.reg_buffers = 2;
            add_named(named, base + "x2" + swizzled + "_rbuf" + suffix, deep);
        }
    }
    return named;
}

// Tiles worth trying first, large to small: {block_m, block_n, warps_m, warps_n, block_k, stages}.
constexpr std::array<std::array<int64_t, 6>, 16> kGoodTiles = {{{128, 256, 2, 4, 32, 4},
                                                                {256, 128, 4, 2, 32, 4},
                                                                {128, 256, 2, 4, 64, 3},
                                                                {128, 128, 2, 2, 32, 4},
                                                                {128, 128, 2, 2, 32, 3},
                                                                {64, 128, 2, 2, 64, 3},
                                                                {128, 64, 2, 2, 64, 3},
                                                                {64, 64, 2, 2, 64, 4},
                                                                {64, 64, 2, 2, 32, 3},
                                                                {192, 96, 4, 2, 64, 3},
                                                                {64, 32, 2, 2, 32, 3},
                                                                {32, 96, 2, 2, 32, 4},
                                                                {32, 64, 1, 4, 32, 3},
                                                                {32, 64, 1, 2, 64, 4},
                                                                {32, 64, 1, 2, 16, 2},
                                                                {32, 32, 1, 2, 16, 2}}};

// The divisions {warps_m, warps_n} of two, four and eight warps.
constexpr std::array<std::array<int64_t, 2>, 7> kWarps = {{{1, 2}, {2, 1}, {1, 4}, {2, 2}, {4, 1}, {2, 4}, {4, 2}}};

// Offers configs with another tile, other warps, another ring or other parts of K.
void for_neighbours(const ResolvedConfig& of, const gemm::Descent<ResolvedConfig>::Offer& offer) {
    const auto offer_all = [&](ResolvedConfig s) {
        s.reg_buffers = s.block_k >= 32 ? 2 : 1;
        offer(s);
    };
    for (const int64_t block_m : kRows) {
        for (const int64_t block_n : kColumns) {
            for (const auto& [warps_m, warps_n] : kWarps) {
                ResolvedConfig s = of;
                s.block_m = block_m, s.block_n = block_n, s.warps_m = warps_m, s.warps_n = warps_n;
                if (s.block_m == of.block_m || s.block_n == of.block_n) offer_all(s);
            }
        }
    }
    for (const int64_t block_k : kDepths) {
        for (const int64_t stages : kStages) {
            ResolvedConfig s = of;
            s.block_k = block_k, s.stages = stages;
            offer_all(s);
        }
    }
    for (const int64_t split_k : kParts) {
        ResolvedConfig s = of;
        s.split_k = split_k;
        offer_all(s);
    }
}

Config choose_default(const SearchSpace& space, const Gemm& g, const Device& device) {
    const bool may_pack = std::min(g.align_a, g.align_b) < kChunkBytes;
    const gemm::Descent<ResolvedConfig>::Family family = {[&](const ResolvedConfig& s) { return mma::predict_us(g, s, device); },
                                                          [](const ResolvedConfig& s) { return config_from(s); },
                                                          &for_neighbours};
    const auto offer_start = [&](int, gemm::Descent<ResolvedConfig>& descent) {
        for (const auto& t : kGoodTiles) {
            for (const int64_t split_k : {1, 2, 4, 8}) {
                for (const auto& [stride, pack] : {std::pair<int64_t, int64_t>{0, 0}, {1024, 0}, {0, 1}}) {
                    if (pack != 0 && !may_pack) continue;
                    descent.offer({.block_m = t[0],
                                   .block_n = t[1],
                                   .warps_m = t[2],
                                   .warps_n = t[3],
                                   .block_k = t[4],
                                   .stages = t[5],
                                   .smem_swizzle = 1,
                                   .reg_buffers = t[4] >= 32 ? 2 : 1,
                                   .split_barrier = 0,
                                   .min_blocks = 1,
                                   .pack = pack,
                                   .split_k = split_k,
                                   .raster = 0,
                                   .swizzle_stride = stride});
                }
            }
        }
    };
    return gemm::best_of_descents<ResolvedConfig>(space, family, 1, offer_start);
}

// Chooses the parts of K and the panels that are predicted fastest.
Relaunched relaunched(ResolvedConfig s, const Gemm& g, const Device& device) {
    ResolvedConfig best = s;
    double best_us = std::numeric_limits<double>::infinity();
    const int64_t own_stride = s.swizzle_stride;
    for (const int64_t split_k : kParts) {
        s.split_k = split_k;
        if (!parts_have_four_tiles(g, s) || !parts_are_not_empty(g, s) || !parts_fill_idle_sms(g, s, device.identity.sm_count))
            continue;
        for (const int64_t stride : {own_stride, int64_t{0}}) {
            s.swizzle_stride = stride;
            if (!order_of(s).is_proper(g)) continue;
            const double us = mma::predict_us(g, s, device);
            if (us < best_us) best = s, best_us = us;
        }
    }
    return {{{"split_k", best.split_k}, {"swizzle_stride", best.swizzle_stride}}, best_us};
}

// ---- the launch ----

struct Workspace {
    int64_t packed_lda = 0, packed_ldb = 0;
    std::size_t packed_a = 0, packed_b = 0, partial = 0, bytes = 0;
};

Workspace workspace_of(const Problem& problem, const Gemm& g, const ResolvedConfig& s) {
    const TypedMatrix a = matrix_view(problem.tensors[gemm::kA]);
    const TypedMatrix b = matrix_view(problem.tensors[gemm::kB]);
    gemm::WorkspaceLayout layout;
    Workspace w;
    w.packed_lda = packed_ld(a);
    w.packed_ldb = packed_ld(b);
    if (s.packs(g.align_a)) w.packed_a = layout.take(gemm::packed_bytes(a));
    if (s.packs(g.align_b)) w.packed_b = layout.take(gemm::packed_bytes(b));
    if (s.split_k > 1) w.partial = layout.take(s.split_k * g.batch * g.m * round_up(g.n, 4) * 4);
    w.bytes = layout.bytes();
    return w;
}

LaunchStep main_step(const Problem& problem, const Gemm& g, const ResolvedConfig& s, const Workspace& w) {
    const std::array<TypedMatrix, 3> o = gemm::matrices(problem);
    std::vector<Argument> arguments = gemm::arguments(problem);
    arguments.back() = WorkspaceArg{w.partial};
    for (const int64_t value : {s.raster, order_of(s).group(g), s.split_k, std::min(k_per_split(g, s), kMaxExtent)})
        arguments.push_back(i32(value));
    for (const Argument& argument :
         {Argument{WorkspaceArg{w.packed_a}}, Argument{I64Arg{w.packed_lda}}, Argument{I64Arg{w.packed_lda * o[0].rows}},
          Argument{WorkspaceArg{w.packed_b}}, Argument{I64Arg{w.packed_ldb}}, Argument{I64Arg{w.packed_ldb * o[1].rows}}}) {
        arguments.push_back(argument);
    }
    return {.entry = "",
            .grid = one_dimension(tiles(g, s) * s.split_k),
            .block = {narrow<std::uint32_t>(s.threads()), 1, 1},
            .cluster = {},
            .dynamic_smem_bytes = static_cast<std::size_t>(smem_bytes(g, s)),
            .programmatic_dependent = false,
            .arguments = std::move(arguments)};
}

LaunchStep reduce_step(const Problem& problem, const Gemm& g, const ResolvedConfig& s, const Workspace& w) {
    const TypedMatrix c = matrix_view(problem.tensors[2]);
    return {.entry = "_reduce",
            .grid = one_dimension(ceil_div(g.batch * g.m * ceil_div(g.n, 4), 256)),
            .block = {256, 1, 1},
            .cluster = {},
            .dynamic_smem_bytes = 0,
            .programmatic_dependent = false,
            .arguments = {WorkspaceArg{w.partial}, TensorArg{2}, ScalarArg{0}, ScalarArg{1}, i32(g.m), i32(g.n), I64Arg{c.ld},
                          i32(g.batch), I64Arg{c.batch_stride}, i32(s.split_k)}};
}

class Mma final : public StructuredFamily {
  public:
    std::string_view name() const override { return "gemm/mma"; }
    std::string_view about() const override { return "mma.sync m16n8k16 fed by a cp.async ring and ldmatrix, sm_80 and later"; }

    std::optional<std::string> refuses(const Problem& problem, const Device& device) const override {
        const Gemm g(problem);
        if (device.identity.cc() < 80) return "mma.sync m16n8k16 and cp.async need sm_80 or later";
        if (auto reason = gemm::refuses_half_product(problem)) return reason;
        if (ceil_div(g.m, 32) * ceil_div(g.n, 32) > kMaxBlocks / std::max<int64_t>(1, g.batch))
            return "C has more tiles than a grid has blocks";
        return std::nullopt;
    }
    int complexity_order() const override { return 30; }

    std::vector<Binding> facts(const Problem& problem) const override { return gemm::facts(problem); }

    LaunchPlan plan(const Problem& problem, const Config& config, const Device&) const override {
        const Gemm g(problem);
        const ResolvedConfig s = resolve<ResolvedConfig>(config);
        LaunchPlan plan;
        if (g.m == 0 || g.n == 0 || g.batch == 0) return plan;
        const Workspace w = workspace_of(problem, g, s);
        plan.workspace_bytes = w.bytes;
        if (s.packs(g.align_a) && g.k > 0) plan.steps.push_back(gemm::pack_step(matrix_view(problem.tensors[0]), 0, w.packed_a));
        if (s.packs(g.align_b) && g.k > 0) plan.steps.push_back(gemm::pack_step(matrix_view(problem.tensors[1]), 1, w.packed_b));
        plan.steps.push_back(main_step(problem, g, s, w));
        if (s.split_k > 1) plan.steps.push_back(reduce_step(problem, g, s, w));
        return plan;
    }

    Predictor predictor(const Problem& problem, const Device& device) const override {
        return [g = Gemm(problem), device](const Config& config) {
            return mma::predict_us(g, resolve<ResolvedConfig>(config), device);
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
        add_pipeline_rules(all, g);
        add_resource_rules(all, g, device.limits);
        add_launch_rules(all, g, device.identity.sm_count);
        return all;
    }
    Config usual_config(const SearchSpace& rules, const Problem& problem, const Device& device) const override {
        return choose_default(rules, Gemm(problem), device);
    }
    std::vector<NamedConfig> named_configs(const Problem&, const Device&) const override { return autotune::named_configs(); }
};

}  // namespace

const Family& family_gemm_mma() {
    static const Immortal<Mma> family;
    return *family;
}

}  // namespace autotune
