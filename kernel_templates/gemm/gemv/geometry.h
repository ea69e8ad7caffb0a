#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "kernel_templates/gemm/shared/streams.h"
#include "kernel_templates/parameter_table.h"
#include "src/core/problem/device.h"
#include "src/core/space/config.h"

// A problem and a config with named parameters, and the sizes derived from them, shared by gemm/gemv's rules, cost model and
// launch plan. kernel.cuh has the same formulas.
namespace autotune::gemv {

inline constexpr std::int64_t kMostColumns = 64;                                          // columns of Y in a block
inline constexpr std::array<std::int64_t, 10> kParts = {1, 2, 3, 4, 5, 6, 7, 8, 12, 16};  // parts of K

// X is streamed, Y staged.
struct Streams : gemm::Streams {
    using gemm::Streams::Streams;

    bool groups_lines() const { return x_along_k && align_x < gemm::kChunkBytes; }
    bool groups_k() const { return !x_along_k && align_x < gemm::kChunkBytes; }
    // The width of a block that covers Y in the fewest blocks.
    std::int64_t block_n() const;
};

// clang-format off
#define GEMM_GEMV_PARAMETERS(ROW) \
    ROW(swap_ab, 1, compile, "what is streamed: 0: A, 1: B, which computes the transpose", 0, 1) \
    ROW(block_m, 1, compile, "lines of the streamed operand a block", 16, 32, 64, 128, 256) \
    ROW(block_n, 1, compile, "lines of the other operand a block", 8, 16, 24, 32, 40, 48, 56, 64) \
    ROW(warps_m, 1, compile, "warps along the lines", 1, 2, 4, 8) \
    ROW(warps_k, 1, compile, "warps along K, whose sums are added in shared memory", 1, 2, 4, 8, 16) \
    ROW(unroll, 1, compile, "steps of 32 k that a warp loads ahead", 1, 2, 4, 8) \
    ROW(x_smem, 1, compile, "they wait in 0: registers, 1: shared memory", 0, 1) \
    ROW(block_k, 1, compile, "depth of the other operand in shared memory at once", 128, 256, 512, 1024, 2048, 4096) \
    ROW(min_blocks, 1, compile, "blocks that the registers of an SM must hold", 1, 2, 3, 4) \
    ROW(evict_first, 1, compile, "1: L2 drops the streamed operand first", 0, 1) \
    ROW(cluster, 1, compile, \
        "1: the parts of K are a cluster and add through its shared memory; 0: through the workspace", 0, 1) \
    ROW(split_k, 1, launch, "parts of K", kParts.begin(), kParts.end()) \
    ROW(prefetch_k, 1, launch, \
        "k of each part that are fetched into L2 while the kernel before this one ends", 0, 512, 2048, 8192)
// clang-format on

struct ResolvedConfig {
    AUTOTUNE_RESOLVED_CONFIG(GEMM_GEMV_PARAMETERS)

    std::int64_t warps() const { return warps_m * warps_k; }
    std::int64_t threads() const { return 32 * warps(); }
    std::int64_t tiles() const { return block_m / (16 * warps_m); }      // multiplications along M in a warp
    std::int64_t round_k() const { return 32 * warps_k * unroll; }       // the k between two rounds of a warp
    std::int64_t accumulators() const { return tiles() * block_n / 2; }  // registers a thread
    std::int64_t loaded() const { return tiles() * unroll * 8; }         // registers of a thread for steps that are loaded ahead
    std::int64_t waiting_bytes() const { return threads() * loaded() * 4; }
    // The fewest registers without spills (NVRTC 13.0). If X waits in registers, the compiler reads a whole round of Y ahead.
    std::int64_t registers() const { return accumulators() + 44 + (x_smem != 0 ? 2 * tiles() * 8 : loaded() + block_n / 2); }
    // Blocks per SM, given their registers and threads.
    std::int64_t most_blocks(const DeviceLimits& limits) const {
        return std::min(limits.registers_per_sm / (registers() * threads()), limits.threads_per_sm / threads());
    }
    // Dynamic shared memory for `buffers` stages of `columns` lines of Y. Later the sums of the warps use it.
    std::int64_t smem_bytes(std::int64_t columns, std::int64_t buffers) const;
    std::int64_t block_lines(const Streams& x) const { return block_m - (x.groups_k() ? 8 * warps_m : 0); }
};

// The tiles of a problem and its parts of K, for a config.
struct Grid {
    std::int64_t tiles_m, tiles_n;
    std::int64_t tiles;       // tiles of all batches
    std::int64_t part_k;      // the most k that a block sums
    std::int64_t columns;     // the most columns of Y that a block has
    std::int64_t smem_bytes;  // dynamic

    Grid(const Streams& x, const ResolvedConfig& s);
};

// Predicted time in microseconds.
double predict(const Streams& x, const ResolvedConfig& s, const Device& device);

}  // namespace autotune::gemv
