#pragma once

#include <cstdint>

#include "kernel_templates/gemm/family_parts.h"
#include "src/core/config.h"
#include "src/core/device.h"

// What the rules, the cost model and the launch plan of gemm/wgmma_tf32 share. The same formulas stand in kernel.cuh.
namespace autotune::wgmma_tf32 {

using gemm::ceil_div;
using gemm::Gemm;

inline constexpr std::int64_t kBlockK = 32;     // 128 bytes, a swizzle span
inline constexpr std::int64_t kRowBytes = 128;  // of a tile in shared memory, along K or along M

struct Shape {
    std::int64_t block_m, block_n, math_groups, pingpong, cluster_m, cluster_n, swap_ab, tma_store, store_buffers, x_sets;
    std::int64_t stages, group, raster, pdl;
    bool x_in_registers;  // the problem's, not the config's

    Shape(const Config& config, const Gemm& g);

    std::int64_t groups_per_tile() const { return pingpong != 0 ? 1 : math_groups; }
    std::int64_t bands() const { return block_m / (64 * groups_per_tile()); }
    // Registers a thread: of sums, and of X.
    std::int64_t accumulators() const { return bands() * block_n / 2; }
    std::int64_t held() const { return x_in_registers ? bands() * kBlockK / 2 : 0; }
    std::int64_t cluster_blocks() const { return cluster_m * cluster_n; }
    std::int64_t threads() const { return 128 * (math_groups + 1); }
    std::int64_t buffer_rows() const { return swap_ab != 0 || x_in_registers ? 32 : 16; }
    // Dynamic shared memory with a ring of `count` stages: alignment slack, tiles, staging, barriers.
    std::int64_t smem_bytes(std::int64_t count) const {
        const std::int64_t staging = tma_store != 0 ? 4 * math_groups * store_buffers * buffer_rows() * kRowBytes : 0;
        return 1024 + count * (block_m + block_n) * kRowBytes + staging + count * 16 + math_groups * 8;
    }
};

// Whether neither operand lies along K, so that Y is transposed first; whether swap_ab is what the layout asks for.
bool transposes_y(const Gemm& g);
bool may_swap(const Gemm& g, bool swap_ab);

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

}  // namespace autotune::wgmma_tf32
