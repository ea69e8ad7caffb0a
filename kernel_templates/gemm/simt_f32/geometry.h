#pragma once

#include <cstdint>

#include "kernel_templates/gemm/tile_shapes.h"
#include "src/core/config.h"
#include "src/core/device.h"

// What the rules, the cost model and the launch plan of gemm/simt_f32 share. The same formulas stand in kernel.cuh.
namespace autotune::simt_f32 {

using gemm::ceil_div;
using gemm::Gemm;
using gemm::order_of;

struct Shape {
    std::int64_t smem, block_m, block_n, thread_m, thread_n, lanes_m, block_k, vec, bcf, smem_pad, stages, cp_async,
        reg_transpose, reg_buffers, min_blocks;
    std::int64_t split_k, raster, swizzle_stride;

    std::int64_t threads() const { return block_m / thread_m * (block_n / thread_n); }
    std::int64_t lanes_n() const { return lanes_m == 0 ? 0 : 32 / lanes_m; }
    bool has_warp_tiles() const { return lanes_m != 0; }
};

// A parameter that the config lacks is 1.
Shape shape_of(const Config& config);
Config config_of(const Shape& shape);

// Dynamic shared memory.
std::int64_t smem_bytes(const Shape& s);
// Whether both operands are stored along K, as in nt.
bool both_along_k(const Gemm& g);
// Whether a thread goes from one chunk of an operand's tile to the next by a constant step.
bool copies_evenly(const Shape& s, std::int64_t extent, bool k_contiguous);
// Registers a thread needs without spilling.
std::int64_t registers_needed(const Shape& s);
std::int64_t blocks_per_sm(const Shape& s, const DeviceLimits& limits);

// Time expected, in microseconds, for ranking.
double predict_us(const Gemm& g, const Shape& s, const Device& device);

}  // namespace autotune::simt_f32
