#pragma once

#include <cstdint>

#include "kernel_templates/gemm/shared/family_parts.h"
#include "kernel_templates/parameter_table.h"
#include "src/core/problem/device.h"
#include "src/core/space/config.h"

// Shared by gemm/wgmma_tf32x3's rules, cost model and launch plan. kernel.cuh has the same formulas.
namespace autotune::wgmma_tf32x3 {

using gemm::ceil_div;
using gemm::Gemm;

inline constexpr std::int64_t kBlockM = 128;    // 64 rows for each consumer warpgroup
inline constexpr std::int64_t kBlockK = 32;     // 128 bytes, a swizzle span
inline constexpr std::int64_t kRowBytes = 128;  // the bytes of a row of a tile in shared memory, along K or along M
inline constexpr std::int64_t kThreads = 384;

// clang-format off
#define GEMM_WGMMA_TF32X3_PARAMETERS(ROW) \
    ROW(block_n, 1, compile, "columns of a tile, on wgmma's N side; it has 128 rows", 32, 64, 96, 128, 160, 192) \
    ROW(parts_n, 1, compile, "runs of columns, of which one at a time has registers for its products", 1, 2) \
    ROW(cluster_m, 1, compile, "blocks along M that share a tile of the N-side operand by multicast", 1, 2) \
    ROW(cluster_n, 1, compile, "blocks along N that share a tile of the M-side operand by multicast", 1, 2) \
    ROW(swap_ab, 1, compile, \
        "1: computes the transpose; what the layout asks for, or free where an operand is transposed", 0, 1) \
    ROW(stages, 1, launch, "stages of the ring, 32 deep each", 2, 3, 4, 5, 6, 8) \
    ROW(raster, 1, launch, "tiles in sequence go along 0: M, 1: N", 0, 1) \
    ROW(group, 1, launch, "tiles along that direction before the other advances", 1, 4, 8, 16) \
    ROW(pdl, 1, launch, "1: programmatic dependent launch: blocks start while the kernel before ends", 0, 1)
// clang-format on

struct ResolvedConfig {
    AUTOTUNE_RESOLVED_CONFIG(GEMM_WGMMA_TF32X3_PARAMETERS)

    std::int64_t part_columns() const { return block_n / parts_n; }
    // Registers of a thread for sums, for the products of one part, and for both parts of X.
    std::int64_t held() const { return block_n / 2 + part_columns() / 2 + kBlockK; }
    std::int64_t cluster_blocks() const { return cluster_m * cluster_n; }
    // Dynamic shared memory with a ring of `count` stages: alignment slack, tiles and Y's low parts, barriers.
    std::int64_t smem_bytes(std::int64_t count) const { return 1024 + count * ((kBlockM + 2 * block_n) * kRowBytes + 24); }
};

// The arrangement of a config's tiles on a device.
struct Grid {
    std::int64_t count_m, count_n;  // the cluster tiles along the multiplication's M and N
    std::int64_t tiles;             // tiles of all batches
    std::int64_t steps;             // steps of the K loop
    std::int64_t clusters;          // clusters in the grid: all run at once, and process several tiles each

    Grid(const Gemm& g, const ResolvedConfig& s, const Device& device);
};

// Predicted time in microseconds, for ranking.
double predict_us(const Gemm& g, const ResolvedConfig& s, const Device& device);

}  // namespace autotune::wgmma_tf32x3
