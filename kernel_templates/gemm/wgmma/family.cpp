#include <algorithm>
#include <array>
#include <functional>

#include "kernel_templates/gemm/gemm_problem.h"
#include "kernel_templates/gemm/wgmma/geometry.h"
#include "kernel_templates/registry.h"

namespace autotune {
namespace {

using gemm::DefaultChoice;
using gemm::i32;
using gemm::pack_step;
using gemm::packed_ld;
using std::int64_t;
using wgmma::ceil_div;
using wgmma::Gemm;
using wgmma::Grid;
using wgmma::Shape;

// Whether reading the one large operand bounds the problem.
bool has_few_rows(const Gemm& g) {
    return std::min(g.m, g.n) <= 128;
}

// ---- the space ----

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

using Rule = std::function<bool(const Config&)>;
// Makes rules of what is asked of a config's shape on the problem.
auto rules_on(const Gemm& g) {
    return [g](std::function<bool(const Shape&)> holds) -> Rule {
        return [g, holds = std::move(holds)](const Config& c) { return holds(Shape(c, g)); };
    };
}

void add_tile_rules(std::vector<Constraint>& to, const Gemm& g) {
    const auto rule = rules_on(g);
    to.push_back({"a math group's rows are not 64 or 128", {"block_m", "math_groups", "pingpong"}, rule([](const Shape& s) {
                      return s.block_m % (64 * s.groups_per_tile()) == 0 && s.bands() <= 2;
                  })});
    to.push_back({"ping-pong takes two math groups", {"math_groups", "pingpong"}, rule([](const Shape& s) {
                      return s.pingpong == 0 || s.math_groups == 2;
                  })});
    to.push_back({"accumulators exceed the registers that setmaxnreg can give",
                  {"block_m", "math_groups", "pingpong", "block_n"},
                  rule([](const Shape& s) { return s.accumulators() <= (s.math_groups == 3 ? 96 : 192); })});
    to.push_back({"the swizzle spans more than block_k, or less with no need",
                  {"block_k", "tma_swizzle"},
                  rule([](const Shape& s) { return s.block_k == 32 ? s.tma_swizzle <= 64 : s.tma_swizzle == 128; })});
    to.push_back({"fewer than 64 rows fill wgmma's M side only with swap_ab", {"swap_ab"}, rule([=](const Shape& s) {
                      return s.swap_ab == 1 || g.m > 32 || g.m >= g.n;
                  })});
    to.push_back({"a tile is at least twice as long or wide as C", {"block_m", "block_n", "swap_ab"}, rule([=](const Shape& s) {
                      const int64_t rows = s.swap_ab != 0 ? g.n : g.m;
                      const int64_t columns = s.swap_ab != 0 ? g.m : g.n;
                      return (s.block_m == 64 || s.block_m < 2 * rows) && (s.block_n == 16 || s.block_n < columns + 64);
                  })});
}

// Whole chunks of 16 bytes leave: past the end of a row that is not a multiple of them.
bool tma_can_store(const Gemm& g) {
    return g.align_c == gemm::kChunkBytes && g.n * gemm::kElementBytes % gemm::kChunkBytes == 0;
}

int64_t deepest_ring(const Shape& shape, const Device& device) {
    for (const int64_t stages : {12, 10, 9, 8, 7, 6, 5, 4, 3})
        if (shape.smem_bytes(stages) <= device.limits.smem_per_block_bytes) return stages;
    return 2;
}

void add_store_rules(std::vector<Constraint>& to, const Gemm& g, const Device& device) {
    const auto rule = rules_on(g);
    to.push_back({"TMA stores rows of a multiple of 16 bytes", {"tma_store"}, rule([=](const Shape& s) {
                      return s.tma_store == 0 || tma_can_store(g);
                  })});
    to.push_back({"more than two buffers take all spans of a tile whose groups wait for each other",
                  {"block_n", "pingpong", "cluster_k", "tma_store", "store_buffers"},
                  rule([](const Shape& s) {
                      return s.store_buffers <= 2 || (s.tma_store == 1 && s.pingpong == 0 && s.cluster_k == 1 &&
                                                      s.block_n / s.span_c() == s.store_buffers);
                  })});
    to.push_back({"one buffer is for tiles whose ring it makes deeper than two leave it, which is less than 256 k",
                  {"block_m", "block_n", "block_k", "math_groups", "pingpong", "cluster_k", "tma_store", "store_buffers"},
                  rule([=](const Shape& s) {
                      if (s.store_buffers != 1) return true;
                      Shape with_two = s;
                      with_two.store_buffers = 2;
                      const int64_t left = deepest_ring(with_two, device);
                      return s.tma_store == 1 && left * s.block_k < 256 && left < deepest_ring(s, device);
                  })});
    to.push_back({"outputs that TMA can store are, but for small ones and blocks that divide K",
                  {"cluster_k", "tma_store", "reduce_kernel"},
                  rule([=](const Shape& s) {
                      return s.tma_store == 1 || !tma_can_store(g) || s.cluster_k > 1 || s.reduce_kernel == 1 ||
                             g.m * g.n * g.batch <= (1 << 18);
                  })});
    to.push_back({"what a second kernel adds is not stored by TMA", {"tma_store", "reduce_kernel"}, rule([](const Shape& s) {
                      return s.tma_store == 0 || s.reduce_kernel == 0;
                  })});
}

void add_cluster_rules(std::vector<Constraint>& to, const Gemm& g, const Device& device) {
    const auto rule = rules_on(g);
    const std::vector<std::string> grid = {"block_m", "block_n", "block_k", "cluster_m", "cluster_n", "cluster_k", "swap_ab"};
    to.push_back({"a cluster has at most 8 blocks, which either share tiles or divide K",
                  {"cluster_m", "cluster_n", "cluster_k"},
                  rule([](const Shape& s) { return s.sharing_blocks() <= 8 && (s.cluster_k == 1 || s.sharing_blocks() == 1); })});
    to.push_back({"blocks that divide K work at one tile", {"pingpong", "cluster_k"}, rule([](const Shape& s) {
                      return s.cluster_k == 1 || s.pingpong == 0;
                  })});
    to.push_back({"a block's share of a tile is not whole swizzle patterns",
                  {"block_m", "block_n", "block_k", "cluster_m", "cluster_n", "swap_ab"},
                  rule([=](const Shape& s) {
                      // Shared along K are the rows of a tile that is stored along M or N.
                      const bool x_k_major = s.swap_ab != 0 ? g.trans_b : !g.trans_a;
                      const bool y_k_major = s.swap_ab != 0 ? !g.trans_a : g.trans_b;
                      return (x_k_major ? s.block_m : s.block_k) % (8 * s.cluster_n) == 0 &&
                             (y_k_major ? s.block_n : s.block_k) % (8 * s.cluster_m) == 0;
                  })});
    to.push_back({"accumulators do not divide among the cluster's blocks",
                  {"block_m", "block_n", "math_groups", "pingpong", "cluster_k", "tma_store"},
                  rule([](const Shape& s) {
                      if (s.cluster_k == 1) return true;
                      if (s.tma_store != 0) return s.bands() == 1 && s.block_n / s.span_c() % s.cluster_k == 0;
                      return s.bands() * s.block_n / 8 % s.cluster_k == 0;
                  })});
    to.push_back({"clusters of 4 and more are for problems of at most four waves of tiles", grid, rule([=](const Shape& s) {
                      return s.sharing_blocks() <= 2 ||
                             Grid(g, s, device).tiles * s.sharing_blocks() <= int64_t{4} * device.identity.sm_count;
                  })});
    to.push_back({"more than half of a cluster's tiles lie outside of C",
                  {"block_m", "block_n", "cluster_m", "cluster_n", "swap_ab"},
                  rule([=](const Shape& s) {
                      const int64_t rows = s.swap_ab != 0 ? g.n : g.m;
                      const int64_t columns = s.swap_ab != 0 ? g.m : g.n;
                      return (s.cluster_m == 1 || rows > s.block_m * s.cluster_m / 2) &&
                             (s.cluster_n == 1 || columns > s.block_n * s.cluster_n / 2);
                  })});
    to.push_back({"blocks divide K where all of them run at once, with at least 4 steps each", grid, rule([=](const Shape& s) {
                      if (s.cluster_k == 1) return true;
                      const Grid at(g, s, device);
                      return at.tiles <= at.room && at.steps >= 4 * s.cluster_k;
                  })});
}

// Whether the ring is the deepest with which two blocks fit on an SM: those of the next kernel then fetch while this one's work.
bool leaves_room_for_the_next_kernel(const Shape& s, const Device& device) {
    const int64_t deeper = s.stages == 10 ? 12 : s.stages + 1;
    return fits_twice(s, s.stages, device) && !fits_twice(s, deeper, device);
}

void add_pipeline_rules(std::vector<Constraint>& to, const Gemm& g, const Device& device) {
    const auto rule = rules_on(g);
    const std::vector<std::string> tile = {"block_m",   "block_n",   "block_k",       "math_groups", "pingpong",
                                           "cluster_k", "tma_store", "store_buffers", "stages"};
    to.push_back({"block_k is at least twice K", {"block_k"}, rule([=](const Shape& s) {
                      return s.block_k <= 64 || s.block_k < 2 * g.k;
                  })});
    to.push_back({"steps of 32 are for tiles of which few deeper steps fit, or for short K",
                  {"block_m", "block_n", "block_k"},
                  rule([=](const Shape& s) {
                      return s.block_k != 32 || g.k <= 256 ||
                             8 * 64 * (s.block_m + s.block_n) > device.limits.smem_per_block_bytes * 3 / 4;
                  })});
    to.push_back({"the ring exceeds shared memory", tile,
                  rule([=](const Shape& s) { return s.smem_bytes(s.stages) <= device.limits.smem_per_block_bytes; })});
    to.push_back({"a ring with two more stages fits: a short one only waits more", tile, rule([=](const Shape& s) {
                      const int64_t deeper = s.stages + 2;
                      return deeper > 12 || s.smem_bytes(deeper) > device.limits.smem_per_block_bytes ||
                             (has_few_rows(g) && leaves_room_for_the_next_kernel(s, device));
                  })});
}

void add_launch_rules(std::vector<Constraint>& to, const Gemm& g, const Device& device) {
    const auto rule = rules_on(g);
    const std::vector<std::string> grid = {"block_m",   "block_n",   "block_k", "cluster_m",
                                           "cluster_n", "cluster_k", "swap_ab", "split_k"};
    to.push_back({"K is divided within clusters or among them", {"cluster_k", "split_k"}, rule([](const Shape& s) {
                      return s.cluster_k == 1 || s.split_k == 1;
                  })});
    to.push_back({"a second kernel adds the parts of split-K alone", {"split_k", "reduce_kernel"}, rule([](const Shape& s) {
                      return s.reduce_kernel == 0 || s.split_k > 1;
                  })});
    to.push_back({"a part of K would have fewer than 4 steps", grid,
                  rule([=](const Shape& s) { return s.split_k <= 1 || Grid(g, s, device).steps >= 4 * s.split_k; })});
    to.push_back({"split-K only where tiles alone leave SMs idle", grid, rule([=](const Shape& s) {
                      return s.split_k <= 1 ||
                             Grid(g, s, device).tiles * s.cluster_blocks() * s.split_k <= 2 * device.identity.sm_count;
                  })});
    to.push_back({"stream-K only where a last wave, after a full one, is not full", grid, rule([=](const Shape& s) {
                      if (s.split_k != 0) return true;
                      const Grid at(g, s, device);
                      return at.tiles > at.clusters && at.tiles % at.clusters != 0;
                  })});
    const std::vector<std::string> order = {"block_m", "block_n", "cluster_m", "cluster_n", "swap_ab", "raster", "group"};
    to.push_back({"tiles do not reach across a group", order, rule([=](const Shape& s) {
                      const Grid at(g, s, device);
                      return s.group == 1 || s.group <= (s.raster == 1 ? at.count_n : at.count_m);
                  })});
    to.push_back({"one direction has a single tile: the order is the same", order, rule([=](const Shape& s) {
                      const Grid at(g, s, device);
                      return (at.count_m > 1 && at.count_n > 1) || (s.raster == 0 && s.group == 1);
                  })});
    to.push_back(
        {"Hilbert's curve is for squares of tiles of which more than one wave is to come", order, rule([=](const Shape& s) {
             if (s.raster != 2) return true;
             const Grid at(g, s, device);
             return s.group >= 4 && at.count_n >= s.group && at.tiles * s.sharing_blocks() > device.identity.sm_count;
         })});
    to.push_back(
        {"a kernel of a few microseconds always starts under the end of the one before", {"pdl"}, rule([=](const Shape& s) {
             return s.pdl == 1 || static_cast<double>(g.m * g.n) * static_cast<double>(g.k * g.batch) >= 3e10;
         })});
    to.push_back({"L2 hints are for operands that are read once", {"evict_first"}, rule([=](const Shape& s) {
                      return s.evict_first == 0 || has_few_rows(g);
                  })});
}

// The blocks of a grid that all run at once, one on an SM and with one tile or part; 0 for other grids.
int64_t blocks_at_once(const Gemm& g, const Shape& s, const Device& device) {
    const Grid at(g, s, device);
    const int64_t blocks = at.tiles * at.parts * s.cluster_blocks();
    return blocks <= device.identity.sm_count ? blocks : 0;
}

void add_prefetch_rules(std::vector<Constraint>& to, const Gemm& g, const Device& device) {
    const auto rule = rules_on(g);
    const std::vector<std::string> grid = {"block_m",   "block_n", "block_k", "cluster_m",     "cluster_n",
                                           "cluster_k", "swap_ab", "split_k", "prefetch_steps"};
    std::vector<std::string> grid_and_who = grid;
    grid_and_who.emplace_back("prefetch_all");
    to.push_back({"what is packed is not there before the kernel's turn", {"prefetch_steps"}, rule([=](const Shape& s) {
                      return s.prefetch_steps == 0 || !g.packs_any();
                  })});
    to.push_back({"only a kernel that starts before its turn fetches early", {"pdl", "prefetch_steps"}, rule([](const Shape& s) {
                      return s.prefetch_steps == 0 || s.pdl == 1;
                  })});
    to.push_back(
        {"an early fetch is for few rows or columns, or for blocks that all run at once", grid,
         rule([=](const Shape& s) { return s.prefetch_steps == 0 || has_few_rows(g) || blocks_at_once(g, s, device) > 0; })});
    to.push_back({"prefetch_steps is at least twice what a block has", grid, rule([=](const Shape& s) {
                      return s.prefetch_steps == 0 || s.prefetch_steps < 2 * Grid(g, s, device).steps_each(s);
                  })});
    to.push_back(
        {"blocks on idle SMs fetch for all where all run at once and leave an SM", grid_and_who, rule([=](const Shape& s) {
             if (s.prefetch_all == 0) return true;
             const int64_t blocks = blocks_at_once(g, s, device);
             return s.prefetch_steps > 0 && blocks > 0 && blocks < device.identity.sm_count;
         })});
}

struct Tile {
    const char* name;
    int64_t block_m, block_n, block_k, math_groups, pingpong, store_buffers = 2;
};
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

std::vector<Tile> tiles_for(const Gemm& g) {
    std::vector<Tile> tiles;
    if (g.acc_f16) tiles.assign(kHalfSumTiles.begin(), kHalfSumTiles.end());
    tiles.insert(tiles.end(), kTiles.begin(), kTiles.end());
    return tiles;
}

struct Corner {
    int64_t cluster_m, cluster_k, swap_ab, tma_store, split_k, reduce_kernel, group;
};

Config corner_config(const Tile& t, const Corner& corner, const Gemm& g, const Device& device) {
    Config config = {{"block_m", t.block_m},
                     {"block_n", t.block_n},
                     {"block_k", t.block_k},
                     {"math_groups", t.math_groups},
                     {"pingpong", t.pingpong},
                     {"cluster_m", corner.cluster_m},
                     {"cluster_n", 1},
                     {"cluster_k", corner.cluster_k},
                     {"swap_ab", corner.swap_ab},
                     {"tma_store", corner.tma_store},
                     {"store_buffers", corner.tma_store != 0 ? t.store_buffers : 2},
                     {"tma_swizzle", 128},
                     {"reduce_kernel", corner.reduce_kernel},
                     {"stages", 2},
                     {"split_k", corner.split_k},
                     {"raster", 0},
                     {"group", corner.group},
                     {"evict_first", 0},
                     {"pdl", 1},
                     {"prefetch_steps", 0},
                     {"prefetch_all", 0}};
    config.set("stages", deepest_ring(Shape(config, g), device));
    return config;
}

// The shape of corner_config() with another corner than that of `first`: without the names, which take most of the time.
Shape corner_shape(const Shape& first, const Tile& t, const Corner& corner, const Device& device) {
    Shape s = first;
    s.cluster_m = corner.cluster_m;
    s.cluster_k = corner.cluster_k;
    s.swap_ab = corner.swap_ab;
    s.tma_store = corner.tma_store;
    s.store_buffers = corner.tma_store != 0 ? t.store_buffers : 2;
    s.reduce_kernel = corner.reduce_kernel;
    s.split_k = corner.split_k;
    s.group = corner.group;
    s.stages = deepest_ring(s, device);
    return s;
}

// {cluster_k, split_k, reduce_kernel}: ways to divide K.
constexpr std::array<std::array<int64_t, 3>, 9> kDivisions = {
    {{1, 1, 0}, {2, 1, 0}, {4, 1, 0}, {1, 2, 0}, {1, 4, 0}, {1, 8, 0}, {1, 2, 1}, {1, 4, 1}, {1, 8, 1}}};

Config choose_default(const SearchSpace& space, const Gemm& g, const Device& device) {
    DefaultChoice choice(space);
    for (const Tile& tile : tiles_for(g)) {
        const Shape first(corner_config(tile, {1, 1, 0, 1, 1, 0, 8}, g, device), g);
        for (const int64_t swap_ab : {0, 1}) {
            for (const int64_t tma_store : {1, 0}) {
                for (const auto& [cluster_k, split_k, reduce_kernel] : kDivisions) {
                    for (const int64_t group : {8, 1}) {
                        const Corner corner{1, cluster_k, swap_ab, tma_store, split_k, reduce_kernel, group};
                        const double us = wgmma::predict(g, corner_shape(first, tile, corner, device), device);
                        if (choice.wants(us)) choice.offer(corner_config(tile, corner, g, device), us);
                    }
                }
            }
        }
    }
    const Config chosen = choice.choose();
    // Blocks beside which the next kernel's find no room can fetch little for themselves before their turn.
    Config early = chosen;
    early.set("prefetch_steps", 8);
    early.set("prefetch_all", has_few_rows(g) || fits_twice(Shape(chosen, g), chosen["stages"], device) ? 0 : 1);
    return space.contains(early) ? early : chosen;
}

void add_named(SearchSpace& space, const Gemm& g, const Device& device) {
    const int64_t tma_store = tma_can_store(g) ? 1 : 0;
    for (const Tile& tile : tiles_for(g)) {
        for (const int64_t cluster : {1, 2}) {
            const std::string name = std::string("wgmma_") + tile.name + (cluster == 2 ? "_cluster2x1" : "");
            for (const int64_t swap_ab : {0, 1}) {
                const Config config =
                    corner_config(tile, {cluster, 1, swap_ab, tma_store, 1, 0, swap_ab != 0 ? 1 : 8}, g, device);
                if (space.contains(config)) space.named.push_back({name + (swap_ab != 0 ? "_swapab" : ""), config});
            }
        }
    }
}

// ---- the launch ----

struct Workspace {
    std::size_t counters = 0, partial = 0, packed_a = 0, packed_b = 0, bytes = 0, zero_bytes = 0;
};

Workspace workspace_of(const Problem& problem, const Shape& s, const Grid& grid) {
    gemm::WorkspaceLayout layout;
    Workspace w;
    if (grid.parts != 1) {
        if (s.reduce_kernel == 0) {
            const int64_t counters = grid.tiles * s.cluster_blocks() * s.groups_per_tile();
            w.counters = layout.take(counters * 4);
            w.zero_bytes = static_cast<std::size_t>(counters) * 4;
        }
        const int64_t slots = s.cluster_blocks() * (grid.parts == 0 ? 2 * grid.clusters : grid.tiles * grid.parts);
        w.partial = layout.take(slots * s.block_m * s.block_n * s.sum_bytes);
    }
    const TypedMatrix a = matrix_view(problem.tensors[gemm::kA]);
    const TypedMatrix b = matrix_view(problem.tensors[gemm::kB]);
    if (a.alignment_bytes < 16) w.packed_a = layout.take(gemm::packed_bytes(a));
    if (b.alignment_bytes < 16) w.packed_b = layout.take(gemm::packed_bytes(b));
    w.bytes = layout.bytes();
    return w;
}

// The map of a stored operand, through its packed copy where its rows are not aligned.
TensorMapArg map_of(const TypedMatrix& o, int index, std::size_t packed, std::array<int64_t, 2> box) {
    const bool is_packed = o.alignment_bytes < 16;
    const int64_t ld = is_packed ? packed_ld(o) : o.ld;
    const int64_t stride = is_packed || o.batch == 1 ? ld * o.rows : o.batch_stride;
    TensorMapArg map;
    map.tensor = is_packed ? -1 : index;
    map.workspace_offset_bytes = packed;
    map.workspace_type = o.dtype;
    map.rank = 3;
    map.dims = {static_cast<std::uint64_t>(o.cols), static_cast<std::uint64_t>(o.rows), static_cast<std::uint64_t>(o.batch), 0,
                0};
    map.strides_bytes = {static_cast<std::uint64_t>(ld * 2), static_cast<std::uint64_t>(stride * 2), 0, 0};
    map.box = {static_cast<std::uint32_t>(box[0]), static_cast<std::uint32_t>(box[1]), 1, 0, 0};
    map.tma_swizzle_bytes = static_cast<int>(box[0] * 2);
    return map;
}

// What one TMA load brings of a tile that `shares` blocks load together. K-major: a span along K by a share of the tile's rows.
// MN-major: a span along M or N by a share of block_k.
std::array<int64_t, 2> box_of(const Shape& s, bool k_major, int64_t extent, int64_t shares) {
    return k_major ? std::array<int64_t, 2>{s.widest_span(), extent / shares}
                   : std::array<int64_t, 2>{s.span(extent), s.block_k / shares};
}

LaunchStep main_step(const Problem& problem, const Shape& s, const Grid& grid, const Workspace& w, const Device& device) {
    const Gemm g(problem);
    const std::array<TypedMatrix, 3> o = gemm::matrices(problem);
    const bool swap = s.swap_ab != 0;
    const auto map_a = [&](int64_t extent, int64_t shares) {
        return map_of(o[0], 0, w.packed_a, box_of(s, !g.trans_a, extent, shares));
    };
    const auto map_b = [&](int64_t extent, int64_t shares) {
        return map_of(o[1], 1, w.packed_b, box_of(s, g.trans_b, extent, shares));
    };
    const TensorMapArg map_x = swap ? map_b(s.block_m, s.cluster_n) : map_a(s.block_m, s.cluster_n);
    TensorMapArg map_c = map_x;  // not read without tma_store
    if (s.tma_store != 0 && swap) map_c = map_of(o[2], 2, 0, {64, s.span_c()});
    if (s.tma_store != 0 && !swap) map_c = map_of(o[2], 2, 0, {s.span_c(), 64 * s.bands()});
    const int64_t blocks = grid.clusters * s.cluster_blocks();
    LaunchStep step;
    step.grid = {static_cast<std::uint32_t>(blocks), 1, 1};
    step.block = {static_cast<std::uint32_t>(s.threads()), 1, 1};
    step.cluster = {static_cast<std::uint32_t>(s.cluster_blocks()), 1, 1};
    step.dynamic_smem_bytes = static_cast<std::size_t>(s.smem_bytes(s.stages));
    step.programmatic_dependent = s.pdl != 0;
    step.arguments = {map_x,
                      swap ? map_a(s.block_n, s.cluster_m) : map_b(s.block_n, s.cluster_m),
                      map_c,
                      TensorArg{2},
                      ScalarArg{0},
                      ScalarArg{1},
                      i32(g.m),
                      i32(g.n),
                      i32(g.k),
                      I64Arg{o[2].ld},
                      i32(g.batch),
                      I64Arg{o[2].batch_stride},
                      WorkspaceArg{w.counters},
                      WorkspaceArg{w.partial},
                      i32(s.stages),
                      i32(grid.count_m),
                      i32(grid.count_n),
                      i32(grid.whole),
                      i32(s.group),
                      i32(s.raster),
                      i32(grid.parts),
                      i32(s.evict_first),
                      i32(s.prefetch_steps),
                      i32(s.prefetch_all != 0 ? device.identity.sm_count - blocks : 0)};
    return step;
}

// The second kernel: 128 threads for two quads of a math group's sums.
LaunchStep reduce_step(const Problem& problem, const Shape& s, const Grid& grid, const Workspace& w) {
    const Gemm g(problem);
    const TypedMatrix c = matrix_view(problem.tensors[gemm::kC]);
    const int64_t pairs_of_quads = s.bands() * s.block_n / 16;
    LaunchStep step;
    step.entry = "_reduce";
    step.grid = {static_cast<std::uint32_t>(grid.tiles * s.sharing_blocks() * s.groups_per_tile() * pairs_of_quads), 1, 1};
    step.block = {128, 1, 1};
    step.programmatic_dependent = s.pdl != 0;
    step.arguments = {TensorArg{gemm::kC},
                      ScalarArg{0},
                      ScalarArg{1},
                      i32(g.m),
                      i32(g.n),
                      I64Arg{c.ld},
                      i32(g.batch),
                      I64Arg{c.batch_stride},
                      WorkspaceArg{w.partial},
                      i32(grid.count_m),
                      i32(grid.count_n),
                      i32(s.group),
                      i32(s.raster),
                      i32(grid.parts)};
    return step;
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
        add_tile_rules(space.constraints, g);
        add_cluster_rules(space.constraints, g, device);
        add_store_rules(space.constraints, g, device);
        add_pipeline_rules(space.constraints, g, device);
        add_launch_rules(space.constraints, g, device);
        add_prefetch_rules(space.constraints, g, device);
        return space;
    }
    Config default_config(const Problem& problem, const Device& device) const override {
        return choose_default(rules(problem, device), Gemm(problem), device);
    }
    SearchSpace space(const Problem& problem, const Device& device) const override {
        const Gemm g(problem);
        SearchSpace space = rules(problem, device);
        space.default_config = choose_default(space, g, device);
        add_named(space, g, device);
        return space;
    }

    std::vector<Binding> facts(const Problem& problem) const override { return gemm::facts(problem); }

    LaunchPlan plan(const Problem& problem, const Config& config, const Device& device) const override {
        const Gemm g(problem);
        LaunchPlan plan;
        if (g.m == 0 || g.n == 0 || g.k == 0 || g.batch == 0) return plan;
        const Shape s(config, g);
        const Grid grid(g, s, device);
        const Workspace w = workspace_of(problem, s, grid);
        plan.workspace_bytes = w.bytes;
        plan.workspace_zero_bytes = w.zero_bytes;
        if (g.align_a < 16) plan.steps.push_back(pack_step(matrix_view(problem.tensors[0]), 0, w.packed_a));
        if (g.align_b < 16) plan.steps.push_back(pack_step(matrix_view(problem.tensors[1]), 1, w.packed_b));
        plan.steps.push_back(main_step(problem, s, grid, w, device));
        if (s.reduce_kernel != 0) plan.steps.push_back(reduce_step(problem, s, grid, w));
        return plan;
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
