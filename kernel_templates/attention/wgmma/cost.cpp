#include <algorithm>
#include <cmath>
#include <map>

#include "kernel_templates/attention/wgmma/geometry.h"

namespace autotune::attention_wgmma {

using std::int64_t;

namespace {

constexpr double kMacsPerClock = 2048;    // of one SM's tensor cores
constexpr double kPowerShare = 0.72;      // of the clock's peak, which the power limit leaves a busy chip
constexpr double kExponentialClocks = 8;  // of a warp's instruction on its scheduler

// Clocks in which all math groups of an SM take one tile of keys each.
double step_clocks(const View& view, const Shape& s) {
    const auto groups = static_cast<double>(s.math_groups * s.blocks_per_sm);
    const auto keys = static_cast<double>(s.block_k);
    const double products = 64 * keys * static_cast<double>(padded(view.d) + padded(view.dv)) / kMacsPerClock;
    // Of a warp, one of each group on each scheduler.
    const double scores = keys / 2;
    const double corrections = static_cast<double>(padded(view.dv)) / 2 * (s.rescale == 1 ? 0.3 : 1.0);
    const double issue = 6.2 * scores + corrections + 90;
    const double exponentials = kExponentialClocks * scores;
    const double weigh = std::max(issue, exponentials) * 1.15 + 150;
    // What a group takes alone: its softmax waits for its scores, and where nothing overlaps its products for the softmax.
    const double chain =
        s.overlap == 1 ? products / 2 + std::max(weigh + corrections, products / 2) + 120 : products + weigh + corrections + 120;
    const double ordered = s.math_groups > 1 && s.order_groups == 0 ? 1.04 : 1.0;
    const double busiest = std::max({groups * products * 1.05, groups * issue, groups * exponentials});
    return std::pow(std::pow(busiest, 6) + std::pow(chain, 6), 1.0 / 6) * ordered;
}

// Of a block, once a tile: the first loads where nothing runs ahead, the last product, the output.
double tile_clocks(const View& view, const Shape& s) {
    const double output = 14 * static_cast<double>(padded(view.dv)) / 8 + 600;
    const double load = s.schedule == kBlockPerTile ? 2600 : s.q_buffers == 2 ? 200 : 900;
    return load + output;
}

double tiles_of_keys(const View& view, const Shape& s) {
    return attention::computed_pairs(view, s.block_q(), s.block_k) / static_cast<double>(s.block_q() * s.block_k);
}

double predict(const View& view, const Shape& s, double key_tiles, const Device& device) {
    const Grid grid(view, s, device);
    const double sms = std::max(device.identity.sm_count, 1);
    const double room = sms * static_cast<double>(s.blocks_per_sm);
    const auto tiles = static_cast<double>(grid.tiles);
    const double steps = key_tiles / std::max(tiles, 1.0);  // of a tile, on average
    const double average = steps * step_clocks(view, s) + tile_clocks(view, s);
    double clocks = average * std::ceil(tiles / room);
    if (grid.most_steps > 0) {
        // Parts of nearly equal length, then their sum.
        const auto items = static_cast<double>(grid.all_items());
        const double part = static_cast<double>(grid.most_steps) * step_clocks(view, s);
        clocks = key_tiles * step_clocks(view, s) / room + 0.4 * part + items / room * tile_clocks(view, s) + 5000;
    } else if (view.band.has_high && !view.band.has_low) {
        const double longest = average * 2;
        const double unbalanced = s.tile_order == kLongestFirst ? (s.schedule == kDealtOut ? 0.25 : 0.08) : 0.6;
        clocks = std::max(longest, average * tiles / room + unbalanced * longest);
        if (grid.blocks > grid.tiles / 2 && s.schedule == kDealtOut) clocks += 0.1 * longest;
    }
    // Heads whose keys and values fall out of L2 are read from memory by every tile.
    const double kv_bytes = static_cast<double>(view.kv_len * (view.d + view.dv) * view.element_bytes);
    const double at_once = s.tile_order == kLongestFirst
                               ? static_cast<double>(grid.heads_at_once) / static_cast<double>(view.group())
                               : room / static_cast<double>(grid.q_tiles);
    if (kv_bytes * at_once > 0.7 * 1048576.0 * device.identity.l2_mib) clocks *= 1.06;
    const double inside = clocks / (device.clock_mhz * 0.92);
    const double power = 2 * key_tiles * static_cast<double>(s.block_q() * s.block_k) *
                         static_cast<double>(padded(view.d) + padded(view.dv)) /
                         (sms * 2 * kMacsPerClock * device.clock_mhz * kPowerShare);
    return 3 + std::pow(std::pow(inside, 8) + std::pow(power, 8), 0.125);
}

}  // namespace

std::function<double(const Shape&)> predictor(const View& view, const Device& device) {
    // Tiles are counted row by row, which is too slow for each of ten thousand configs.
    std::map<std::pair<int64_t, int64_t>, double> counted;
    for (int64_t groups = 1; groups <= 3; ++groups) {
        Shape s{Config{}};
        s.math_groups = groups;
        for (s.block_k = 16; s.block_k <= 256; s.block_k += 16) counted[{groups, s.block_k}] = tiles_of_keys(view, s);
    }
    return [view, device, counted = std::move(counted)](const Shape& s) {
        return predict(view, s, counted.at({s.math_groups, s.block_k}), device);
    };
}

}  // namespace autotune::attention_wgmma
