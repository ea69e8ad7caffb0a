#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernel_templates/gemm/streams.h"
#include "src/core/config.h"
#include "src/core/device.h"

// What gemm/gemv's rules, cost model and launch plan share: a problem and a config with names resolved, and the sizes that follow
// from them. The same formulas stand in kernel.cuh.
namespace autotune::gemv {

inline constexpr std::int64_t kMostColumns = 64;  // of Y in a block

// X is streamed, Y staged.
struct Streams : gemm::Streams {
    using gemm::Streams::Streams;

    bool groups_lines() const { return x_along_k && align_x < gemm::kChunkBytes; }
    bool groups_k() const { return !x_along_k && align_x < gemm::kChunkBytes; }
    // The width of a block that covers Y in the fewest blocks.
    std::int64_t block_n() const;
};

struct Shape {
    std::int64_t swap_ab, block_m, block_n, block_k, warps_m, warps_k, unroll, x_smem, min_blocks, cluster, evict_first, split_k,
        prefetch_k;

    explicit Shape(const Config& config);

    std::int64_t warps() const { return warps_m * warps_k; }
    std::int64_t threads() const { return 32 * warps(); }
    std::int64_t tiles() const { return block_m / (16 * warps_m); }      // multiplications along M in a warp
    std::int64_t round_k() const { return 32 * warps_k * unroll; }       // k between two turns of a warp
    std::int64_t accumulators() const { return tiles() * block_n / 2; }  // registers a thread
    std::int64_t loaded() const { return tiles() * unroll * 8; }         // registers a thread, where steps wait in them
    std::int64_t waiting_bytes() const { return threads() * loaded() * 4; }
    // The least that a thread needs: with less some spilled (NVRTC 13.0). The compiler reads a whole round of Y ahead where X
    // waits in registers.
    std::int64_t registers() const { return accumulators() + 44 + (x_smem != 0 ? 2 * tiles() * 8 : loaded() + block_n / 2); }
    // Blocks of that many registers and threads in an SM.
    std::int64_t most_blocks(const DeviceLimits& limits) const {
        return std::min(limits.registers_per_sm / (registers() * threads()), limits.threads_per_sm / threads());
    }
    // Dynamic shared memory: `buffers` stages of `columns` lines of Y, and later the sums of the warps.
    std::int64_t smem_bytes(std::int64_t columns, std::int64_t buffers) const;
    std::int64_t block_lines(const Streams& x) const { return block_m - (x.groups_k() ? 8 * warps_m : 0); }
};

// How a config's tiles and parts lie in a problem.
struct Grid {
    std::int64_t tiles_m, tiles_n;
    std::int64_t tiles;       // of all batches
    std::int64_t part_k;      // the most that a block sums
    std::int64_t columns;     // of Y, the most in a block
    std::int64_t smem_bytes;  // dynamic

    Grid(const Streams& x, const Shape& s);
};

inline Shape shape_of(const Config& config) {
    return Shape(config);
}

// Predicted time in microseconds.
double predict(const Streams& x, const Shape& s, const Device& device);

}  // namespace autotune::gemv
