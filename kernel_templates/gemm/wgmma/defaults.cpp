#include "kernel_templates/gemm/wgmma/defaults.h"

#include <array>

#include "kernel_templates/gemm/wgmma/rules.h"

namespace autotune::wgmma {

using std::int64_t;

namespace {

struct Corner {
    int64_t cluster_m, cluster_k, swap_ab, tma_store, split_k, reduce_kernel, group;
};

Config corner_config(const Tile& t, const Corner& corner, const Candidates& from) {
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
    for (const auto& [name, value] : from.extras.values()) config.set(name, value);
    if (t.product_sets != 1) config.set("product_sets", t.product_sets);
    config.set("stages", deepest_ring(Shape(config, from.g), from.device));
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

}  // namespace

Config choose_default(const SearchSpace& space, const Candidates& from) {
    const auto& [g, device, tiles, extras] = from;
    gemm::DefaultChoice choice(space);
    for (const Tile& tile : tiles) {
        const Shape first(corner_config(tile, {1, 1, 0, 1, 1, 0, 8}, from), g);
        for (const int64_t swap_ab : {0, 1}) {
            for (const int64_t tma_store : {1, 0}) {
                for (const auto& [cluster_k, split_k, reduce_kernel] : kDivisions) {
                    for (const int64_t group : {8, 1}) {
                        const Corner corner{1, cluster_k, swap_ab, tma_store, split_k, reduce_kernel, group};
                        const double us = predict(g, corner_shape(first, tile, corner, device), device);
                        if (choice.wants(us)) choice.offer(corner_config(tile, corner, from), us);
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

std::vector<NamedConfig> named_configs(const std::string& prefix, const Candidates& from) {
    const int64_t tma_store = tma_can_store(from.g) ? 1 : 0;
    std::vector<NamedConfig> all;
    for (const Tile& tile : from.tiles) {
        for (const int64_t cluster : {1, 2}) {
            const std::string name = prefix + tile.name + (cluster == 2 ? "_cluster2x1" : "");
            for (const int64_t swap_ab : {0, 1}) {
                const Corner corner{cluster, 1, swap_ab, tma_store, 1, 0, swap_ab != 0 ? 1 : 8};
                all.push_back({name + (swap_ab != 0 ? "_swapab" : ""), corner_config(tile, corner, from)});
            }
        }
    }
    return all;
}

}  // namespace autotune::wgmma
