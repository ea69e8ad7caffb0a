#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "kernel_templates/attention/wgmma/geometry.h"

namespace autotune::attention_wgmma {

using std::int64_t;

namespace {

// The constants below are fitted by hand to 90 timings of 7 problems on an H200 (docs/results/attention.md). A chip with busy
// tensor cores runs at the clock that its power limit allows. So the model counts the tensor clocks that a config needs, and the
// rate at which it uses them.

constexpr double kMacsPerClock = 2048;  // multiplications per clock of one SM's tensor cores
constexpr double kRatedClock = 1980;    // MHz of the H200 on which the rates below were measured

// Tensor clocks per microsecond of one SM in a long loop, for 1, 2 and 3 consumer warpgroups, and for K and V of 64, 128 and 256
// columns: with fewer columns the products wait for the softmax.
constexpr std::array<std::array<double, 3>, 3> kRate = {{{868, 1150, 1250}, {822, 1217, 1330}, {977, 1307, 1330}}};

// The number of consumer warpgroups by which a config's rate is looked up. Two blocks of one group without a producer count as
// one group with a producer, as in the fit.
int64_t groups_of_sm(const ResolvedConfig& s) {
    return s.producer == 1 ? s.consumer_warpgroups : std::clamp<int64_t>(s.blocks_per_sm - 1, 1, 2);
}

// Whether products take longer than the softmax.
bool is_heavy(const View& view) {
    return padded(view.d) + padded(view.dv) > 160;
}

double base_rate(const View& view, const ResolvedConfig& s) {
    const double weight = static_cast<double>(padded(view.d) + padded(view.dv)) / 128;  // 1 for 64 columns
    const auto& of_groups = kRate.at(static_cast<std::size_t>(groups_of_sm(s) - 1));
    if (weight <= 1) return of_groups[0] * weight;
    const double place = std::min(std::log2(weight), 2.0);
    const double part = place < 1 ? place : place - 1;
    return place < 1 ? of_groups[0] + part * (of_groups[1] - of_groups[0]) : of_groups[1] + part * (of_groups[2] - of_groups[1]);
}

// Factors for order_groups and rescale, Q buffers and schedules. They come from a regression over 200 more timings of twelve
// problems (16,384 tokens of 16 heads, lengths from 1024 to 16384).
double swept_factor(const ResolvedConfig& s, bool heavy, bool is_masked) {
    double factor = s.consumer_warpgroups == 1 && !heavy ? 0.93 : 1;
    if (s.consumer_warpgroups > 1) {
        if (s.order_groups == 1 && (!heavy || s.consumer_warpgroups == 3)) factor *= 1.05;
        if (s.order_groups == 2)
            factor *= s.rescale == 1 ? (heavy && s.consumer_warpgroups == 3 ? 0.96 : 0.90) : (heavy ? 1.07 : 1.04);
        if (s.order_groups == 0 && s.consumer_warpgroups == 2) factor *= s.block_k > 100 ? (heavy ? 1.03 : 1.08) : 0.98;
    }
    if (heavy && s.consumer_warpgroups == 3) factor *= s.overlap == 1 ? 1.03 : 0.98;
    if (heavy && s.q_buffers == 2) factor *= 0.92;
    if (s.split_waves > 0) return factor;
    if (s.schedule == kBlockPerTile) factor *= heavy ? 0.88 : 0.93;
    if (s.schedule == kDealtOut && is_masked) factor *= heavy ? 0.94 : 0.87;
    return factor;
}

double rate(const View& view, const ResolvedConfig& s) {
    const auto keys = static_cast<double>(s.block_k);
    const bool heavy = is_heavy(view);
    double rate = base_rate(view, s);
    if (s.consumer_warpgroups == 2 && heavy) {
        if (s.order_groups == 1) rate *= 0.93 * std::pow(keys / 128, 0.12);
        if (s.order_groups == 0) rate *= 0.97 * std::pow(keys / 128, 0.05);
        if (s.order_groups == 2) rate *= std::pow(std::min(keys, 128.0) / 128, 0.12);
        if (s.order_groups != 2 && s.rescale == 1) rate *= 1.03;
        if (s.order_groups == 1 && s.schedule == kDealtOut) rate *= 0.97;
    } else {
        rate *= std::pow(std::min(keys, heavy ? 80.0 : 112.0) / (heavy ? 80.0 : 112.0), heavy ? 0.35 : 0.12);
        if (s.consumer_warpgroups > 1 && s.order_groups == 0) rate *= 0.99;
        if (heavy && s.rescale == 0) rate *= 0.93;
    }
    rate *= swept_factor(s, heavy, view.is_masked());
    if (s.overlap == 0) rate *= heavy ? (s.consumer_warpgroups == 3 ? 1.0 : 0.97) : 0.91;
    if (s.consumer_warpgroups == 1 && s.blocks_per_sm == 1) rate *= 0.6;
    if (s.stages > 2) rate *= 1.002;
    return rate;
}

// The microseconds of a work item besides its steps, for the first loads, the last product and the output.
double item_us(const View& view, const ResolvedConfig& s) {
    const double group_us = is_heavy(view) ? 1.2 : 0.2;
    const double start = s.schedule == kBlockPerTile ? 1.2 : s.q_buffers == 2 ? 0.0 : 0.7;
    return (1.3 + start + group_us * static_cast<double>(s.consumer_warpgroups - 1)) / static_cast<double>(s.blocks_per_sm);
}

double tiles_of_keys(const View& view, const ResolvedConfig& s) {
    return attention::computed_pairs(view, s.block_q(), s.block_k) / static_cast<double>(s.block_q() * s.block_k);
}

double predict(const View& view, const ResolvedConfig& s, double key_tiles, const Device& device) {
    const Grid grid(view, s, device);
    const double sms = std::max(device.identity.sm_count, 1);
    const double room = sms * static_cast<double>(s.blocks_per_sm);
    const auto tiles = static_cast<double>(grid.tiles);
    const auto items = static_cast<double>(grid.all_items());
    const double columns = static_cast<double>(padded(view.d) + padded(view.dv));
    // The time of a block's step. Blocks on one SM share its tensor cores.
    const double step_us = static_cast<double>(s.block_q() * s.block_k) * columns / kMacsPerClock / rate(view, s) *
                           static_cast<double>(s.blocks_per_sm) * kRatedClock / std::max(device.clock_mhz, 1.0);
    const double steps = key_tiles / std::max(tiles, 1.0);  // average for a tile
    double time = 0;
    if (grid.most_steps > 0) {
        // Parts have nearly equal length. After they are computed, they are added.
        const double part = static_cast<double>(grid.most_steps) * step_us;
        time = key_tiles * step_us / room + 0.12 * part + items / sms * item_us(view, s) * 1.6 + 2.5 + 0.02 * items;
    } else if (view.band.has_high && !view.band.has_low) {
        const double longest = 2 * steps * step_us;
        const double heads = static_cast<double>(grid.heads_at_once) / static_cast<double>(view.group());
        double unbalanced = 0.6;
        if (s.tile_order == kLongestFirst) unbalanced = 0.04 + 0.45 / heads + (s.schedule == kDealtOut ? 0.15 : 0.0);
        time =
            std::max(longest, key_tiles * step_us / room + std::min(unbalanced, 0.6) * longest) + items / sms * item_us(view, s);
    } else {
        const double waves = std::ceil(tiles / room);
        time = waves * (steps * step_us + item_us(view, s) * static_cast<double>(s.blocks_per_sm) * 0.3) + 1.5;
    }
    // If the heads' keys and values do not fit into L2, every tile reads them from memory.
    const double kv_bytes = static_cast<double>(view.kv_len * (view.d + view.dv) * view.element_bytes);
    const double at_once = s.tile_order == kLongestFirst
                               ? static_cast<double>(grid.heads_at_once) / static_cast<double>(view.group())
                               : room / static_cast<double>(grid.q_tiles);
    if (kv_bytes * at_once > 0.75 * 1048576.0 * device.identity.l2_mib) time *= 1.05;
    return 2.5 + time;
}

}  // namespace

std::function<double(const ResolvedConfig&)> predictor(const View& view, const Device& device) {
    // Tiles are counted row by row, which is too slow to repeat for each of ten thousand configs.
    std::map<std::pair<int64_t, int64_t>, double> counted;
    for (int64_t groups = 1; groups <= 3; ++groups) {
        ResolvedConfig s;
        s.consumer_warpgroups = groups;
        for (s.block_k = 16; s.block_k <= 256; s.block_k += 16) counted[{groups, s.block_k}] = tiles_of_keys(view, s);
    }
    return [view, device, counted = std::move(counted)](const ResolvedConfig& s) {
        return predict(view, s, counted.at({s.consumer_warpgroups, s.block_k}), device);
    };
}

}  // namespace autotune::attention_wgmma
