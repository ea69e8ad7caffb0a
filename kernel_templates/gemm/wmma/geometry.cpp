#include "kernel_templates/gemm/wmma/geometry.h"

#include <algorithm>

namespace autotune::wmma {

using std::int64_t;

namespace {

int64_t tile_bytes(const Shape& s, int64_t extent, bool k_contiguous) {
    const int64_t rows = k_contiguous ? extent : s.block_k;
    const int64_t cols = k_contiguous ? s.block_k : extent;
    return rows * (cols + s.smem_pad) * kElementBytes;
}

// 16-byte chunks of both tiles that a thread holds between reading and writing them.
int64_t chunks_held(const Shape& s) {
    return ceil_div(s.block_m * s.block_k / 8, s.threads()) + ceil_div(s.block_n * s.block_k / 8, s.threads());
}

}  // namespace

Shape shape_of(const Config& config) {
    const auto get = [&config](std::string_view name) { return config.find(name).value_or(1); };
    return {get("wmma_m"),     get("block_m"),  get("block_n"),       get("block_k"),  get("warps_m"),
            get("warps_n"),    get("cp_async"), get("stages"),        get("smem_pad"), get("dsmem"),
            get("min_blocks"), get("raster"),   get("swizzle_stride")};
}

Config config_of(const Shape& s) {
    return {{"wmma_m", s.wmma_m},
            {"block_m", s.block_m},
            {"block_n", s.block_n},
            {"warps_m", s.warps_m},
            {"warps_n", s.warps_n},
            {"block_k", s.block_k},
            {"cp_async", s.cp_async},
            {"stages", s.stages},
            {"smem_pad", s.smem_pad},
            {"dsmem", s.dsmem},
            {"min_blocks", s.min_blocks},
            {"raster", s.raster},
            {"swizzle_stride", s.swizzle_stride}};
}

gemm::BlockOrder order_of(const Shape& s) {
    return {s.block_m, s.block_n, s.raster, s.swizzle_stride};
}

int64_t smem_bytes(const Gemm& g, const Shape& s) {
    const int64_t buffers = s.stages * (tile_bytes(s, s.block_m, !g.trans_a) + tile_bytes(s, s.block_n, g.trans_b));
    const int64_t acc_bytes = g.acc_f16 ? 2 : 4;
    const int64_t slabs = s.warps() * s.wmma_m * (s.warp_n() * acc_bytes + 16);
    return std::max(buffers, slabs);
}

int64_t registers_needed(const Gemm& g, const Shape& s) {
    const int64_t accumulators = s.warp_m() * s.warp_n() / (g.acc_f16 ? 64 : 32);
    const int64_t fragments = (s.warp_m() + s.warp_n()) / 4;
    const int64_t held = s.cp_async != 0 ? 0 : 4 * chunks_held(s);
    return accumulators + fragments + held + 32;
}

int64_t registers_allowed(const Shape& s, const DeviceLimits& limits) {
    return gemm::registers_allowed(limits, s.threads(), s.min_blocks);
}

int64_t blocks_per_sm(const Gemm& g, const Shape& s, const DeviceLimits& limits) {
    const int64_t registers = std::min(registers_needed(g, s), registers_allowed(s, limits));
    return gemm::blocks_per_sm(limits, smem_bytes(g, s), s.threads(), registers);
}

int64_t tiles(const Gemm& g, const Shape& s) {
    return ceil_div(g.m, s.block_m) * ceil_div(g.n, s.block_n) * g.batch;
}

}  // namespace autotune::wmma
