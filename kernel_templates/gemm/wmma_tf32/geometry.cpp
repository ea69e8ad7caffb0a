#include "kernel_templates/gemm/wmma_tf32/geometry.h"

#include <algorithm>

namespace autotune::wmma_tf32 {

using std::int64_t;

Shape shape_of(const Config& config) {
    gemm::ConfigReader reader(config);
    const auto get = [&reader](std::string_view name) { return reader.find(name).value_or(1); };
    Shape s{};
    s.block_m = get("block_m");
    s.block_n = get("block_n");
    s.warps_m = get("warps_m");
    s.warps_n = get("warps_n");
    s.block_k = get("block_k");
    s.stages = get("stages");
    s.smem_pad = get("smem_pad");
    s.dsmem = get("dsmem");
    s.raster = get("raster");
    s.swizzle_stride = get("swizzle_stride");
    return s;
}

Config config_of(const Shape& s) {
    return {{"block_m", s.block_m},   {"block_n", s.block_n},
            {"warps_m", s.warps_m},   {"warps_n", s.warps_n},
            {"block_k", s.block_k},   {"stages", s.stages},
            {"smem_pad", s.smem_pad}, {"dsmem", s.dsmem},
            {"raster", s.raster},     {"swizzle_stride", s.swizzle_stride}};
}

gemm::BlockOrder order_of(const Shape& s) {
    return {s.block_m, s.block_n, s.raster, s.swizzle_stride};
}

int64_t smem_bytes(const Gemm& g, const Shape& s) {
    const auto tile = [&](int64_t extent, bool k_contiguous) {
        return (k_contiguous ? extent : s.block_k) * ((k_contiguous ? s.block_k : extent) + s.smem_pad) * 4;
    };
    const int64_t ring = s.stages * (tile(s.block_m, !g.trans_a) + tile(s.block_n, g.trans_b));
    return std::max(ring, s.warps() * 16 * (s.warp_n() + 4) * 4);
}

int64_t registers_needed(const Shape& s) {
    return s.warp_m() * s.warp_n() / 32 + (s.warp_m() + s.warp_n()) / 4 + 48;
}

int64_t tiles(const Gemm& g, const Shape& s) {
    return ceil_div(g.m, s.block_m) * ceil_div(g.n, s.block_n) * g.batch;
}

}  // namespace autotune::wmma_tf32
