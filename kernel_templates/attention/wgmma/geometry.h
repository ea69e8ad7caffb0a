#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "kernel_templates/attention/op/attention_problem.h"
#include "kernel_templates/attention/shared/tma_tiles.h"
#include "kernel_templates/parameter_table.h"
#include "src/core/problem/device.h"
#include "src/core/space/config.h"

// A config with named parameters and the sizes derived from it, shared by attention/wgmma's rules, cost model and launch plans.
// kernel.cuh has the same formulas.
namespace autotune::attention_wgmma {

using attention::ceil_div;
using attention::padded;
using attention::View;

// The order of tiles. Counting down a head's rows puts the longest tiles first if the mask ends at the diagonal.
enum TileOrder : std::int64_t { kAscending = 0, kLongestFirst = 1 };
enum Schedule : std::int64_t { kBlockPerTile = 0, kDealtOut = 1, kFromCounter = 2 };

// clang-format off
#define ATTENTION_WGMMA_PARAMETERS(ROW) \
    ROW(consumer_warpgroups, 1, compile, "warpgroups of 64 query rows each", 1, 2, 3) \
    ROW(block_k, 1, compile, "keys of a tile", values_in_steps(32, 256, 16)) \
    ROW(stages, 1, compile, "tiles of keys, and of values, in shared memory", 2, 3, 4) \
    ROW(q_buffers, 1, compile, "tiles of queries in shared memory", 1, 2) \
    ROW(blocks_per_sm, 1, compile, "blocks of an SM that registers are shared out for", 1, 2, 3, 4) \
    ROW(overlap, 1, compile, "1: the next scores are computed under a softmax of the same warpgroup", 0, 1) \
    ROW(order_groups, 1, compile, "warpgroups take turns 0: never, 1: to issue products, 2: for exponentials", 0, 1, 2) \
    ROW(rescale, 1, compile, "outputs are corrected 0: in each step, 1: where a maximum grew by more than 8 in log2", 0, 1) \
    ROW(producer, 1, compile, "1: a warpgroup of its own loads, 0: the only consumer warpgroup does", 0, 1) \
    ROW(schedule, 1, compile, "0: a tile a block; blocks stay and tiles are 1: dealt out, 2: taken from a counter", 0, 1, 2) \
    ROW(tile_order, 1, launch, "tiles of a head 0: first rows first, 1: last rows, which see most keys, first", 0, 1) \
    ROW(l2_group_mib, 1, launch, \
        "heads whose keys and values have that size are worked on together; 0: each alone", 0, 16, 32, 48) \
    ROW(split_waves, 1, launch, "parts that keys are divided into, in fillings of the GPU; 0: keys are not", 0, 1, 2, 3, 4, 6) \
    ROW(pdl, 1, launch, "1: programmatic dependent launch: blocks start while the kernel before ends", 0, 1)
// clang-format on

struct ResolvedConfig {
    AUTOTUNE_RESOLVED_CONFIG(ATTENTION_WGMMA_PARAMETERS)

    std::int64_t block_q() const { return 64 * consumer_warpgroups; }
    std::int64_t threads() const { return 128 * (consumer_warpgroups + producer); }
    // Registers for the accumulators of both products, and for the weights between them.
    std::int64_t fragment_registers(const View& view) const { return block_k / 2 + block_k / 4 + padded(view.dv) / 2; }
    // Registers per thread before setmaxnreg, for which ptxas compiles; and what setmaxnreg gives the threads of a consumer
    // warpgroup.
    std::int64_t registers_at_start() const;
    std::int64_t math_registers(const View& view) const;
    std::int64_t smem_bytes(const View& view) const;
};

// The number of query heads, in whole groups that share keys and values, whose keys and values take up to `mib`; at least one
// group.
std::int64_t heads_at_once(const View& view, std::int64_t mib);

// How the tiles of a problem are distributed. If their keys are divided, each part of a tile is a work item.
struct Grid {
    std::int64_t q_tiles;     // the tiles of queries in a head
    std::int64_t tiles;       // the tiles of queries in all heads and batches
    std::int64_t items;       // the items of a head, which are its tiles or their parts
    std::int64_t most_steps;  // largest number of key tiles in a part; 0: keys are not divided
    std::int64_t blocks;
    std::int64_t heads_at_once;  // heads whose tiles are distributed alternately

    Grid(const View& view, const ResolvedConfig& shape, const Device& device);
    std::int64_t all_items() const { return tiles / q_tiles * items; }
};

// Predicted time in a stream, in microseconds, for ranking.
std::function<double(const ResolvedConfig&)> predictor(const View& view, const Device& device);

}  // namespace autotune::attention_wgmma
