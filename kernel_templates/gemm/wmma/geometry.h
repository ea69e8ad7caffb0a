#pragma once

#include <cstdint>

#include "kernel_templates/gemm/tile_shapes.h"
#include "src/core/config.h"
#include "src/core/device.h"

// What gemm/wmma's rules, cost model and launch plan share: a config with names resolved, and the resources that follow from it.
// The same formulas stand in kernel.cuh.
namespace autotune::wmma {

using gemm::ceil_div;
using gemm::Gemm;
using gemm::kElementBytes;
using gemm::order_of;
using gemm::round_up;

struct Shape {
    std::int64_t wmma_m, block_m, block_n, block_k, warps_m, warps_n, cp_async, stages, smem_pad, dsmem, min_blocks;
    std::int64_t raster, swizzle_stride;

    std::int64_t wmma_n() const { return 256 / wmma_m; }
    std::int64_t warps() const { return warps_m * warps_n; }
    std::int64_t threads() const { return 32 * warps(); }
    std::int64_t warp_m() const { return block_m / warps_m; }
    std::int64_t warp_n() const { return block_n / warps_n; }
};

// A parameter that the config lacks is 1.
Shape shape_of(const Config& config);
Config config_of(const Shape& shape);

// Shared memory, static or dynamic: the buffers of A and B, or the slabs through which C leaves, which take their place.
std::int64_t smem_bytes(const Gemm& g, const Shape& s);
// Registers a thread needs without spilling.
std::int64_t registers_needed(const Gemm& g, const Shape& s);
std::int64_t registers_allowed(const Shape& s, const DeviceLimits& limits);
std::int64_t blocks_per_sm(const Gemm& g, const Shape& s, const DeviceLimits& limits);

// Predicted microseconds of a launch: for ranking, not for reporting.
double predict_us(const Gemm& g, const Shape& s, const Device& device);

}  // namespace autotune::wmma
