#include "tests/kernel_templates/planted_mutants.h"

namespace autotune::test {
namespace {

// clang-format off
std::vector<Mutant> gemm_wmma() {
    return of_family("gemm/wmma",
                     "wmma_m=16 block_m=64 block_n=64 warps_m=2 warps_n=2 block_k=32 cp_async=1 stages=3 smem_pad=8 "
                     "dsmem=0 min_blocks=1", {
        {.name = "no_barrier_after_multiplying",
         .find = "        tile.multiply(buffer);\n        __syncthreads();",
         .replace = "        tile.multiply(buffer);",
         .config = "cp_async=0 stages=1", .shape = "256x256x1024", .races = true},
        {.name = "wait_for_one_tile_too_few",
         .find = "ptx::cp_async_wait<stages - 2>();",
         .replace = "ptx::cp_async_wait<stages - 1>();",
         .shape = "256x256x1024", .races = true},
        {.name = "k_step_ignored",
         .find = "const int at = trans_b ? j * wmma_n * ld_b + k : k * ld_b + j * wmma_n;",
         .replace = "const int at = trans_b ? j * wmma_n * ld_b + k : j * wmma_n;",
         .shape = "64x64x64"},
        {.name = "tail_not_masked", .file = "gemm/device/tile_copy.cuh",
         .find = "return pass * rows_a_pass < rows_left ? max(0, min(chunk, cols_left)) : 0;",
         .replace = "return pass < passes ? chunk : 0;",
         .shape = "72x72x72"},
        {.name = "last_panel_too_wide", .file = "gemm/device/block_order.cuh",
         .find = "const int width = min(order.group, count_across - panel * order.group);",
         .replace = "const int width = order.group;",
         .config = "swizzle_stride=512", .shape = "256x640x64"},
        {.name = "alpha_dropped", .file = "gemm/device/store_run.cuh",
         .find = "f32 value = alpha * to_f32(sums[j]);",
         .replace = "f32 value = to_f32(sums[j]);",
         .shape = "64x64x64", .options = {{"alpha", "0.75"}}},
        {.name = "beta_is_one", .file = "gemm/device/store_run.cuh",
         .find = "value += beta * to_f32(before.at[j]);",
         .replace = "value += to_f32(before.at[j]);",
         .shape = "64x64x64", .options = {{"beta", "0.5"}}}});
}
const Planted kGemmWmma(&gemm_wmma);
// clang-format on

}  // namespace
}  // namespace autotune::test
