#pragma once

#include <cstdint>

#include "kernel_templates/gemm/family_parts.h"
#include "src/core/config.h"
#include "src/core/device.h"

// What the rules, the cost model and the launch plan of gemm/wgmma_tf32x3 share. The same formulas stand in kernel.cuh.
namespace autotune::wgmma_tf32x3 {

using gemm::ceil_div;
using gemm::Gemm;

inline constexpr std::int64_t kBlockM = 128;    // 64 rows for each math group
inline constexpr std::int64_t kBlockK = 32;     // 128 bytes, a swizzle span
inline constexpr std::int64_t kRowBytes = 128;  // of a tile in shared memory, along K or along M
inline constexpr std::int64_t kThreads = 384;

struct Shape {
    std::int64_t block_n, parts_n, cluster_m, cluster_n, swap_ab, stages, group, raster, pdl;

    explicit Shape(const Config& config);

    std::int64_t part_columns() const { return block_n / parts_n; }
    // Registers a thread: sums, products of one part, and both parts of X.
    std::int64_t held() const { return block_n / 2 + part_columns() / 2 + kBlockK; }
    std::int64_t cluster_blocks() const { return cluster_m * cluster_n; }
    // Dynamic shared memory with a ring of `count` stages: alignment slack, tiles and Y's low parts, barriers.
    std::int64_t smem_bytes(std::int64_t count) const { return 1024 + count * ((kBlockM + 2 * block_n) * kRowBytes + 24); }
};

// How a config's tiles lie on a device.
struct Grid {
    std::int64_t count_m, count_n;  // cluster tiles along the multiplication's M and N
    std::int64_t tiles;             // of all batches
    std::int64_t steps;             // of the K loop
    std::int64_t clusters;          // of the grid: all run at once, and walk over tiles

    Grid(const Gemm& g, const Shape& s, const Device& device);
};

// Time expected, in microseconds, for ranking.
double predict_us(const Gemm& g, const Shape& s, const Device& device);

}  // namespace autotune::wgmma_tf32x3
