#pragma once

#include <cstdint>

#include "kernel_templates/gemm/tile_shapes.h"
#include "src/core/config.h"
#include "src/core/device.h"

// What the rules, the cost model and the launch plan of gemm/wmma_tf32 share. The same formulas stand in kernel.cuh.
namespace autotune::wmma_tf32 {

using gemm::ceil_div;
using gemm::Gemm;
using gemm::order_of;

struct Shape {
    std::int64_t block_m, block_n, warps_m, warps_n, block_k, stages, smem_pad, dsmem;
    std::int64_t raster, swizzle_stride;

    std::int64_t warps() const { return warps_m * warps_n; }
    std::int64_t threads() const { return 32 * warps(); }
    std::int64_t warp_m() const { return block_m / warps_m; }
    std::int64_t warp_n() const { return block_n / warps_n; }
};

// A parameter that the config lacks is 1.
Shape shape_of(const Config& config);
Config config_of(const Shape& shape);

// The buffers of tiles, or the slabs through which C leaves, which take their place.
std::int64_t smem_bytes(const Gemm& g, const Shape& s);
// Registers a thread needs without spilling.
std::int64_t registers_needed(const Shape& s);

// Time expected, in microseconds, for ranking.
double predict_us(const Gemm& g, const Shape& s, const Device& device);

}  // namespace autotune::wmma_tf32
