#include <array>

#include "kernel_templates/gemm/gemm_problem.h"
#include "kernel_templates/gemm/wgmma/defaults.h"
#include "kernel_templates/gemm/wgmma/launch.h"
#include "kernel_templates/gemm/wgmma/rules.h"
#include "kernel_templates/registry.h"

namespace autotune {
namespace {

using std::int64_t;
using wgmma::ceil_div;
using wgmma::Gemm;
using wgmma::Shape;
using wgmma::Tile;

std::vector<Parameter> parameters() {
    const auto compile = ParameterKind::compile;
    const auto launch = ParameterKind::launch;
    std::vector<int64_t> widths;
    for (int64_t n = 16; n <= 256; n += 16) widths.push_back(n);
    return {
        {"block_m", {64, 128, 192, 256}, compile, "rows of a tile, on wgmma's M side"},
        {"block_n", widths, compile, "columns of a tile, on wgmma's N side"},
        {"block_k", {32, 64, 128}, compile, "depth of a stage"},
        {"math_groups", {1, 2, 3}, compile, "warpgroups that multiply"},
        {"pingpong", {0, 1}, compile, "0: math groups share a tile; 1: each has its own"},
        {"cluster_m", {1, 2, 4}, compile, "blocks along M that share a tile of the N-side operand by multicast"},
        {"cluster_n", {1, 2, 4}, compile, "blocks along N that share a tile of the M-side operand by multicast"},
        {"cluster_k", {1, 2, 4, 8}, compile, "blocks that divide the K of a tile and add it through their shared memory"},
        {"swap_ab", {0, 1}, compile, "1: computes the transpose, so that few rows become few columns"},
        {"tma_store", {0, 1}, compile, "1: C leaves through shared memory and TMA, under the next tile's multiplications"},
        {"store_buffers", {1, 2, 3, 4}, compile, "spans of C that may be on their way to memory by TMA"},
        {"tma_swizzle", {32, 64, 128}, compile, "bytes of an operand's row that a swizzle pattern spans"},
        {"reduce_kernel", {0, 1}, compile, "who adds the parts of split-K: 0: the last block of a tile, 1: a second kernel"},
        {"stages", {2, 3, 4, 5, 6, 7, 8, 9, 10, 12}, launch, "stages of the ring"},
        {"split_k", {0, 1, 2, 3, 4, 6, 8, 12, 16}, launch, "parts of K; 0: stream-K"},
        {"raster", {0, 1, 2}, launch, "tiles in sequence go along 0: M, 1: N, 2: a Hilbert curve in squares"},
        {"group", {1, 4, 8, 16}, launch, "tiles along that direction before the other advances, or a square's side"},
        {"evict_first", {0, 1, 2}, launch, "L2 drops first what is read of 0: neither, 1: the M-side, 2: the N-side operand"},
        {"pdl", {0, 1}, launch, "1: programmatic dependent launch: blocks start while the kernel before ends"},
        {"prefetch_steps", {0, 8, 16, 32}, launch, "first K steps that are fetched into L2 before the kernel's turn"},
        {"prefetch_all", {0, 1}, launch, "who does: 0: each block for its first tile, 1: those on idle SMs for all tiles"},
    };
}

// Tiles worth knowing, large to small. Not among them: ping-pong 128x176 (spills 36 bytes with clusters in some layouts under
// NVRTC 13.0, though it wins products of short K) and 128x192 (spills 288).
constexpr std::array<Tile, 13> kTiles = {{{"coop_128x256x64", 128, 256, 64, 2, 0},
                                          {"coop_256x128x64", 256, 128, 64, 2, 0},
                                          {"coop_128x192x64", 128, 192, 64, 2, 0},
                                          {"pingpong_128x160x64", 128, 160, 64, 2, 1},
                                          {"pingpong_128x128x64", 128, 128, 64, 2, 1},
                                          {"pingpong_64x256x64", 64, 256, 64, 2, 1},
                                          {"coop_128x128x128", 128, 128, 128, 2, 0},
                                          {"coop_128x64x128", 128, 64, 128, 2, 0},
                                          {"pingpong_64x128x64", 64, 128, 64, 2, 1},
                                          {"single_64x128x128", 64, 128, 128, 1, 0},
                                          {"single_64x64x128", 64, 64, 128, 1, 0},
                                          {"single_64x32x128", 64, 32, 128, 1, 0},
                                          {"single_64x16x128", 64, 16, 128, 1, 0}}};
// Tiles of which the registers hold sums in f16 alone.
constexpr std::array<Tile, 4> kHalfSumTiles = {{{"coop_256x256x64", 256, 256, 64, 2, 0, 1},
                                                {"coop_256x192x64", 256, 192, 64, 2, 0, 1},
                                                {"pingpong_128x256x64", 128, 256, 64, 2, 1, 1},
                                                {"pingpong_128x192x64", 128, 192, 64, 2, 1}}};

wgmma::Candidates candidates(const Gemm& g, const Device& device) {
    std::vector<Tile> tiles;
    if (g.acc_f16) tiles.assign(kHalfSumTiles.begin(), kHalfSumTiles.end());
    tiles.insert(tiles.end(), kTiles.begin(), kTiles.end());
    return {g, device, tiles, {}};
}

class Wgmma final : public Family {
  public:
    std::string_view name() const override { return "gemm/wgmma"; }
    std::string_view about() const override { return "wgmma fed by TMA, warp-specialised and persistent, sm_90a alone"; }

    std::optional<std::string> refuses(const Problem& problem, const Device& device) const override {
        if (device.identity.cc() != 90) return "wgmma exists on compute capability 9.0 alone";
        if (auto reason = gemm::refuses_half_product(problem)) return reason;
        const Gemm g(problem);
        if (g.out == DType::f32) return "it writes f16 or bf16";
        const double tiles =
            static_cast<double>(ceil_div(g.m, 64)) * static_cast<double>(ceil_div(g.n, 16)) * static_cast<double>(g.batch);
        if (tiles > 1e9 / 16) return "C has more tiles than 32-bit numbers count";
        return std::nullopt;
    }
    int ladder_rung() const override { return 40; }

    SearchSpace rules(const Problem& problem, const Device& device) const override {
        const Gemm g(problem);
        SearchSpace space;
        space.parameters = parameters();
        space.constraints = wgmma::rules(g, device);
        return space;
    }
    Config default_config(const Problem& problem, const Device& device) const override {
        return wgmma::choose_default(rules(problem, device), candidates(Gemm(problem), device));
    }
    SearchSpace space(const Problem& problem, const Device& device) const override {
        const Gemm g(problem);
        SearchSpace space = rules(problem, device);
        const wgmma::Candidates from = candidates(g, device);
        space.default_config = wgmma::choose_default(space, from);
        wgmma::add_named(space, "wgmma_", from);
        return space;
    }

    std::vector<Binding> facts(const Problem& problem) const override { return gemm::facts(problem); }

    LaunchPlan plan(const Problem& problem, const Config& config, const Device& device) const override {
        return wgmma::plan(problem, Shape(config, Gemm(problem)), device);
    }

    Predictor predictor(const Problem& problem, const Device& device) const override {
        return [g = Gemm(problem), device](const Config& config) { return wgmma::predict(g, Shape(config, g), device); };
    }
};

}  // namespace

const Family& family_gemm_wgmma() {
    static const Wgmma family;
    return family;
}

}  // namespace autotune
