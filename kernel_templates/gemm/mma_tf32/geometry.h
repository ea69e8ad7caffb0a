#pragma once

#include <cstdint>

#include "kernel_templates/gemm/shared/tile_shapes.h"
#include "kernel_templates/parameter_table.h"
#include "src/core/problem/device.h"
#include "src/core/space/config.h"

// Shared by gemm/mma_tf32's rules, cost model and launch plan. kernel.cuh has the same formulas.
namespace autotune::mma_tf32 {

using gemm::ceil_div;
using gemm::Gemm;
using gemm::order_of;

// clang-format off
#define GEMM_MMA_TF32_PARAMETERS(ROW) \
    ROW(block_m, 1, compile, "rows of C that a block computes", 32, 64, 128, 256) \
    ROW(block_n, 1, compile, "columns of C that a block computes", 32, 64, 128, 256) \
    ROW(warps_m, 1, compile, "warps along the rows of a block's tile", 1, 2, 4) \
    ROW(warps_n, 1, compile, "warps along its columns", 1, 2, 4) \
    ROW(block_k, 1, compile, "depth of a tile in shared memory", 16, 32) \
    ROW(stages, 1, compile, "tiles in the cp.async ring", 2, 3, 4, 5, 6) \
    ROW(promote_k, 1, compile, "tf32x3: depth of the sums that tensor cores keep; the others are CUDA cores'", 8, 16, 32) \
    ROW(min_blocks, 1, compile, "blocks that must fit an SM, which bounds registers", 1, 2, 3) \
    ROW(split_k, 1, launch, "parts of K summed by different blocks, added in order by a second kernel", 1, 2, 3, 4, 6, 8, 16) \
    ROW(raster, 1, launch, "panels of the block order: 0 along M, blocks run across N; 1 the other way round", 0, 1) \
    ROW(swizzle_stride, 1, launch, "width of a panel in elements of C; 0: the whole extent", 0, 512, 1024, 2048, 4096)
// clang-format on

struct ResolvedConfig {
    AUTOTUNE_RESOLVED_CONFIG(GEMM_MMA_TF32_PARAMETERS)

    std::int64_t warps() const { return warps_m * warps_n; }
    std::int64_t threads() const { return 32 * warps(); }
    std::int64_t warp_m() const { return block_m / warps_m; }
    std::int64_t warp_n() const { return block_n / warps_n; }
};

std::int64_t smem_bytes(const ResolvedConfig& s);
// Whether all threads together copy whole rows of both tiles in each pass.
bool copies_evenly(const Gemm& g, const ResolvedConfig& s);
// Registers that a thread needs without spilling, if each product is the sum of `terms` products of parts.
std::int64_t registers_needed(const ResolvedConfig& s, int terms);

// Predicted time in microseconds, for ranking.
double predict_us(const Gemm& g, const ResolvedConfig& s, int terms, const Device& device);

}  // namespace autotune::mma_tf32
