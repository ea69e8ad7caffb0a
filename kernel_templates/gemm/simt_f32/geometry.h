#pragma once

#include <cstdint>

#include "kernel_templates/gemm/shared/tile_shapes.h"
#include "kernel_templates/parameter_table.h"
#include "src/core/problem/device.h"
#include "src/core/space/config.h"

// Shared by gemm/simt_f32's rules, cost model and launch plan. kernel.cuh has the same formulas.
namespace autotune::simt_f32 {

using gemm::ceil_div;
using gemm::Gemm;
using gemm::order_of;

// clang-format off
#define GEMM_SIMT_F32_PARAMETERS(ROW) \
    ROW(smem, 1, compile, "tiles go through shared memory", 0, 1) \
    ROW(block_m, 1, compile, "rows of C a block", 16, 32, 64, 128, 256) \
    ROW(block_n, 1, compile, "columns of C a block", 16, 32, 64, 128, 256) \
    ROW(thread_m, 1, compile, "rows of C a thread", 1, 4, 8, 16) \
    ROW(thread_n, 1, compile, "columns of C a thread", 1, 4, 8, 16) \
    ROW(lanes_m, 1, compile, "a warp computes a tile of its own, so many threads high; 0: threads go row by row", 0, 2, 4, 8) \
    ROW(block_k, 1, compile, "depth of a tile", 8, 16, 32) \
    ROW(vec, 1, compile, "neighbouring elements of one access, as far as alignment goes", 1, 4) \
    ROW(bcf, 1, compile, "1: a thread's rows and columns are runs of four, so that banks do not conflict", 0, 1) \
    ROW(smem_pad, 1, compile, "unused elements after each row of a tile, against bank conflicts", 0, 4) \
    ROW(stages, 1, compile, "buffers for tiles in shared memory", 1, 2, 3, 4) \
    ROW(cp_async, 1, compile, \
        "1: tiles are copied by cp.async, which transposes element by element; 0: through registers", 0, 1) \
    ROW(reg_transpose, 1, compile, \
        "1: operands stored along K are transposed in registers, in patches of four lines by four k", 0, 1) \
    ROW(reg_buffers, 1, compile, "2: operands of the next k are read during this one's products", 1, 2) \
    ROW(min_blocks, 1, compile, "blocks that must fit an SM, which bounds registers", 1, 2, 3) \
    ROW(split_k, 1, launch, "parts of K summed by different blocks, added in order by a second kernel", 1, 2, 3, 4, 6, 8, 16) \
    ROW(raster, 1, launch, "panels of the block order: 0 along M, blocks run across N; 1 the other way round", 0, 1) \
    ROW(swizzle_stride, 1, launch, "width of a panel in elements of C; 0: the whole extent", 0, 512, 1024, 2048)
// clang-format on

struct ResolvedConfig {
    AUTOTUNE_RESOLVED_CONFIG(GEMM_SIMT_F32_PARAMETERS)

    std::int64_t threads() const { return block_m / thread_m * (block_n / thread_n); }
    std::int64_t lanes_n() const { return lanes_m == 0 ? 0 : 32 / lanes_m; }
    bool has_warp_tiles() const { return lanes_m != 0; }
};

// Dynamic shared memory.
std::int64_t smem_bytes(const ResolvedConfig& s);
// Whether both operands are stored along K, as in nt.
bool both_along_k(const Gemm& g);
// Whether the step from one of a thread's chunks to the next is constant.
bool copies_evenly(const ResolvedConfig& s, std::int64_t extent, bool k_contiguous);
// Registers that a thread needs without spilling.
std::int64_t registers_needed(const ResolvedConfig& s);
std::int64_t blocks_per_sm(const ResolvedConfig& s, const DeviceLimits& limits);

// Predicted time in microseconds, for ranking.
double predict_us(const Gemm& g, const ResolvedConfig& s, const Device& device);

}  // namespace autotune::simt_f32
