#include "kernel_templates/gemm/wgmma/relaunch.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "kernel_templates/gemm/wgmma/geometry.h"
#include "kernel_templates/gemm/wgmma/rules.h"

namespace autotune::wgmma {
namespace {

using std::int64_t;

struct Order {
    int64_t raster, group;
};

// Orders of tiles to predict: the config's own, and panels in both directions. One order is enough if a direction has one tile,
// or if L2 holds both operands: then every order reads each operand once.
std::vector<Order> orders_for(const Gemm& g, const ResolvedConfig& s, const Grid& grid, const Device& device) {
    if (grid.count_m == 1 || grid.count_n == 1) return {{0, 1}};
    std::vector<Order> orders;
    const auto add = [&](int64_t raster, int64_t group) {
        const int64_t across = raster == 1 ? grid.count_n : grid.count_m;
        if (group == 1 || group <= across) orders.push_back({raster, group});
    };
    if (s.raster != 2) add(s.raster, s.group);
    for (const int64_t group : {8, 4}) {
        add(0, group);
        add(1, group);
    }
    add(0, 1);
    if (rereads_nothing(g, device)) orders.resize(1);
    return orders;
}

// The divisions of K among clusters that the rules allow. The compiled kernel determines whether a second one adds the parts.
std::vector<int64_t> divisions_for(const ResolvedConfig& s, const Grid& grid, const Device& device) {
    if (s.cluster_k > 1 || s.overlap_epilogue != 0 || s.serpentine_k != 0) return {1};
    std::vector<int64_t> divisions;
    if (s.reduce_kernel == 0) divisions.push_back(1);
    for (const int64_t parts : {2, 3, 4, 6, 8, 12, 16}) {
        const bool fills_idle_sms = grid.tiles * s.cluster_blocks() * parts <= 2 * device.identity.sm_count;
        if (fills_idle_sms && grid.steps >= 4 * parts) divisions.push_back(parts);
    }
    const int64_t clusters = std::min(grid.room, grid.tiles);
    if (s.reduce_kernel == 0 && grid.tiles > clusters && grid.tiles % clusters != 0) divisions.push_back(0);
    if (divisions.empty()) divisions.push_back(2);  // no division is legal, because the kernel itself is not legal
    return divisions;
}

// Chooses the early fetches and the operand whose lines L2 drops first. They are as in the default config, or as in the config
// itself if that stays legal.
void settle_fetches(ResolvedConfig& s, const Gemm& g, const Device& device) {
    const Grid grid(g, s, device);
    const int64_t blocks = grid.tiles * grid.parts * s.cluster_blocks();
    const bool at_once = blocks > 0 && blocks <= device.identity.sm_count;
    if (!has_few_rows(g)) s.evict_first = 0;
    s.pdl = 1;
    if (s.prefetch_steps == 0) s.prefetch_steps = 8;
    const bool may_fetch = !g.packs_any() && (has_few_rows(g) || at_once);
    while (s.prefetch_steps > 8 && s.prefetch_steps >= 2 * grid.steps_each(s)) s.prefetch_steps = s.prefetch_steps == 32 ? 16 : 8;
    if (!may_fetch || s.prefetch_steps >= 2 * grid.steps_each(s)) s.prefetch_steps = 0;
    const bool idle_fetch = at_once && blocks < device.identity.sm_count && s.prefetch_steps > 0;
    if (!idle_fetch) s.prefetch_all = 0;
    if (idle_fetch && !has_few_rows(g) && !fits_twice(s, s.stages, device)) s.prefetch_all = 1;
}

}  // namespace

Relaunched relaunched(const Config& from, const Gemm& g, const Device& device) {
    ResolvedConfig s(from, g);
    s.stages = deepest_ring(s, device);
    ResolvedConfig best = s;
    double best_us = std::numeric_limits<double>::infinity();
    const Grid grid(g, s, device);
    const std::vector<int64_t> divisions = divisions_for(s, grid, device);
    for (const Order& order : orders_for(g, s, grid, device)) {
        s.raster = order.raster;
        s.group = order.group;
        for (const int64_t split_k : divisions) {
            s.split_k = split_k;
            const double us = predict(g, s, device);
            if (us < best_us) best = s, best_us = us;
        }
    }
    settle_fetches(best, g, device);
    return {{{"stages", best.stages},
             {"split_k", best.split_k},
             {"raster", best.raster},
             {"group", best.group},
             {"evict_first", best.evict_first},
             {"pdl", best.pdl},
             {"prefetch_steps", best.prefetch_steps},
             {"prefetch_all", best.prefetch_all}},
            predict(g, best, device)};
}

}  // namespace autotune::wgmma
