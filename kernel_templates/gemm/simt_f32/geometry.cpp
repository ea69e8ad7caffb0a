#include "kernel_templates/gemm/simt_f32/geometry.h"

#include <algorithm>

namespace autotune::simt_f32 {

using std::int64_t;

Shape shape_of(const Config& config) {
    gemm::ConfigReader reader(config);
    const auto get = [&reader](std::string_view name) { return reader.find(name).value_or(1); };
    Shape s{};
    s.smem = get("smem");
    s.block_m = get("block_m");
    s.block_n = get("block_n");
    s.thread_m = get("thread_m");
    s.thread_n = get("thread_n");
    s.lanes_m = get("lanes_m");
    s.block_k = get("block_k");
    s.vec = get("vec");
    s.bcf = get("bcf");
    s.smem_pad = get("smem_pad");
    s.stages = get("stages");
    s.cp_async = get("cp_async");
    s.reg_buffers = get("reg_buffers");
    s.min_blocks = get("min_blocks");
    s.split_k = get("split_k");
    s.raster = get("raster");
    s.swizzle_stride = get("swizzle_stride");
    return s;
}

Config config_of(const Shape& s) {
    return {{"smem", s.smem},
            {"block_m", s.block_m},
            {"block_n", s.block_n},
            {"thread_m", s.thread_m},
            {"thread_n", s.thread_n},
            {"lanes_m", s.lanes_m},
            {"block_k", s.block_k},
            {"vec", s.vec},
            {"bcf", s.bcf},
            {"smem_pad", s.smem_pad},
            {"stages", s.stages},
            {"cp_async", s.cp_async},
            {"reg_buffers", s.reg_buffers},
            {"min_blocks", s.min_blocks},
            {"split_k", s.split_k},
            {"raster", s.raster},
            {"swizzle_stride", s.swizzle_stride}};
}

gemm::BlockOrder order_of(const Shape& s) {
    return {s.block_m, s.block_n, s.raster, s.swizzle_stride};
}

int64_t smem_bytes(const Shape& s) {
    return s.smem == 0 ? 0 : s.stages * s.block_k * (s.block_m + s.block_n + 2 * s.smem_pad) * 4;
}

bool copies_evenly(const Shape& s, int64_t extent, bool k_contiguous) {
    if (!k_contiguous) return s.threads() % (extent / s.vec) == 0;
    if (s.cp_async != 0) return s.threads() % (4 * s.block_k) == 0;
    const bool by_lines = s.bcf != 0 && s.threads() % extent == 0;
    return by_lines || s.threads() % (s.block_k / s.vec) == 0;
}

// Sums, operands, tiles on their way through registers, addresses.
int64_t registers_needed(const Shape& s) {
    if (s.smem == 0) return 40;
    const int64_t held = s.cp_async != 0 ? 0 : ceil_div((s.block_m + s.block_n) * s.block_k, s.threads());
    return s.thread_m * s.thread_n + s.reg_buffers * (s.thread_m + s.thread_n) + held + 40;
}

int64_t blocks_per_sm(const Shape& s, const DeviceLimits& limits) {
    return gemm::blocks_per_sm(limits, smem_bytes(s), s.threads(), registers_needed(s));
}

int64_t tiles(const Gemm& g, const Shape& s) {
    return ceil_div(g.m, s.block_m) * ceil_div(g.n, s.block_n) * g.batch;
}
int64_t k_per_split(const Gemm& g, const Shape& s) {
    return gemm::round_up(ceil_div(g.k, s.split_k), s.block_k);
}

}  // namespace autotune::simt_f32
