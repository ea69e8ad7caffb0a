#pragma once

#include <array>
#include <cstdint>

#include "kernel_templates/gemm/shared/tile_shapes.h"
#include "kernel_templates/parameter_table.h"
#include "src/core/problem/device.h"
#include "src/core/space/config.h"

// A problem and a config with named parameters, and the resources derived from them, shared by gemm/mma's rules, cost model and
// launch plans. kernel.cuh has the same formulas.
namespace autotune::mma {

using gemm::ceil_div;
using gemm::Gemm;
using gemm::kChunkBytes;
using gemm::kElementBytes;
using gemm::order_of;
using gemm::round_up;

// Parameter values from which the default is chosen.
inline constexpr std::array<std::int64_t, 7> kParts = {1, 2, 3, 4, 6, 8, 16};  // parts of K
inline constexpr std::array<std::int64_t, 5> kRows = {32, 64, 128, 192, 256};  // rows of a tile
inline constexpr std::array<std::int64_t, 6> kColumns = {32, 64, 96, 128, 192, 256};
inline constexpr std::array<std::int64_t, 4> kDepths = {16, 32, 64, 128};
inline constexpr std::array<std::int64_t, 5> kStages = {2, 3, 4, 5, 6};

// clang-format off
#define GEMM_MMA_PARAMETERS(ROW) \
    ROW(block_m, 1, compile, "rows of C that a block computes", kRows.begin(), kRows.end()) \
    ROW(block_n, 1, compile, "columns of C that a block computes", kColumns.begin(), kColumns.end()) \
    ROW(warps_m, 1, compile, "warps along the rows of a block's tile", 1, 2, 4) \
    ROW(warps_n, 1, compile, "warps along its columns", 1, 2, 4) \
    ROW(block_k, 1, compile, "depth of a tile in shared memory", kDepths.begin(), kDepths.end()) \
    ROW(stages, 1, compile, "tiles in the cp.async ring", kStages.begin(), kStages.end()) \
    ROW(smem_swizzle, 1, compile, "1: shared-memory addresses XORed; 0: rows padded by 16 bytes", 0, 1) \
    ROW(reg_buffers, 1, compile, "2: fragments of the next mma step load during this one", 1, 2) \
    ROW(split_barrier, 1, compile, \
        "1: warps tell that they have read a tile one mma step before they wait for the others", 0, 1) \
    ROW(min_blocks, 1, compile, "blocks that must fit an SM, which bounds registers", 1, 2) \
    ROW(pack, 1, compile, "1: operands with unaligned rows are first copied to aligned rows in the workspace", 0, 1) \
    ROW(split_k, 1, launch, \
        "parts of K summed by different blocks, added in order by a second kernel", kParts.begin(), kParts.end()) \
    ROW(raster, 1, launch, "panels of the block order: 0 along M, blocks run across N; 1 the other way round", 0, 1) \
    ROW(swizzle_stride, 1, launch, "width of a panel in elements of C; 0: the whole extent", 0, 512, 1024, 2048, 4096)
// clang-format on

struct ResolvedConfig {
    AUTOTUNE_RESOLVED_CONFIG(GEMM_MMA_PARAMETERS)

    std::int64_t warps() const { return warps_m * warps_n; }
    std::int64_t threads() const { return 32 * warps(); }
    std::int64_t warp_m() const { return block_m / warps_m; }
    std::int64_t warp_n() const { return block_n / warps_n; }
    bool packs(int align_bytes) const { return pack != 0 && align_bytes < kChunkBytes; }
};

// Dynamic shared memory for the ring of tiles. The slabs through which C is stored reuse its memory.
std::int64_t smem_bytes(const Gemm& g, const ResolvedConfig& s);
// The registers that a thread needs in order not to spill.
std::int64_t registers_needed(const Gemm& g, const ResolvedConfig& s);
std::int64_t registers_allowed(const ResolvedConfig& s, const DeviceLimits& limits);
// Whether every thread copies the same number of whole passes of both tiles.
bool copies_evenly(const Gemm& g, const ResolvedConfig& s);
std::int64_t blocks_per_sm(const Gemm& g, const ResolvedConfig& s, const DeviceLimits& limits);

// Predicted microseconds of a whole launch plan: for ranking, not for reporting.
double predict_us(const Gemm& g, const ResolvedConfig& s, const Device& device);

}  // namespace autotune::mma
