#include "kernel_templates/gemm/wgmma/defaults.h"

#include <algorithm>
#include <array>

#include "kernel_templates/gemm/shared/descent.h"
#include "kernel_templates/gemm/wgmma/rules.h"

namespace autotune::wgmma {

using std::int64_t;

namespace {

struct Corner {
    int64_t cluster_m, cluster_k, swap_ab, tma_store, split_k, reduce_kernel, group;
};

ResolvedConfig corner_of(const Tile& t, const Corner& corner, const Candidates& from) {
    ResolvedConfig s = from.usual;
    s.block_m = t.block_m, s.block_n = t.block_n, s.block_k = t.block_k;
    s.consumer_warpgroups = t.consumer_warpgroups, s.pingpong = t.pingpong;
    s.cluster_m = corner.cluster_m, s.cluster_k = corner.cluster_k;
    s.swap_ab = corner.swap_ab;
    s.tma_store = corner.tma_store, s.epilogue_stages = corner.tma_store != 0 ? t.epilogue_stages : 2;
    s.tma_swizzle = 128;
    s.reduce_kernel = corner.reduce_kernel, s.split_k = corner.split_k;
    s.raster = 0, s.group = corner.group;
    s.evict_first = 0, s.prefetch_steps = 0, s.prefetch_all = 0;
    if (t.product_sets != 1) s.product_sets = t.product_sets;
    s.stages = deepest_ring(s, from.device);
    return s;
}

// Ways to divide K: {cluster_k, split_k, reduce_kernel}.
constexpr std::array<std::array<int64_t, 3>, 10> kDivisions = {
    {{1, 1, 0}, {2, 1, 0}, {4, 1, 0}, {8, 1, 0}, {1, 2, 0}, {1, 4, 0}, {1, 8, 0}, {1, 2, 1}, {1, 4, 1}, {1, 8, 1}}};
// {block_m, consumer_warpgroups, pingpong}
constexpr std::array<std::array<int64_t, 3>, 7> kHeights = {
    {{64, 1, 0}, {64, 2, 1}, {128, 1, 0}, {128, 2, 0}, {128, 2, 1}, {192, 3, 0}, {256, 2, 0}}};
// With more registers for sums than this, one of the listed tiles spills. Ping-pong 128x176 and 128x192 spill.
constexpr int64_t kMostSums = 160;

// Adds the usual order of tiles, and the deepest ring that fits.
ResolvedConfig completed(ResolvedConfig s, const Gemm& g, const Device& device) {
    s.raster = 0;
    const Grid at(g, s, device);
    s.group = at.count_m == 1 || at.count_n == 1 ? 1 : at.count_m >= 8 ? 8 : at.count_m >= 4 ? 4 : 1;
    s.stages = deepest_ring(s, device);
    return s;
}

// Offers configs with another tile, other clusters, or another way to divide K or to store C.
void for_neighbours(const ResolvedConfig& of, const Gemm& g, const Device& device,
                    const gemm::Descent<ResolvedConfig>::Offer& offer) {
    const auto offer_complete = [&](const ResolvedConfig& s) {
        if (s.accumulators() <= kMostSums) offer(completed(s, g, device));
    };
    for (const auto& [block_m, consumer_warpgroups, pingpong] : kHeights) {
        for (const int64_t wider : {-64, -32, -16, 0, 16, 32, 64}) {
            ResolvedConfig s = of;
            s.block_m = block_m, s.consumer_warpgroups = consumer_warpgroups, s.pingpong = pingpong;
            s.block_n += wider;
            s.epilogue_stages = std::min<int64_t>(s.epilogue_stages, 2);
            if (s.block_n >= 16 && s.block_n <= 256) offer_complete(s);
        }
    }
    for (const int64_t block_k : {of.block_k / 2, of.block_k * 2}) {
        ResolvedConfig s = of;
        s.block_k = block_k;
        s.tma_swizzle = s.step_bytes() == 64 ? 64 : 128;
        offer_complete(s);
    }
    for (const int64_t cluster_m : {1, 2, 4}) {
        for (const int64_t cluster_n : {1, 2, 4}) {
            ResolvedConfig s = of;
            s.cluster_m = cluster_m, s.cluster_n = cluster_n;
            if (s.cluster_blocks() <= 8) offer_complete(s);
        }
    }
    for (const int64_t tma_store : {0, 1}) {
        for (const auto& [cluster_k, split_k, reduce_kernel] : kDivisions) {
            ResolvedConfig s = of;
            s.tma_store = tma_store, s.cluster_k = cluster_k, s.split_k = split_k, s.reduce_kernel = reduce_kernel;
            if (tma_store == 0) s.epilogue_stages = 2;
            if (s.cluster_blocks() <= 8) offer_complete(s);
        }
    }
    if (of.tma_store == 0) return;
    ResolvedConfig other_way = of;
    other_way.overlap_epilogue = 1 - of.overlap_epilogue;
    offer_complete(other_way);
    if (of.in_bytes == 2) {
        ResolvedConfig turned = of;
        turned.serpentine_k = 1 - of.serpentine_k;
        offer_complete(turned);
    }
    ResolvedConfig staged_whole = of;
    staged_whole.epilogue_stages = of.block_n / of.span_c();
    offer_complete(staged_whole);
}

}  // namespace

Config choose_default(const SearchSpace& space, const Candidates& from) {
    const auto& [g, device, tiles, usual, config_of] = from;
    const gemm::Descent<ResolvedConfig>::Family family = {
        [&](const ResolvedConfig& s) { return predict(g, s, device); }, config_of,
        [&](const ResolvedConfig& s, const gemm::Descent<ResolvedConfig>::Offer& offer) { for_neighbours(s, g, device, offer); }};
    // Starts from both assignments of the operands, with K divided and whole, because a descent seldom changes between these.
    const auto offer_start = [&](int i, gemm::Descent<ResolvedConfig>& descent) {
        const int64_t swap_ab = i / 2;
        const bool is_divided = i % 2 != 0;
        for (const Tile& tile : tiles) {
            const ResolvedConfig first = corner_of(tile, {1, 1, swap_ab, 1, 1, 0, 8}, from);
            for (const int64_t tma_store : {1, 0}) {
                for (const auto& [cluster_k, split_k, reduce_kernel] : kDivisions) {
                    if ((cluster_k * split_k > 1) != is_divided) continue;
                    ResolvedConfig s = first;
                    s.tma_store = tma_store, s.epilogue_stages = tma_store != 0 ? tile.epilogue_stages : 2;
                    s.cluster_k = cluster_k, s.split_k = split_k, s.reduce_kernel = reduce_kernel;
                    descent.offer(completed(s, g, device));
                }
            }
        }
    };
    const Config chosen = gemm::best_of_descents<ResolvedConfig>(space, family, 4, offer_start);
    // If the next kernel's blocks do not fit on an SM with this kernel's blocks, they have little time to fetch operands early.
    Config early = chosen;
    early.set("prefetch_steps", 8);
    early.set("prefetch_all", has_few_rows(g) || fits_twice(ResolvedConfig(chosen, g), chosen["stages"], device) ? 0 : 1);
    return space.contains(early) ? early : chosen;
}

std::vector<NamedConfig> named_configs(const std::string& prefix, const Candidates& from) {
    const int64_t tma_store = tma_can_store(from.g) ? 1 : 0;
    std::vector<NamedConfig> all;
    for (const Tile& tile : from.tiles) {
        for (const int64_t cluster : {1, 2}) {
            const std::string name = prefix + tile.name + (cluster == 2 ? "_cluster2x1" : "");
            for (const int64_t swap_ab : {0, 1}) {
                const Corner corner{cluster, 1, swap_ab, tma_store, 1, 0, swap_ab != 0 ? 1 : 8};
                all.push_back({name + (swap_ab != 0 ? "_swapab" : ""), from.config_of(corner_of(tile, corner, from))});
            }
        }
    }
    return all;
}

}  // namespace autotune::wgmma
