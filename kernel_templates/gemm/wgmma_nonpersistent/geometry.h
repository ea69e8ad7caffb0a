#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernel_templates/gemm/shared/family_parts.h"
#include "kernel_templates/parameter_table.h"
#include "src/core/problem/device.h"
#include "src/core/space/config.h"

// A problem and a config with named parameters, and the sizes derived from them, shared by gemm/wgmma_nonpersistent's rules, cost
// model and launch plans. kernel.cuh has the same formulas.
namespace autotune::wgmma_nonpersistent {

using gemm::ceil_div;
using gemm::Gemm;
using gemm::round_up;

// clang-format off
#define GEMM_WGMMA_NONPERSISTENT_PARAMETERS(ROW) \
    ROW(block_m, 1, compile, "rows of a tile, on wgmma's M side", 64, 128, 192, 256) \
    ROW(block_n, 1, compile, "columns of a tile, on wgmma's N side", values_in_steps(16, 256, 8)) \
    ROW(block_k, 1, compile, "depth of a stage", 64, 128) \
    ROW(consumer_warpgroups, 1, compile, "warpgroups along the rows of a tile", 1, 2, 3) \
    ROW(k_warpgroups, 1, compile, "sets of warpgroups that take the K steps of a block in turn", 1, 2, 4) \
    ROW(cluster_m, 1, compile, "blocks along M that share a tile of the N-side operand by multicast", 1, 2, 4) \
    ROW(cluster_n, 1, compile, "blocks along N that share a tile of the M-side operand by multicast", 1, 2, 4) \
    ROW(cluster_k, 1, compile, "blocks that divide the K of a tile and add it through their shared memory", 1, 2, 3, 4, 6, 8) \
    ROW(swap_ab, 1, compile, "1: computes the transpose, so that few rows become few columns", 0, 1) \
    ROW(stages, 1, compile, "stages of the ring", 2, 3, 4, 5, 6, 7, 8, 10, 12, 16) \
    ROW(raster, 1, compile, "0: clusters that start one after the other lie along M, 1: along N", 0, 1) \
    ROW(pdl, 1, launch, "1: programmatic dependent launch: blocks start while the kernel before ends", 0, 1)
// clang-format on

struct ResolvedConfig {
    AUTOTUNE_RESOLVED_CONFIG(GEMM_WGMMA_NONPERSISTENT_PARAMETERS)
    std::int64_t sum_bytes;  // the bytes of one accumulator, which the problem gives and not the config

    ResolvedConfig(const Config& config, const Gemm& g);

    std::int64_t bands() const { return block_m / (64 * consumer_warpgroups); }
    std::int64_t accumulators() const { return bands() * block_n * sum_bytes / 8; }  // registers a thread
    // The units of 16 columns, which are divided among the parts of K.
    std::int64_t units() const { return bands() * ceil_div(block_n, 16); }
    std::int64_t units_each() const { return ceil_div(units(), parts()); }  // largest number of units that a part adds and stores
    std::int64_t parts() const { return k_warpgroups * cluster_k; }         // parts of K
    std::int64_t sharing_blocks() const { return cluster_m * cluster_n; }   // share tiles by multicast
    std::int64_t cluster_blocks() const { return sharing_blocks() * cluster_k; }
    std::int64_t math_threads() const { return 128 * consumer_warpgroups * k_warpgroups; }
    std::int64_t threads() const { return math_threads() + 32; }
    std::int64_t stage_bytes() const { return (block_m + block_n) * block_k * 2; }
    // Elements of one swizzle span, the widest that divides a tile's extent.
    static std::int64_t span(std::int64_t extent) { return extent % 64 == 0 ? 64 : extent % 32 == 0 ? 32 : 16; }
    // Bytes that the other parts of K send to the parts of a block.
    std::int64_t received_bytes() const {
        return (parts() - 1) * k_warpgroups * units_each() * 128 * consumer_warpgroups * 8 * sum_bytes;
    }
    // Bytes of the staging area through which warps store their share of C, up to 64 columns at a time.
    std::int64_t staging_bytes() const {
        const std::int64_t share = units_each();
        const std::int64_t at_once = share % 4 == 0 && block_n % 64 == 0 ? 4 : share % 2 == 0 && block_n % 32 == 0 ? 2 : 1;
        return math_threads() / 32 * at_once * (16 * 32 + 32);
    }
    // Dynamic shared memory with a ring of `count` stages: alignment slack, tiles, received sums, staging, barriers.
    std::int64_t smem_bytes(std::int64_t count) const {
        return 1024 + count * stage_bytes() + received_bytes() + staging_bytes() + count * 16 + 8;
    }
};

// The arrangement of a config's tiles on a device.
struct Grid {
    std::int64_t tiles_m, tiles_n;  // the tiles along the multiplication's M and N, rounded up to whole clusters
    std::int64_t blocks;
    std::int64_t steps;       // K steps of the tile
    std::int64_t steps_each;  // the most steps that a block has
    std::int64_t an_sm;       // blocks that an SM holds at once

    Grid(const Gemm& g, const ResolvedConfig& s, const Device& device);
};

// The deepest ring of the domain with which `blocks` blocks fit on an SM, not deeper than the number of K steps; nullopt if none
// fits.
std::optional<std::int64_t> deepest_ring(const ResolvedConfig& s, std::int64_t steps, std::int64_t blocks, const Device& device);

// Predicted time in a stream, in microseconds.
double predict(const Gemm& g, const ResolvedConfig& s, const Device& device);

}  // namespace autotune::wgmma_nonpersistent
