#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernel_templates/gemm/family_parts.h"
#include "kernel_templates/gemm/shape_members.h"
#include "src/core/config.h"
#include "src/core/device.h"

// What gemm/wgmma's rules, cost model and launch plans share: a problem and a config with names resolved, and the sizes that
// follow from them. The same formulas stand in kernel.cuh.
namespace autotune::wgmma {

using gemm::ceil_div;
using gemm::Gemm;
using gemm::round_up;

struct Shape {
    std::int64_t block_m, block_n, block_k, math_groups, pingpong, cluster_m, cluster_n, cluster_k, tma_store, store_buffers,
        tma_swizzle, reduce_kernel, swap_ab;
    std::int64_t stages, group, raster, split_k, evict_first, pdl, prefetch_steps, prefetch_all;
    std::int64_t persistent;    // 0: a block ends with its tile
    std::int64_t product_sets;  // of registers for products that are to be promoted
    std::int64_t stagger;       // 1: two math groups promote in turns
    std::int64_t incremental;   // 1: descriptors and tiles by additions
    std::int64_t whole_tiles;   // 1: K is never divided, and a cooperative tile leaves under the next one's multiplications
    std::int64_t turn_k;        // 1: every other tile of a cluster begins with its last K step
    // The problem's, not the config's: bytes of an element of the operands, of C and of the accumulators, whether products of 128
    // k are added outside of the tensor cores, whether columns or blocks have scales of their own, and columns a bias.
    std::int64_t in_bytes, out_bytes, sum_bytes;
    bool promotes, scales_columns, scales_blocks, has_bias;
    bool reads_c;  // what beta multiplies

    Shape(const Config& config, const Gemm& g);

    std::int64_t groups_per_tile() const { return pingpong != 0 ? 1 : math_groups; }
    std::int64_t bands() const { return block_m / (64 * groups_per_tile()); }
    std::int64_t accumulators() const { return bands() * block_n * sum_bytes / 8; }  // registers a thread
    // Registers a thread that hold the products of one band before they are promoted.
    std::int64_t temporaries() const { return promotes ? product_sets * block_n / 2 : 0; }
    // Rounds of staging in which a tile leaves under the next one's multiplications, a K step each; 0 where it does not.
    std::int64_t late_rounds() const {
        const bool finds_registers = accumulators() + bands() * block_n / 4 <= 192;
        if (whole_tiles == 0 || pingpong != 0 || out_bytes != 2 || !finds_registers) return 0;
        const std::int64_t spans = block_n / span_c();
        return spans <= store_buffers ? 1 : ceil_div(spans, (store_buffers + 1) / 2);
    }
    // K steps that a tile needs to leave late: one for each round, and those under which it reads C, `most_steps_of_c` in
    // whole_loop.cuh.
    std::int64_t late_steps() const { return late_rounds() + (reads_c ? 8 : 0); }
    std::int64_t sharing_blocks() const { return cluster_m * cluster_n; }  // share tiles by multicast
    std::int64_t cluster_blocks() const { return sharing_blocks() * cluster_k; }
    std::int64_t threads() const { return 128 * (math_groups + 1); }
    std::int64_t step_bytes() const { return block_k * in_bytes; }  // of one row
    std::int64_t stage_bytes() const { return (block_m + block_n) * step_bytes(); }
    // Elements of one swizzle span, the widest that divides a tile's extent: of an operand, and of C on its way out.
    std::int64_t widest_span() const { return tma_swizzle / in_bytes; }
    std::int64_t span(std::int64_t extent) const {
        return extent % widest_span() == 0 ? widest_span() : extent % 32 == 0 && widest_span() > 32 ? 32 : 16;
    }
    std::int64_t span_c() const {
        const std::int64_t widest = 128 / out_bytes;
        return block_n % widest == 0 ? widest : block_n % 32 == 0 ? 32 : 16;
    }
    std::int64_t staging_bytes() const {
        return tma_store != 0 ? store_buffers * math_groups * 64 * bands() * span_c() * out_bytes : 0;
    }
    // gemm/wgmma_fp8 has barriers for the deepest ring.
    std::int64_t stage_barrier_bytes(std::int64_t count) const { return (in_bytes == 1 ? 12 : count) * 16; }
    // Barriers of the spans of C that gemm/wgmma loads by TMA.
    std::int64_t c_barrier_bytes() const {
        return reads_c && in_bytes == 2 && tma_store != 0 ? math_groups * store_buffers * 8 : 0;
    }
    // Scales of blocks, of the tile's lines and, 16 bytes each, of two blocks that it touches.
    std::int64_t scale_stage_bytes() const { return scales_blocks ? ((swap_ab != 0 ? block_n : block_m) + 8) * 4 : 0; }
    // And the scales and biases of the tile's columns; exchanged, biases are of rows, in registers.
    std::int64_t column_bytes() const {
        return ((scales_columns ? 1 : 0) + (has_bias && swap_ab == 0 ? 1 : 0)) * math_groups * block_n * 4;
    }
    // What the peers of a cluster along K send.
    std::int64_t received_bytes() const { return (cluster_k - 1) * (block_m * block_n / cluster_k) * sum_bytes; }
    // Dynamic shared memory with a ring of `count` stages: alignment slack, tiles, staging, barriers.
    std::int64_t smem_bytes(std::int64_t count) const {
        return 1024 + count * stage_bytes() + staging_bytes() + received_bytes() + column_bytes() + count * scale_stage_bytes() +
               stage_barrier_bytes(count) + math_groups * 12 + 12 + c_barrier_bytes();
    }
};

// In the order of the parameters that all families with this Shape have ...
inline constexpr std::array<gemm::Member<Shape>, 21> kMembers = {{{"block_m", &Shape::block_m},
                                                                  {"block_n", &Shape::block_n},
                                                                  {"block_k", &Shape::block_k},
                                                                  {"math_groups", &Shape::math_groups},
                                                                  {"pingpong", &Shape::pingpong},
                                                                  {"cluster_m", &Shape::cluster_m},
                                                                  {"cluster_n", &Shape::cluster_n},
                                                                  {"cluster_k", &Shape::cluster_k},
                                                                  {"swap_ab", &Shape::swap_ab},
                                                                  {"tma_store", &Shape::tma_store},
                                                                  {"store_buffers", &Shape::store_buffers},
                                                                  {"tma_swizzle", &Shape::tma_swizzle},
                                                                  {"reduce_kernel", &Shape::reduce_kernel, 0},
                                                                  {"stages", &Shape::stages},
                                                                  {"split_k", &Shape::split_k},
                                                                  {"raster", &Shape::raster},
                                                                  {"group", &Shape::group},
                                                                  {"evict_first", &Shape::evict_first},
                                                                  {"pdl", &Shape::pdl},
                                                                  {"prefetch_steps", &Shape::prefetch_steps},
                                                                  {"prefetch_all", &Shape::prefetch_all, 0}}};
// ... and that some have.
inline constexpr std::array<gemm::Member<Shape>, 6> kOwnMembers = {{{"persistent", &Shape::persistent},
                                                                    {"product_sets", &Shape::product_sets},
                                                                    {"stagger", &Shape::stagger, 0},
                                                                    {"turn_k", &Shape::turn_k, 0},
                                                                    {"incremental", &Shape::incremental},
                                                                    {"whole_tiles", &Shape::whole_tiles, 0}}};

// Whether an SM has room for a second block beside one with such a ring: with programmatic dependent launch, one of the next
// kernel.
bool fits_twice(const Shape& s, std::int64_t stages, const Device& device);

// How a config's tiles and parts lie on a device.
struct Grid {
    std::int64_t count_m, count_n;  // cluster tiles along the multiplication's M and N
    std::int64_t tiles;             // cluster tiles of all batches
    std::int64_t whole;             // the first of them, which stream-K does not cut
    std::int64_t steps;             // of the K loop
    std::int64_t parts;             // of every tile; 0: stream-K
    std::int64_t room;              // clusters that the device can run at once
    std::int64_t clusters;          // of the grid

    // K steps of a cluster's share of a tile, or of all its tiles' shares on average with stream-K.
    std::int64_t steps_each(const Shape& s) const;

    Grid(const Gemm& g, const Shape& s, const Device& device);
};

// Whether L2 holds the larger operand, so that no order of tiles makes memory deliver it twice.
bool rereads_nothing(const Gemm& g, const Device& device);

// Predicted time in microseconds.
double predict(const Gemm& g, const Shape& s, const Device& device);

}  // namespace autotune::wgmma
