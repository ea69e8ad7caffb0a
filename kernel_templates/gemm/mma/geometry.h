#pragma once

#include <cstdint>

#include "kernel_templates/gemm/tile_shapes.h"
#include "src/core/config.h"
#include "src/core/device.h"

// What gemm/mma's rules, cost model and launch plans share: a problem and a config with names resolved, and the resources that
// follow from them. The same formulas stand in kernel.cuh.
namespace autotune::mma {

using gemm::ceil_div;
using gemm::Gemm;
using gemm::kChunkBytes;
using gemm::kElementBytes;
using gemm::order_of;
using gemm::round_up;

struct Shape {
    std::int64_t block_m, block_n, block_k, warps_m, warps_n, stages, smem_swizzle, reg_buffers, split_barrier, min_blocks, pack;
    std::int64_t split_k, raster, swizzle_stride;

    std::int64_t warps() const { return warps_m * warps_n; }
    std::int64_t threads() const { return 32 * warps(); }
    std::int64_t warp_m() const { return block_m / warps_m; }
    std::int64_t warp_n() const { return block_n / warps_n; }
    bool packs(int align_bytes) const { return pack != 0 && align_bytes < kChunkBytes; }
};

// A parameter that the config lacks is 1.
Shape shape_of(const Config& config);
Config config_of(const Shape& shape);

// Dynamic shared memory: the ring of tiles, or the slabs through which C leaves, which take its place.
std::int64_t smem_bytes(const Gemm& g, const Shape& s);
// Registers a thread needs without spilling.
std::int64_t registers_needed(const Gemm& g, const Shape& s);
std::int64_t registers_allowed(const Shape& s, const DeviceLimits& limits);
// Whether every thread copies the same number of whole passes of both tiles.
bool copies_evenly(const Gemm& g, const Shape& s);
std::int64_t blocks_per_sm(const Gemm& g, const Shape& s, const DeviceLimits& limits);

// Predicted microseconds of a whole launch plan: for ranking, not for reporting.
double predict_us(const Gemm& g, const Shape& s, const Device& device);

}  // namespace autotune::mma
