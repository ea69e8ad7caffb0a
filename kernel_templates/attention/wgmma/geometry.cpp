#include "kernel_templates/attention/wgmma/geometry.h"

#include <algorithm>

namespace autotune::attention_wgmma {

using std::int64_t;

namespace {

constexpr int64_t kRegistersOfSm = 65536;
constexpr int64_t kMostMathRegisters = 240;

// The number of tiles of keys that a tile of queries sees.
int64_t steps_of(const View& view, const ResolvedConfig& s, int64_t q_tile) {
    const int64_t row0 = q_tile * s.block_q();
    const int64_t last = std::min(row0 + s.block_q(), view.q_len) - 1;
    return std::max<int64_t>(
        ceil_div(view.band.end_key(last, view.kv_len), s.block_k) - view.band.first_key(row0, view.kv_len) / s.block_k, 0);
}

int64_t parts_of_head(const View& view, const ResolvedConfig& s, int64_t most_steps) {
    int64_t parts = 0;
    for (int64_t tile = 0; tile < ceil_div(view.q_len, s.block_q()); ++tile)
        parts += std::max<int64_t>(ceil_div(steps_of(view, s, tile), most_steps), 1);
    return parts;
}

// The length of the shortest parts with which a head has at most `most` parts. 0 if nothing needs to be divided for that.
int64_t shortest_parts(const View& view, const ResolvedConfig& s, int64_t most) {
    int64_t low = 1, high = ceil_div(view.kv_len, s.block_k);
    if (parts_of_head(view, s, high) > most) return 0;
    const int64_t undivided = high;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (parts_of_head(view, s, middle) <= most)
            high = middle;
        else
            low = middle + 1;
    }
    return low == undivided ? 0 : low;
}

int64_t producer_registers(const View& view, const ResolvedConfig& s) {
    if (s.consumer_warpgroups == 3) return 32;
    return s.schedule == kFromCounter || view.band.has_low || view.is_packed ? 40 : 24;
}

}  // namespace

int64_t ResolvedConfig::registers_at_start() const {
    return kRegistersOfSm / (threads() * blocks_per_sm) / 8 * 8;
}

int64_t ResolvedConfig::math_registers(const View& view) const {
    const int64_t at_start = registers_at_start();
    if (at_start >= 256 || producer == 0) return std::min(at_start, kMostMathRegisters);  // nothing is reallocated
    const int64_t most = (at_start * (consumer_warpgroups + 1) - producer_registers(view, *this)) / consumer_warpgroups / 8 * 8;
    return std::min(most, kMostMathRegisters);
}

int64_t ResolvedConfig::smem_bytes(const View& view) const {
    constexpr int64_t kAlignment = 1024, kBarrier = 8, kWork = 32;
    const int64_t q = q_buffers * block_q() * padded(view.d) * 2;
    const int64_t kv = stages * block_k * (padded(view.d) + padded(view.dv)) * 2;
    return kAlignment + q + kv + (4 * stages + 2 * q_buffers) * kBarrier + q_buffers * kWork;
}

int64_t heads_at_once(const View& view, int64_t mib) {
    const int64_t head_bytes = view.kv_len * (view.d + view.dv) * view.element_bytes;
    return std::clamp<int64_t>(std::max<int64_t>(mib * 1024 * 1024 / head_bytes, 1) * view.group(), 1, view.b * view.q_heads);
}

Grid::Grid(const View& view, const ResolvedConfig& shape, const Device& device)
    : q_tiles(ceil_div(view.q_len, shape.block_q())), tiles(q_tiles * view.b * view.q_heads), items(q_tiles), most_steps(0) {
    const int64_t room = std::max<int64_t>(device.identity.sm_count, 1) * shape.blocks_per_sm;
    if (shape.split_waves > 0) most_steps = shortest_parts(view, shape, shape.split_waves * room / (view.b * view.q_heads));
    if (most_steps > 0) items = parts_of_head(view, shape, most_steps);
    blocks = shape.schedule == kBlockPerTile ? all_items() : std::min(all_items(), room);
    heads_at_once = shape.l2_group_mib == 0 ? 1 : attention_wgmma::heads_at_once(view, shape.l2_group_mib);
}

}  // namespace autotune::attention_wgmma
