#pragma once

#include <cstdint>

#include "kernel_templates/gemm/shared/tile_shapes.h"
#include "kernel_templates/parameter_table.h"
#include "src/core/problem/device.h"
#include "src/core/space/config.h"

// A config with named parameters, and the resources derived from it, shared by gemm/wmma's rules, cost model and launch plan.
// kernel.cuh has the same formulas.
namespace autotune::wmma {

using gemm::ceil_div;
using gemm::Gemm;
using gemm::kElementBytes;
using gemm::order_of;
using gemm::round_up;

// clang-format off
#define GEMM_WMMA_PARAMETERS(ROW) \
    ROW(wmma_m, 1, compile, "rows of a wmma tile: m8n32k16, m16n16k16, m32n8k16", 8, 16, 32) \
    ROW(block_m, 1, compile, "rows of C that a block computes", 16, 32, 64, 128, 256) \
    ROW(block_n, 1, compile, "columns of C that a block computes", 16, 32, 64, 128, 256) \
    ROW(warps_m, 1, compile, "warps along the rows of a block's tile", 1, 2, 4) \
    ROW(warps_n, 1, compile, "warps along its columns", 1, 2, 4) \
    ROW(block_k, 1, compile, "depth of a tile in shared memory", 16, 32, 64) \
    ROW(cp_async, 1, compile, \
        "1: tiles are copied by cp.async, as far as rows are aligned to 4 bytes; 0: through registers", 0, 1) \
    ROW(stages, 1, compile, "buffers for tiles in shared memory", 1, 2, 3, 4, 5) \
    ROW(smem_pad, 1, compile, "unused elements after each row of a tile, against bank conflicts", 0, 8) \
    ROW(dsmem, 1, compile, "1: dynamic shared memory, up to what the device gives on request; 0: static, up to 48 KiB", 0, 1) \
    ROW(min_blocks, 1, compile, "blocks that must fit an SM, which bounds registers", 1, 2) \
    ROW(raster, 1, launch, "panels of the block order: 0 along M, blocks run across N; 1 the other way round", 0, 1) \
    ROW(swizzle_stride, 1, launch, "width of a panel in elements of C; 0: the whole extent", 0, 512, 1024, 2048, 4096, 8192)
// clang-format on

struct ResolvedConfig {
    AUTOTUNE_RESOLVED_CONFIG(GEMM_WMMA_PARAMETERS)

    std::int64_t wmma_n() const { return 256 / wmma_m; }
    std::int64_t warps() const { return warps_m * warps_n; }
    std::int64_t threads() const { return 32 * warps(); }
    std::int64_t warp_m() const { return block_m / warps_m; }
    std::int64_t warp_n() const { return block_n / warps_n; }
};

// Shared memory, static or dynamic: the buffers of A and B or, reusing their memory, the slabs through which C is stored.
std::int64_t smem_bytes(const Gemm& g, const ResolvedConfig& s);
// Registers that a thread needs without spilling.
std::int64_t registers_needed(const Gemm& g, const ResolvedConfig& s);
std::int64_t registers_allowed(const ResolvedConfig& s, const DeviceLimits& limits);
std::int64_t blocks_per_sm(const Gemm& g, const ResolvedConfig& s, const DeviceLimits& limits);

// Predicted microseconds of a launch: for ranking, not for reporting.
double predict_us(const Gemm& g, const ResolvedConfig& s, const Device& device);

}  // namespace autotune::wmma
