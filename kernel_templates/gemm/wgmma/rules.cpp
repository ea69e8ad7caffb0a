#include "kernel_templates/gemm/wgmma/rules.h"

#include <algorithm>
#include <functional>

#include "kernel_templates/gemm/shared/hopper_rules.h"

namespace autotune::wgmma {

using std::int64_t;

bool has_few_rows(const Gemm& g) {
    return std::min(g.m, g.n) <= 128;
}

// TMA stores whole chunks of 16 bytes, so it would write past the end of a row that is not a multiple of them.
bool tma_can_store(const Gemm& g) {
    return g.align_c == gemm::kChunkBytes && g.n * g.out_bytes() % gemm::kChunkBytes == 0;
}

int64_t deepest_ring(const ResolvedConfig& shape, const Device& device) {
    for (const int64_t stages : {12, 10, 9, 8, 7, 6, 5, 4, 3})
        if (shape.smem_bytes(stages) <= device.limits.smem_per_block_bytes) return stages;
    return 2;
}

namespace {

using gemm::rules_on;

// With few rows, wgmma's M side is filled only if the operands are exchanged.
bool has_too_few_rows(const Gemm& g) {
    return g.m <= 32 && g.m < g.n;
}

// Whether this is an fp8 product with few rows whose C is f32 or fp8. TMA never stores the exchanged tiles of such products,
// whatever the size of C.
bool is_never_stored_by_tma(const Gemm& g, const ResolvedConfig& s) {
    return s.in_bytes == 1 && s.out_bytes != 2 && s.swap_ab == 1 && has_too_few_rows(g);
}

void add_tile_rules(std::vector<Constraint>& to, const Gemm& g) {
    const auto rule = rules_on<ResolvedConfig>(g);
    to.push_back({"a consumer warpgroup's rows are not 64 or 128",
                  {"block_m", "consumer_warpgroups", "pingpong"},
                  rule([](const ResolvedConfig& s) { return s.block_m % (64 * s.groups_per_tile()) == 0 && s.bands() <= 2; })});
    to.push_back({"ping-pong without exactly two consumer warpgroups",
                  {"consumer_warpgroups", "pingpong"},
                  rule([](const ResolvedConfig& s) { return s.pingpong == 0 || s.consumer_warpgroups == 2; })});
    to.push_back({"accumulators exceed the registers that setmaxnreg can give",
                  {"block_m", "consumer_warpgroups", "pingpong", "block_n"},
                  rule([](const ResolvedConfig& s) {
                      const int64_t most_of_three = s.temporaries() > 0 ? 128 : 96;
                      return s.accumulators() + s.temporaries() <= (s.consumer_warpgroups == 3 ? most_of_three : 192);
                  })});
    to.push_back(
        {"the swizzle spans more than block_k, or less than it could",
         {"block_k", "tma_swizzle"},
         rule([](const ResolvedConfig& s) { return s.step_bytes() == 64 ? s.tma_swizzle <= 64 : s.tma_swizzle == 128; })});
    to.push_back({"at most 32 rows without swap_ab do not fill wgmma's M side", {"swap_ab"}, rule([=](const ResolvedConfig& s) {
                      return s.swap_ab == 1 || !has_too_few_rows(g);
                  })});
    to.push_back(
        {"a tile is at least twice as long or wide as C", {"block_m", "block_n", "swap_ab"}, rule([=](const ResolvedConfig& s) {
             const int64_t rows = s.swap_ab != 0 ? g.n : g.m;
             const int64_t columns = s.swap_ab != 0 ? g.m : g.n;
             return (s.block_m == 64 || s.block_m < 2 * rows) && (s.block_n == 16 || s.block_n < columns + 64);
         })});
}

void add_store_rules(std::vector<Constraint>& to, const Gemm& g, const Device& device) {
    const auto rule = rules_on<ResolvedConfig>(g);
    to.push_back({"TMA store although rows of C are not a multiple of 16 bytes",
                  {"tma_store"},
                  rule([=](const ResolvedConfig& s) { return s.tma_store == 0 || tma_can_store(g); })});
    to.push_back({"more than two epilogue buffers that are not all spans of a cooperative tile",
                  {"block_n", "pingpong", "cluster_k", "tma_store", "epilogue_stages"},
                  rule([](const ResolvedConfig& s) {
                      return s.epilogue_stages <= 2 || (s.tma_store == 1 && s.pingpong == 0 && s.cluster_k == 1 &&
                                                        s.block_n / s.span_c() == s.epilogue_stages);
                  })});
    to.push_back({"one epilogue buffer without TMA store, or although two cost no stage or leave 256 k of pipeline",
                  {"block_m", "block_n", "block_k", "consumer_warpgroups", "pingpong", "cluster_k", "swap_ab", "tma_store",
                   "epilogue_stages"},
                  rule([=](const ResolvedConfig& s) {
                      if (s.epilogue_stages != 1) return true;
                      ResolvedConfig with_two = s;
                      with_two.epilogue_stages = 2;
                      const int64_t left = deepest_ring(with_two, device);
                      return s.tma_store == 1 && left * s.step_bytes() < 512 && left < deepest_ring(s, device);
                  })});
    to.push_back({"no TMA store although TMA can store C",
                  {"cluster_k", "swap_ab", "tma_store", "reduce_kernel"},
                  rule([=](const ResolvedConfig& s) {
                      return s.tma_store == 1 || !tma_can_store(g) || s.cluster_k > 1 || s.reduce_kernel == 1 ||
                             g.m * g.n * g.batch <= (1 << 18) || is_never_stored_by_tma(g, s);
                  })});
    to.push_back({"TMA store although a second kernel adds the parts and stores C",
                  {"tma_store", "reduce_kernel"},
                  rule([](const ResolvedConfig& s) { return s.tma_store == 0 || s.reduce_kernel == 0; })});
}

void add_cluster_rules(std::vector<Constraint>& to, const Gemm& g, const Device& device) {
    const auto rule = rules_on<ResolvedConfig>(g);
    const std::vector<std::string> grid = {"block_m", "block_n", "block_k", "cluster_m", "cluster_n", "cluster_k", "swap_ab"};
    to.push_back(gemm::cluster_rule<ResolvedConfig>(g));
    to.push_back({"ping-pong although blocks that divide K work at one tile each",
                  {"pingpong", "cluster_k"},
                  rule([](const ResolvedConfig& s) { return s.cluster_k == 1 || s.pingpong == 0; })});
    to.push_back(gemm::swizzle_share_rule<ResolvedConfig>(g));
    to.push_back({"accumulators do not divide among the cluster's blocks",
                  {"block_m", "block_n", "consumer_warpgroups", "pingpong", "cluster_k", "tma_store"},
                  rule([](const ResolvedConfig& s) {
                      if (s.cluster_k == 1) return true;
                      if (s.tma_store != 0) return s.bands() == 1 && s.block_n / s.span_c() % s.cluster_k == 0;
                      return s.bands() * s.block_n / 8 % s.cluster_k == 0;
                  })});
    to.push_back({"more than two blocks share tiles in more than four waves of tiles", grid, rule([=](const ResolvedConfig& s) {
                      return s.sharing_blocks() <= 2 ||
                             Grid(g, s, device).tiles * s.sharing_blocks() <= int64_t{4} * device.identity.sm_count;
                  })});
    to.push_back({"more than half of a cluster's tiles lie outside of C",
                  {"block_m", "block_n", "cluster_m", "cluster_n", "swap_ab"},
                  rule([=](const ResolvedConfig& s) {
                      const int64_t rows = s.swap_ab != 0 ? g.n : g.m;
                      const int64_t columns = s.swap_ab != 0 ? g.m : g.n;
                      return (s.cluster_m == 1 || rows > s.block_m * s.cluster_m / 2) &&
                             (s.cluster_n == 1 || columns > s.block_n * s.cluster_n / 2);
                  })});
    to.push_back({"K divided within clusters although not all blocks run at once, or with fewer than 4 steps each", grid,
                  rule([=](const ResolvedConfig& s) {
                      if (s.cluster_k == 1) return true;
                      const Grid at(g, s, device);
                      return at.tiles <= at.room && at.steps >= 4 * s.cluster_k;
                  })});
}

// Whether the ring is the deepest with which two blocks fit on an SM, so that the next kernel's blocks fetch operands while this
// one's compute.
bool leaves_room_for_the_next_kernel(const ResolvedConfig& s, const Device& device) {
    const int64_t deeper = s.stages == 10 ? 12 : s.stages + 1;
    return fits_twice(s, s.stages, device) && !fits_twice(s, deeper, device);
}

void add_pipeline_rules(std::vector<Constraint>& to, const Gemm& g, const Device& device) {
    const auto rule = rules_on<ResolvedConfig>(g);
    const std::vector<std::string> tile = {"block_m",   "block_n", "block_k",   "consumer_warpgroups", "pingpong",
                                           "cluster_k", "swap_ab", "tma_store", "epilogue_stages",     "stages"};
    to.push_back({"block_k is at least twice K", {"block_k"}, rule([=](const ResolvedConfig& s) {
                      return s.step_bytes() <= 128 || s.block_k < 2 * g.k;
                  })});
    to.push_back({"steps of 32 although K is not short and enough deeper steps fit",
                  {"block_m", "block_n", "block_k"},
                  rule([=](const ResolvedConfig& s) {
                      return s.step_bytes() != 64 || g.k * s.in_bytes <= 512 ||
                             8 * 64 * (s.block_m + s.block_n) > device.limits.smem_per_block_bytes * 3 / 4;
                  })});
    to.push_back({"the ring exceeds shared memory", tile,
                  rule([=](const ResolvedConfig& s) { return s.smem_bytes(s.stages) <= device.limits.smem_per_block_bytes; })});
    to.push_back({"the ring is shorter than it could be: two more stages fit", tile, rule([=](const ResolvedConfig& s) {
                      const int64_t deeper = s.stages + 2;
                      return deeper > 12 || s.smem_bytes(deeper) > device.limits.smem_per_block_bytes ||
                             (has_few_rows(g) && leaves_room_for_the_next_kernel(s, device));
                  })});
}

void add_launch_rules(std::vector<Constraint>& to, const Gemm& g, const Device& device) {
    const auto rule = rules_on<ResolvedConfig>(g);
    const std::vector<std::string> grid = {"block_m",   "block_n",   "block_k", "cluster_m",
                                           "cluster_n", "cluster_k", "swap_ab", "split_k"};
    to.push_back({"K divided within clusters although it is divided among them",
                  {"cluster_k", "split_k"},
                  rule([](const ResolvedConfig& s) { return s.cluster_k == 1 || s.split_k == 1; })});
    to.push_back({"reduce_kernel without split-K", {"split_k", "reduce_kernel"}, rule([](const ResolvedConfig& s) {
                      return s.reduce_kernel == 0 || s.split_k > 1;
                  })});
    to.push_back({"a part of K would have fewer than 4 steps", grid,
                  rule([=](const ResolvedConfig& s) { return s.split_k <= 1 || Grid(g, s, device).steps >= 4 * s.split_k; })});
    to.push_back({"split-K makes more than two blocks per SM", grid, rule([=](const ResolvedConfig& s) {
                      return s.split_k <= 1 ||
                             Grid(g, s, device).tiles * s.cluster_blocks() * s.split_k <= 2 * device.identity.sm_count;
                  })});
    to.push_back(
        {"stream-K without a full wave of tiles before a last one that is not full", grid, rule([=](const ResolvedConfig& s) {
             if (s.split_k != 0) return true;
             const Grid at(g, s, device);
             return at.tiles > at.clusters && at.tiles % at.clusters != 0;
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
    to.push_back({"Hilbert's curve through squares of fewer than four tiles or wider than C, or in a single wave", order,
                  rule([=](const ResolvedConfig& s) {
                      if (s.raster != 2) return true;
                      const Grid at(g, s, device);
                      return s.group >= 4 && at.count_n >= s.group && at.tiles * s.sharing_blocks() > device.identity.sm_count;
                  })});
    to.push_back({"no programmatic dependent launch although the kernel is short", {"pdl"}, rule([=](const ResolvedConfig& s) {
                      const double products = static_cast<double>(g.m * g.n) * static_cast<double>(g.k * g.batch);
                      return s.pdl == 1 || s.in_bytes == 1 || has_few_rows(g) || products >= 3e10;
                  })});
    to.push_back({"evict_first although the operand is read again", {"evict_first"}, rule([=](const ResolvedConfig& s) {
                      return s.evict_first == 0 || has_few_rows(g);
                  })});
}

// The number of blocks, if all blocks run at once, each on its own SM with one tile or part. 0 for other grids.
int64_t blocks_at_once(const Gemm& g, const ResolvedConfig& s, const Device& device) {
    const Grid at(g, s, device);
    const int64_t blocks = at.tiles * at.parts * s.cluster_blocks();
    return blocks <= device.identity.sm_count ? blocks : 0;
}

void add_prefetch_rules(std::vector<Constraint>& to, const Gemm& g, const Device& device) {
    const auto rule = rules_on<ResolvedConfig>(g);
    const std::vector<std::string> grid = {"block_m",   "block_n", "block_k", "cluster_m",     "cluster_n",
                                           "cluster_k", "swap_ab", "split_k", "prefetch_steps"};
    std::vector<std::string> grid_and_who = grid;
    grid_and_who.emplace_back("prefetch_all");
    to.push_back({"prefetch_steps of a packed operand, which is not there before the kernel's turn",
                  {"prefetch_steps"},
                  rule([=](const ResolvedConfig& s) { return s.prefetch_steps == 0 || !g.packs_any(); })});
    to.push_back({"prefetch_steps without programmatic dependent launch",
                  {"pdl", "prefetch_steps"},
                  rule([](const ResolvedConfig& s) { return s.prefetch_steps == 0 || s.pdl == 1; })});
    to.push_back(
        {"prefetch_steps although rows are not few and not all blocks run at once", grid, rule([=](const ResolvedConfig& s) {
             return s.prefetch_steps == 0 || has_few_rows(g) || blocks_at_once(g, s, device) > 0;
         })});
    to.push_back({"prefetch_steps is at least twice what a block has", grid, rule([=](const ResolvedConfig& s) {
                      return s.prefetch_steps == 0 || s.prefetch_steps < 2 * Grid(g, s, device).steps_each(s);
                  })});
    to.push_back({"prefetch_all without prefetch_steps, or although not all blocks run at once or no SM is idle", grid_and_who,
                  rule([=](const ResolvedConfig& s) {
                      if (s.prefetch_all == 0) return true;
                      const int64_t blocks = blocks_at_once(g, s, device);
                      return s.prefetch_steps > 0 && blocks > 0 && blocks < device.identity.sm_count;
                  })});
}

}  // namespace

std::vector<Constraint> rules(const Gemm& g, const Device& device) {
    std::vector<Constraint> all;
    add_tile_rules(all, g);
    add_cluster_rules(all, g, device);
    add_store_rules(all, g, device);
    add_pipeline_rules(all, g, device);
    add_launch_rules(all, g, device);
    add_prefetch_rules(all, g, device);
    return all;
}

std::vector<Constraint> whole_tile_rules(const Gemm& g, const Device& device) {
    const auto rule = rules_on<ResolvedConfig>(g);
    std::vector<Constraint> all;
    all.push_back({"overlap_epilogue although K is divided",
                   {"cluster_k", "split_k", "reduce_kernel", "overlap_epilogue"},
                   rule([](const ResolvedConfig& s) {
                       return s.overlap_epilogue == 0 || (s.cluster_k == 1 && s.split_k == 1 && s.reduce_kernel == 0);
                   })});
    all.push_back({"overlap_epilogue with a single tile a cluster, or with too few steps for its stores and reads of C",
                   {"block_m", "block_n", "block_k", "consumer_warpgroups", "pingpong", "cluster_m", "cluster_n", "cluster_k",
                    "swap_ab", "epilogue_stages", "overlap_epilogue"},
                   rule([=](const ResolvedConfig& s) {
                       if (s.overlap_epilogue == 0) return true;
                       const Grid at(g, s, device);
                       return at.tiles > at.clusters && at.steps >= s.late_steps();
                   })});
    return all;
}

}  // namespace autotune::wgmma
