#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernel_templates/gemm/wgmma/geometry.h"
#include "src/core/space/search_space.h"

// The default config and the named configs of the wgmma families, found from a list of tiles.
namespace autotune::wgmma {

struct Tile {
    const char* name;
    std::int64_t block_m, block_n, block_k, consumer_warpgroups, pingpong, epilogue_stages = 2, product_sets = 1;
};

struct Candidates {
    Gemm g;
    Device device;
    std::vector<Tile> tiles;
    ResolvedConfig usual;                           // holds the values of the family's own parameters
    Config (*config_of)(const ResolvedConfig& of);  // makes a config with only the family's parameters
};

// The legal config with the least predicted time, over the useful tiles, clusters along K, parts of K and orders.
Config choose_default(const SearchSpace& space, const Candidates& from);
// Every tile under its name: alone and in clusters of two, with operands plain and exchanged, legal or not.
std::vector<NamedConfig> named_configs(const std::string& prefix, const Candidates& from);

}  // namespace autotune::wgmma
