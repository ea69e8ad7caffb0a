#pragma once

#include <cstdint>

#include "kernel_templates/gemm/shared/family_parts.h"
#include "kernel_templates/parameter_table.h"
#include "src/core/problem/device.h"
#include "src/core/space/config.h"

// Shared by gemm/wgmma_tf32's rules, cost model and launch plan. kernel.cuh has the same formulas.
namespace autotune::wgmma_tf32 {

using gemm::ceil_div;
using gemm::Gemm;

inline constexpr std::int64_t kBlockK = 32;     // 128 bytes, a swizzle span
inline constexpr std::int64_t kRowBytes = 128;  // the bytes of a row of a tile in shared memory, along K or along M

// clang-format off
#define GEMM_WGMMA_TF32_PARAMETERS(ROW) \
    ROW(block_m, 1, compile, "rows of a tile, on wgmma's M side", 64, 128, 192, 256) \
    ROW(block_n, 1, compile, "columns of a tile, on wgmma's N side", 32, 64, 96, 128, 160, 192, 224, 256) \
    ROW(consumer_warpgroups, 1, compile, "warpgroups that multiply", 1, 2) \
    ROW(pingpong, 1, compile, "0: consumer warpgroups share a tile; 1: each has its own", 0, 1) \
    ROW(cluster_m, 1, compile, "blocks along M that share a tile of the N-side operand by multicast", 1, 2) \
    ROW(cluster_n, 1, compile, "blocks along N that share a tile of the M-side operand by multicast", 1, 2) \
    ROW(swap_ab, 1, compile, \
        "1: computes the transpose; what the layout asks for, or free where an operand is transposed", 0, 1) \
    ROW(tma_store, 1, compile, "1: C leaves through shared memory and TMA, under the next tile's multiplications", 0, 1) \
    ROW(epilogue_stages, 1, compile, "spans of C of a warp that may be on their way to memory by TMA", 1, 2) \
    ROW(x_sets, 1, compile, \
        "sets of registers for an operand in them; 2: half a stage each, loaded under the other's multiplications", 1, 2) \
    ROW(stages, 1, launch, "stages of the ring, 32 deep each", 2, 3, 4, 5, 6, 7, 8) \
    ROW(raster, 1, launch, "tiles in sequence go along 0: M, 1: N", 0, 1) \
    ROW(group, 1, launch, "tiles along that direction before the other advances", 1, 4, 8, 16) \
    ROW(pdl, 1, launch, "1: programmatic dependent launch: blocks start while the kernel before ends", 0, 1)
// clang-format on

struct ResolvedConfig {
    AUTOTUNE_RESOLVED_CONFIG(GEMM_WGMMA_TF32_PARAMETERS)
    bool x_in_registers;  // determined by the problem, not by the config

    ResolvedConfig(const Config& config, const Gemm& g);

    std::int64_t groups_per_tile() const { return pingpong != 0 ? 1 : consumer_warpgroups; }
    std::int64_t bands() const { return block_m / (64 * groups_per_tile()); }
    // Registers of a thread: for sums, and for X.
    std::int64_t accumulators() const { return bands() * block_n / 2; }
    std::int64_t held() const { return x_in_registers ? bands() * kBlockK / 2 : 0; }
    std::int64_t cluster_blocks() const { return cluster_m * cluster_n; }
    std::int64_t threads() const { return 128 * (consumer_warpgroups + 1); }
    std::int64_t buffer_rows() const { return swap_ab != 0 || x_in_registers ? 32 : 16; }
    // Dynamic shared memory with a ring of `count` stages: alignment slack, tiles, staging, barriers.
    std::int64_t smem_bytes(std::int64_t count) const {
        const std::int64_t staging = tma_store != 0 ? 4 * consumer_warpgroups * epilogue_stages * buffer_rows() * kRowBytes : 0;
        return 1024 + count * (block_m + block_n) * kRowBytes + staging + count * 16 + consumer_warpgroups * 8;
    }
};

// Whether neither operand is stored along K, so that Y is transposed first; and whether the layout allows that value of swap_ab.
bool transposes_y(const Gemm& g);
bool may_swap(const Gemm& g, bool swap_ab);

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

}  // namespace autotune::wgmma_tf32
