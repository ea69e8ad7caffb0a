#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "kernel_templates/attention/attention_problem.h"
#include "kernel_templates/attention/tma_tiles.h"
#include "src/core/config.h"
#include "src/core/device.h"

// What attention/wgmma's rules, cost model and launch plans share: a config with names resolved and the sizes that follow from
// it. The same formulas stand in kernel.cuh.
namespace autotune::attention_wgmma {

using attention::ceil_div;
using attention::padded;
using attention::View;

// Which tile comes after which. One that counts down a head's rows gives the longest first where a mask ends at the diagonal.
enum TileOrder : std::int64_t { kAscending = 0, kLongestFirst = 1 };
enum Schedule : std::int64_t { kBlockPerTile = 0, kDealtOut = 1, kFromCounter = 2 };

struct Shape {
    std::int64_t math_groups, block_k, stages, q_buffers, blocks_per_sm, overlap, order_groups, rescale, producer, schedule,
        tile_order, l2_group_mib, split_waves, pdl;

    // A parameter that the config lacks is 1.
    explicit Shape(const Config& config);

    std::int64_t block_q() const { return 64 * math_groups; }
    std::int64_t threads() const { return 128 * (math_groups + producer); }
    // Accumulators of both products, and the weights between them.
    std::int64_t fragment_registers(const View& view) const { return block_k / 2 + block_k / 4 + padded(view.dv) / 2; }
    // Of a thread of the block before setmaxnreg, which is what ptxas compiles for; and what setmaxnreg gives a math group's.
    std::int64_t registers_at_start() const;
    std::int64_t math_registers(const View& view) const;
    std::int64_t smem_bytes(const View& view) const;
};

// Query heads whose keys and values, in whole heads of them, take up to that size; at least those that share one.
std::int64_t heads_at_once(const View& view, std::int64_t mib);

// How the tiles of a problem are dealt out. Where their keys are divided, each part of a tile is an item of work.
struct Grid {
    std::int64_t q_tiles;     // of a head
    std::int64_t tiles;       // of all
    std::int64_t items;       // of a head: its tiles or their parts
    std::int64_t most_steps;  // tiles of keys of a part, at most; 0: keys are not divided
    std::int64_t blocks;
    std::int64_t heads_at_once;  // whose tiles are dealt out in turn

    Grid(const View& view, const Shape& shape, const Device& device);
    std::int64_t all_items() const { return tiles / q_tiles * items; }
};

// Predicted time in a stream, in microseconds, for ranking.
std::function<double(const Shape&)> predictor(const View& view, const Device& device);

}  // namespace autotune::attention_wgmma
