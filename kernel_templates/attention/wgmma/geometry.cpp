#include "kernel_templates/attention/wgmma/geometry.h"

#include <algorithm>

#include "kernel_templates/gemm/family_parts.h"

namespace autotune::attention_wgmma {

using std::int64_t;

namespace {

constexpr int64_t kRegistersOfSm = 65536;
constexpr int64_t kMostMathRegisters = 240;

int64_t producer_registers(const View& view, const Shape& s) {
    if (s.math_groups == 3) return 32;
    return s.schedule == kFromCounter || view.band.has_low ? 40 : 24;
}

}  // namespace

// Rules see configs in which not every parameter has a value yet, and read only those that they name.
Shape::Shape(const Config& config) {
    gemm::ConfigReader reader(config);
    const auto get = [&reader](std::string_view name) { return reader.find(name).value_or(1); };
    math_groups = get("math_groups");
    block_k = get("block_k");
    stages = get("stages");
    q_buffers = get("q_buffers");
    blocks_per_sm = get("blocks_per_sm");
    overlap = get("overlap");
    order_groups = get("order_groups");
    rescale = get("rescale");
    schedule = get("schedule");
    tile_order = get("tile_order");
    l2_group_mib = get("l2_group_mib");
    pdl = get("pdl");
}

int64_t Shape::math_registers(const View& view) const {
    const int64_t at_start = kRegistersOfSm / (threads() * blocks_per_sm) / 8 * 8;
    if (at_start >= 256) return kMostMathRegisters;  // nothing is reallocated
    const int64_t most = (at_start * (math_groups + 1) - producer_registers(view, *this)) / math_groups / 8 * 8;
    return std::min(most, kMostMathRegisters);
}

int64_t Shape::smem_bytes(const View& view) const {
    constexpr int64_t kAlignment = 1024, kBarrier = 8, kTile = 16;
    const int64_t q = q_buffers * block_q() * padded(view.d) * 2;
    const int64_t kv = stages * block_k * (padded(view.d) + padded(view.dv)) * 2;
    return kAlignment + q + kv + (4 * stages + 2 * q_buffers) * kBarrier + q_buffers * kTile;
}

Grid::Grid(const View& view, const Shape& shape, const Device& device)
    : q_tiles(ceil_div(view.q_len, shape.block_q())), tiles(q_tiles * view.b * view.q_heads) {
    const int64_t room = std::max<int64_t>(device.identity.sm_count, 1) * shape.blocks_per_sm;
    blocks = shape.schedule == kBlockPerTile ? tiles : std::min(tiles, room);
    const int64_t head_bytes = view.kv_len * (view.d + view.dv) * view.element_bytes;
    const int64_t fitting = shape.l2_group_mib * 1024 * 1024 / head_bytes;
    heads_at_once = shape.l2_group_mib == 0 ? 1 : std::max<int64_t>(fitting, 1) * view.group();
    heads_at_once = std::clamp<int64_t>(heads_at_once, 1, view.b * view.q_heads);
}

}  // namespace autotune::attention_wgmma
