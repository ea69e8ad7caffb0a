#include <algorithm>
#include <cmath>

#include "kernel_templates/attention/mma/geometry.h"

namespace autotune::attention_mma {
namespace {

constexpr double kLaunch_us = 2.5;
constexpr double kMmaShareOfHopper = 0.62;  // share of the tensor cores' rate that mma.sync reaches on Hopper
constexpr double kSmemBytesPerClock = 128;
constexpr double kExpPerClock = 16;
constexpr double kIssuePerClock = 128;  // lanes of an SM
constexpr double kBarrierClocks = 140;  // clocks that a block waits at a barrier
constexpr double kTurnClocks = 1250;  // with one stage, a tile of keys takes at least this many clocks from its loads to its sums
constexpr double kSustainedClock = 0.88;  // the clock under load, as a share of the highest clock

// The clocks that one block's tile of scores takes on an SM, for each resource.
struct TileClocks {
    double mma, smem, exp, issue;

    double bound() const { return std::max({mma, smem, exp + 0.5 * issue, issue}); }
    double sum() const { return mma + 0.5 * smem + exp + issue; }
};

TileClocks clocks_of(const Geometry& g, const attention::View& view, const Device& device, double masked_share) {
    const double scores = static_cast<double>(g.block_q * g.block_k);
    const double element_bytes = g.is_tf32 ? 4 : 2;
    const double peak =
        device.tensor_flop_per_clock_sm() * (device.identity.cc() == 90 ? kMmaShareOfHopper : 1) * 2 / element_bytes;
    const double d = static_cast<double>(attention::round_up(g.d, 16)), dv = static_cast<double>(attention::round_up(g.dv, 16));
    const double warps = static_cast<double>(g.warps);
    const double keys_read = warps * static_cast<double>(g.block_k) * (d + dv) * element_bytes;
    const double queries_read = g.q_in_registers != 0 ? 0 : static_cast<double>(g.block_q) * d * element_bytes;
    const double filled = static_cast<double>(g.block_k) * (d + dv) * element_bytes;
    TileClocks clocks{};
    clocks.mma = 2 * scores * (d + dv) / peak;
    clocks.smem = (keys_read + queries_read + filled) / kSmemBytesPerClock;
    clocks.exp = scores / kExpPerClock;
    const double rescale = static_cast<double>(g.block_q) * dv;
    // This includes the ldmatrix instructions that the products need.
    const double mma_issues = 2 * scores * (d + dv) / 4096 * 32 * 1.6;
    clocks.issue = (scores * (4.5 + 2.5 * masked_share) + rescale + mma_issues) / kIssuePerClock;
    (void)view;
    return clocks;
}

}  // namespace

double predict_us(const attention::View& view, const Config& config, const Device& device) {
    const Geometry g(config, view);
    const double heads = static_cast<double>(view.b * view.q_heads);
    const double tiles_q = static_cast<double>(attention::ceil_div(view.q_len, g.block_q));
    const double all_tiles = tiles_q * static_cast<double>(attention::ceil_div(view.kv_len, g.block_k)) * heads;
    const double seen_tiles = attention::computed_pairs(view, g.block_q, g.block_k) / static_cast<double>(g.block_q * g.block_k);
    const double tiles = g.masking == 0 ? all_tiles : seen_tiles;
    const double masked_share =
        g.masking == 2 ? std::min(1.0, heads * tiles_q * 2 / std::max(tiles, 1.0)) * (view.is_masked() ? 1 : 0.3) : 1;
    const TileClocks clocks = clocks_of(g, view, device, masked_share);

    const double sms = device.identity.sm_count;
    const double blocks = tiles_q * heads;
    const double resident =
        std::min(static_cast<double>(g.blocks_per_sm(device)), std::max(1.0, std::floor(blocks / sms + 0.999)));
    // While one warp waits, warps of this block and of others use the units. A third block per SM brought no gain over two.
    const double busy = resident * static_cast<double>(g.warps);
    const double overlap = std::min(0.57, busy / 14);
    const double overhead = kBarrierClocks * (g.stages == 1 ? 2.6 : 1.0) / resident;
    const double spilled =
        std::max(0.0, static_cast<double>(g.registers() * g.threads() * g.resident_blocks) / device.limits.registers_per_sm - 1);
    const double turn = kTurnClocks * (g.stages == 1 ? 1.5 : 1.0) / resident;
    const double a_tile =
        std::max((overlap * clocks.bound() + (1 - overlap) * clocks.sum()) * (1 + 2 * spilled) + overhead, turn);

    const double per_sm = tiles / sms;
    const double longest = static_cast<double>(attention::ceil_div(view.kv_len, g.block_k));
    const double slots = sms * resident;
    const double waves = blocks / slots;
    const bool in_order = config["order"] >= 2 || !view.is_masked();
    // The last blocks share the SM with fewer others. This costs half a block's time on average, and all of it if long blocks
    // come last.
    const double tail = (waves <= 1 ? std::max(0.0, longest * resident - per_sm) : longest * (in_order ? 0.3 : 0.8));
    const double us_per_clock = 1 / (device.clock_mhz * kSustainedClock);
    const double start = 1500 * std::ceil(waves) / std::max(1.0, resident);
    return kLaunch_us + ((per_sm + tail) * a_tile + start) * us_per_clock;
}

}  // namespace autotune::attention_mma
