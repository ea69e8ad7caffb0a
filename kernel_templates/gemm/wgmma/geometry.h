#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernel_templates/gemm/shared/family_parts.h"
#include "kernel_templates/parameter_table.h"
#include "src/core/problem/device.h"
#include "src/core/space/config.h"

// A problem and a config with named parameters, and the sizes derived from them, shared by gemm/wgmma's rules, cost model and
// launch plans. kernel.cuh has the same formulas.
namespace autotune::wgmma {

using gemm::ceil_div;
using gemm::Gemm;
using gemm::round_up;

// The parameters of all families with this ResolvedConfig, some with fewer values (their own family.cpp).
// clang-format off
#define GEMM_WGMMA_SHARED_PARAMETERS(ROW) \
    ROW(block_m, 1, compile, "rows of a tile, on wgmma's M side", 64, 128, 192, 256) \
    ROW(block_n, 1, compile, "columns of a tile, on wgmma's N side", values_in_steps(16, 256, 16)) \
    ROW(block_k, 1, compile, "depth of a stage", 32, 64, 128) \
    ROW(consumer_warpgroups, 1, compile, "warpgroups that multiply", 1, 2, 3) \
    ROW(pingpong, 1, compile, "0: consumer warpgroups share a tile; 1: each has its own", 0, 1) \
    ROW(cluster_m, 1, compile, "blocks along M that share a tile of the N-side operand by multicast", 1, 2, 4) \
    ROW(cluster_n, 1, compile, "blocks along N that share a tile of the M-side operand by multicast", 1, 2, 4) \
    ROW(cluster_k, 1, compile, "blocks that divide the K of a tile and add it through their shared memory", 1, 2, 4, 8) \
    ROW(swap_ab, 1, compile, "1: computes the transpose, so that few rows become few columns", 0, 1) \
    ROW(tma_store, 1, compile, "1: C leaves through shared memory and TMA, under the next tile's multiplications", 0, 1) \
    ROW(epilogue_stages, 1, compile, "spans of C that may be on their way to memory by TMA", 1, 2, 3, 4) \
    ROW(tma_swizzle, 1, compile, "bytes of an operand's row that a swizzle pattern spans", 64, 128) \
    ROW(reduce_kernel, 0, compile, "who adds the parts of split-K: 0: the last block of a tile, 1: a second kernel", 0, 1) \
    ROW(stages, 1, launch, "stages of the ring", 2, 3, 4, 5, 6, 7, 8, 9, 10, 12) \
    ROW(split_k, 1, launch, "parts of K; 0: stream-K", 0, 1, 2, 3, 4, 6, 8, 12, 16) \
    ROW(raster, 1, launch, "tiles in sequence go along 0: M, 1: N, 2: a Hilbert curve in squares", 0, 1, 2) \
    ROW(group, 1, launch, "tiles along that direction before the other advances, or a square's side", 1, 4, 8, 12, 16, 24) \
    ROW(evict_first, 1, launch, "L2 drops first what is read of 0: neither, 1: the M-side, 2: the N-side operand", 0, 1, 2) \
    ROW(pdl, 1, launch, "1: programmatic dependent launch: blocks start while the kernel before ends", 0, 1) \
    ROW(prefetch_steps, 1, launch, "first K steps that are fetched into L2 before the kernel's turn", 0, 8, 16, 32) \
    ROW(prefetch_all, 0, launch, "who does: 0: each block for its first tile, 1: those on idle SMs for all tiles", 0, 1)

// Parameters that only some of the families have.
#define GEMM_WGMMA_LOOP_PARAMETERS(ROW) \
    ROW(serpentine_k, 0, compile, \
        "1: every other tile of a cluster begins with its last K step, so that L2 still has what it reads first", 0, 1) \
    ROW(advance_descriptors, 1, compile, \
        "1: descriptors and tiles follow from those before by additions, and C is staged in as few rounds as there are buffers", \
        0, 1)
#define GEMM_WGMMA_OVERLAP_PARAMETERS(ROW) \
    ROW(overlap_epilogue, 0, compile, \
        "1: K is never divided, and a cooperative tile leaves under the next one's multiplications", 0, 1)
#define GEMM_WGMMA_PROMOTION_PARAMETERS(ROW) \
    ROW(persistent, 1, launch, "0: a block ends with its tile; 1: blocks stay and walk over tiles", 0, 1) \
    ROW(product_sets, 1, compile, \
        "sets of registers for promoted products; 2: additions run under the next multiplications", 1, 2) \
    ROW(stagger, 0, compile, \
        "1: of two consumer warpgroups that promote, one multiplies while the other adds, from a tile's start", 0, 1)
#define GEMM_WGMMA_DELIVERY_PARAMETERS(ROW) \
    ROW(device_maps, 0, compile, "who makes the tensor maps: 0: the host, 1: a kernel before this one", 0, 1) \
    ROW(store_hint, 0, launch, "1: L2 drops first what TMA stores of C", 0, 1)

#define GEMM_WGMMA_PARAMETERS(ROW) \
    GEMM_WGMMA_SHARED_PARAMETERS(ROW) GEMM_WGMMA_LOOP_PARAMETERS(ROW) GEMM_WGMMA_OVERLAP_PARAMETERS(ROW)
#define GEMM_WGMMA_FP8_PARAMETERS(ROW) \
    GEMM_WGMMA_SHARED_PARAMETERS(ROW) GEMM_WGMMA_PROMOTION_PARAMETERS(ROW) GEMM_WGMMA_OVERLAP_PARAMETERS(ROW) \
    GEMM_WGMMA_DELIVERY_PARAMETERS(ROW)
#define GEMM_WGMMA_ALL_PARAMETERS(ROW) \
    GEMM_WGMMA_PARAMETERS(ROW) GEMM_WGMMA_PROMOTION_PARAMETERS(ROW) GEMM_WGMMA_DELIVERY_PARAMETERS(ROW)
// clang-format on

struct ResolvedConfig {
    AUTOTUNE_RESOLVED_CONFIG(GEMM_WGMMA_ALL_PARAMETERS)

    // The problem gives these, not the config: bytes of an element of the operands, of C and of the accumulators; whether
    // products of 128 k are added outside of the tensor cores; whether columns or blocks have scales, and columns a bias.
    std::int64_t in_bytes, out_bytes, sum_bytes;
    bool promotes, scales_columns, scales_blocks, has_bias;
    bool reads_c;  // beta may be other than 0

    ResolvedConfig(const Config& config, const Gemm& g);

    std::int64_t groups_per_tile() const { return pingpong != 0 ? 1 : consumer_warpgroups; }
    std::int64_t bands() const { return block_m / (64 * groups_per_tile()); }
    std::int64_t accumulators() const { return bands() * block_n * sum_bytes / 8; }  // registers a thread
    // Registers of a thread for the products of one band that are not promoted yet.
    std::int64_t temporaries() const { return promotes ? product_sets * block_n / 2 : 0; }
    // Rounds of staging in which a tile is stored during the next one's multiplications, a K step each; 0 without overlap.
    std::int64_t late_rounds() const {
        const bool finds_registers = accumulators() + bands() * block_n / 4 <= 192;
        if (overlap_epilogue == 0 || pingpong != 0 || out_bytes != 2 || !finds_registers) return 0;
        const std::int64_t spans = block_n / span_c();
        return spans <= epilogue_stages ? 1 : ceil_div(spans, (epilogue_stages + 1) / 2);
    }
    // K steps that an overlapped epilogue needs: one for each round, and those during which it reads C (`most_steps_of_c` in
    // whole_loop.cuh).
    std::int64_t late_steps() const { return late_rounds() + (reads_c ? 8 : 0); }
    std::int64_t sharing_blocks() const { return cluster_m * cluster_n; }  // share tiles by multicast
    std::int64_t cluster_blocks() const { return sharing_blocks() * cluster_k; }
    std::int64_t threads() const { return 128 * (consumer_warpgroups + 1); }
    std::int64_t step_bytes() const { return block_k * in_bytes; }  // bytes of one row
    std::int64_t stage_bytes() const { return (block_m + block_n) * step_bytes(); }
    // Elements of one swizzle span, the widest that divides a tile's extent: of an operand, and of C when it is stored.
    std::int64_t widest_span() const { return tma_swizzle / in_bytes; }
    std::int64_t span(std::int64_t extent) const {
        return extent % widest_span() == 0 ? widest_span() : extent % 32 == 0 && widest_span() > 32 ? 32 : 16;
    }
    std::int64_t span_c() const {
        const std::int64_t widest = 128 / out_bytes;
        return block_n % widest == 0 ? widest : block_n % 32 == 0 ? 32 : 16;
    }
    std::int64_t staging_bytes() const {
        return tma_store != 0 ? epilogue_stages * consumer_warpgroups * 64 * bands() * span_c() * out_bytes : 0;
    }
    // gemm/wgmma_fp8 reserves barriers for the deepest ring.
    std::int64_t stage_barrier_bytes(std::int64_t count) const { return (in_bytes == 1 ? 12 : count) * 16; }
    // Barriers for the spans of C that gemm/wgmma loads by TMA.
    std::int64_t c_barrier_bytes() const {
        return reads_c && in_bytes == 2 && tma_store != 0 ? consumer_warpgroups * epilogue_stages * 8 : 0;
    }
    // Block scales of the tile's lines and, 16 bytes each, of the two blocks that it touches.
    std::int64_t scale_stage_bytes() const { return scales_blocks ? ((swap_ab != 0 ? block_n : block_m) + 8) * 4 : 0; }
    // Scales and biases of the tile's columns. With exchanged operands biases belong to rows and are in registers.
    std::int64_t column_bytes() const {
        return ((scales_columns ? 1 : 0) + (has_bias && swap_ab == 0 ? 1 : 0)) * consumer_warpgroups * block_n * 4;
    }
    // Bytes that a block receives from the peers of a cluster along K.
    std::int64_t received_bytes() const { return (cluster_k - 1) * (block_m * block_n / cluster_k) * sum_bytes; }
    // Dynamic shared memory with a ring of `count` stages: alignment slack, tiles, staging, barriers.
    std::int64_t smem_bytes(std::int64_t count) const {
        return 1024 + count * stage_bytes() + staging_bytes() + received_bytes() + column_bytes() + count * scale_stage_bytes() +
               stage_barrier_bytes(count) + consumer_warpgroups * 12 + 12 + c_barrier_bytes();
    }
};

// Whether a second block with such a ring fits on an SM next to the first: with programmatic dependent launch, a block of the
// next kernel.
bool fits_twice(const ResolvedConfig& s, std::int64_t stages, const Device& device);

// The arrangement of a config's tiles and parts on a device.
struct Grid {
    std::int64_t count_m, count_n;  // the cluster tiles along the multiplication's M and N
    std::int64_t tiles;             // the cluster tiles of all batches
    std::int64_t whole;             // the cluster tiles that stream-K does not divide
    std::int64_t steps;             // steps of the K loop
    std::int64_t parts;             // the parts of every tile; 0 means stream-K
    std::int64_t room;              // clusters that the device can run at once
    std::int64_t clusters;          // clusters in the grid

    // The number of K steps in a cluster's part of a tile; with stream-K, the average over the parts of all tiles.
    std::int64_t steps_each(const ResolvedConfig& s) const;

    Grid(const Gemm& g, const ResolvedConfig& s, const Device& device);
};

// Whether L2 holds the larger operand, so that memory delivers it once in any order of tiles.
bool rereads_nothing(const Gemm& g, const Device& device);

// Predicted time in microseconds.
double predict(const Gemm& g, const ResolvedConfig& s, const Device& device);

}  // namespace autotune::wgmma
