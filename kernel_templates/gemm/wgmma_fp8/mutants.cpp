#include "tests/kernel_templates/planted_mutants.h"

namespace autotune::test {
namespace {

// clang-format off
std::vector<Mutant> gemm_wgmma_fp8() {
    const std::map<std::string, std::string> fp8 = {{"dtype", "e4m3"}, {"c", "f32"}};
    const auto with = [fp8](std::map<std::string, std::string> more) {
        more.insert(fp8.begin(), fp8.end());
        return more;
    };
    return of_family("gemm/wgmma_fp8",
                     "block_m=64 block_n=64 block_k=128 consumer_warpgroups=1 pingpong=0 cluster_m=1 cluster_n=1 cluster_k=1 "
                     "swap_ab=0 tma_store=1 epilogue_stages=2 tma_swizzle=128 reduce_kernel=0 stages=12 split_k=1 "
                     "prefetch_steps=0 prefetch_all=0 persistent=1 product_sets=1 stagger=0 store_hint=0", {
        {.name = "promotion_forgotten",
         .find = "constexpr int promotes = ${promotes};",
         .replace = "constexpr int promised = ${promotes};\nconstexpr int promotes = 0;",
         .shape = "64x64x8192", .options = with({{"scale", "row"}})},
        {.name = "row_scale_dropped", .file = "gemm/device/fp8_factors.cuh",
         .find = "return {sums.low * (row * columns.low), sums.high * (row * columns.high)};",
         .replace = "return {sums.low * (alpha_ * columns.low), sums.high * (alpha_ * columns.high)};",
         .shape = "64x64x256", .options = with({{"scale", "row"}, {"acc", "f32fast"}})},
        {.name = "column_scales_of_the_left_neighbour", .file = "gemm/device/fp8_factors.cuh",
         .find = "area_ = area + threadIdx.x % 4 * 8;",
         .replace = "area_ = area;",
         .shape = "64x64x256", .options = with({{"scale", "row"}})},
        {.name = "tensor_scale_of_a_alone", .file = "gemm/device/fp8_scales.cuh",
         .find = "return alpha * (load_scale(x) * load_scale(y));",
         .replace = "return alpha * load_scale(x);",
         .shape = "64x64x256", .options = with({{"scale", "tensor"}})},
        {.name = "block_scale_of_the_first_block", .file = "gemm/device/fp8_factors.cuh",
         .find = "min(block, last_block) * of_blocks.line;\n    }\n};",
         .replace = "min(block, 0) * of_blocks.line;\n    }\n};",
         .shape = "64x256x256", .options = with({{"scale", "block"}})},
        {.name = "block_scales_of_step_0", .file = "gemm/device/fp8_factors.cuh",
         .find = "of_.lines += of_lines.k;",
         .replace = "of_.lines += 0;",
         .shape = "64x64x384", .options = with({{"scale", "block"}})},
        {.name = "chunks_of_scales_of_step_0", .file = "gemm/device/fp8_factors.cuh",
         .find = "        lines_ += (swap_ab ? scales.of_y : scales.of_x).k;",
         .replace = "        lines_ += 0;",
         .shape = "64x64x512", .options = with({{"scale", "block"}})},
        {.name = "first_scale_of_each_chunk", .file = "gemm/device/fp8_factors.cuh",
         .find = "return (step & 3) * 4;",
         .replace = "return 0;",
         .shape = "64x64x512", .options = with({{"scale", "block"}})},
        {.name = "k_tail_dropped", .file = "gemm/device/hopper/hopper_schedule.cuh",
         .find = "return (k + block_k - 1) / block_k;",
         .replace = "return k / block_k;",
         .shape = "64x64x272", .options = with({})},
        {.name = "scales_of_the_upper_band",
         .find = "row0 + band * 64, in_block, step);",
         .replace = "row0, in_block, step);",
         .config = "block_m=128 stages=7", .shape = "128x64x256", .options = with({{"scale", "block"}})},
        {.name = "quotient_one_too_small", .file = "gemm/device/hopper/hopper_whole_tiles.cuh",
         .find = "by >= by ? below + 1 : below);",
         .replace = "by > by ? below + 1 : below);",
         .config = "consumer_warpgroups=2 pingpong=1 stages=12 raster=1 group=4", .shape = "512x512x128", .options = with({{"acc", "f32fast"}})},
        {.name = "last_tile_stays", .file = "gemm/wgmma_fp8/fp8_whole_loop.cuh",
         .find = "        if (!is_first) {\n",
         .replace = "        if (false) {\n",
         .config = "consumer_warpgroups=1 block_n=64 stages=12 overlap_epilogue=1", .shape = "1024x1024x128", .host_shape = "256x512x128", .options = with({{"acc", "f32fast"}, {"c", "bf16"}})},
        {.name = "tile_leaves_to_the_next_ones_place", .file = "gemm/wgmma_fp8/fp8_whole_loop.cuh",
         .find = "store_round(out, before, row0, areas.staging, group, packed, round);\n            });",
         .replace = "store_round(out, tiles.tile(work), row0, areas.staging, group, packed, round);\n            });",
         .config = "consumer_warpgroups=1 block_n=64 stages=12 overlap_epilogue=1", .shape = "1024x1024x128", .host_shape = "256x512x128", .options = with({{"acc", "f32fast"}, {"c", "bf16"}})},
        {.name = "scales_of_the_first_tile", .file = "gemm/wgmma_fp8/fp8_whole_loop.cuh",
         .find = "if (round == 0) read_early();",
         .replace = "if (round == 0 && is_first) read_early();",
         .config = "consumer_warpgroups=1 block_n=64 stages=12 overlap_epilogue=1", .shape = "1024x1024x128", .host_shape = "256x512x128", .options = with({{"acc", "f32fast"}, {"c", "bf16"}, {"scale", "row"}})},
        {.name = "next_stage_not_waited_for",
         .find = "void wait_until_full() const { barrier_wait(ring.full + uniform(at.stage) * 8, at.parity); }",
         .replace = "void wait_until_full() const {}",
         .shape = "64x64x2048", .options = with({{"scale", "row"}}), .races = true},
        {.name = "alpha_forgotten",
         .find = "if (skips_alpha && out.alpha != 1.0f) {",
         .replace = "if (false) {",
         .shape = "64x64x256", .options = with({{"scale", "block"}, {"alpha", "0.75"}})},
        {.name = "f32_staging_not_swizzled",
         .find = "(j * 2 + lane % 4 / 2) ^ (row >> row_shift & chunk_mask)",
         .replace = "(j * 2 + lane % 4 / 2)",
         .shape = "64x64x256", .options = with({})},
    });
}
const Planted kGemmWgmmaFp8(&gemm_wgmma_fp8);

std::vector<Mutant> gemm_wgmma_fp8_epilogue() {
    const std::map<std::string, std::string> all = {{"dtype", "e4m3"}, {"c", "e4m3"}, {"bias", "bf16"}, {"scale_d", "tensor"}, {"amax", "yes"}};
    const std::string epilogue = "gemm/device/fp8_epilogue.cuh";
    return of_family("gemm/wgmma_fp8",
                     "block_m=64 block_n=128 block_k=128 consumer_warpgroups=1 pingpong=0 cluster_m=1 cluster_n=1 cluster_k=1 "
                     "swap_ab=0 tma_store=1 epilogue_stages=2 tma_swizzle=128 reduce_kernel=0 stages=8 split_k=1 "
                     "prefetch_steps=0 prefetch_all=0 persistent=1 product_sets=1 stagger=0 store_hint=0", {
        {.name = "biases_of_the_left_neighbour", .file = epilogue,
         .find = "area_ = area + threadIdx.x % 4 * 8;", .replace = "area_ = area;",
         .shape = "64x128x256", .options = all},
        {.name = "biases_of_the_first_tile", .file = epilogue,
         .find = "bias_at(min(tile.n0 + i * 128", .replace = "bias_at(min(i * 128",
         .shape = "64x256x256", .options = all},
        {.name = "biases_of_columns_exchanged", .file = epilogue,
         .find = "bias_at(min(row + i / 2 * 64 + i % 2 * 8, s.m - 1))", .replace = "bias_at(min(row + i / 2 * 64, s.m - 1))",
         .config = "swap_ab=1 block_n=64 tma_store=0 stages=12", .shape = "64x128x256", .options = all},
        {.name = "factor_of_c_forgotten", .file = epilogue,
         .find = "return {values.low * scale_, values.high * scale_};", .replace = "return values;",
         .shape = "64x128x256", .options = all},
        {.name = "saturated_before_the_factor", .file = epilogue,
         .find = "return {values.low * scale_, values.high * scale_};",
         .replace = "return {fminf(values.low, 448.0f) * scale_, fminf(values.high, 448.0f) * scale_};",
         .shape = "64x128x256", .options = all},
        {.name = "amax_behind_the_factor", .file = epilogue,
         .find = "if (has_low) count(values.low);", .replace = "if (has_low) count(values.low * scale_);",
         .shape = "64x128x256", .options = all},
        {.name = "amax_of_even_columns", .file = epilogue,
         .find = "if (has_high) count(values.high);", .replace = "",
         .shape = "64x256x512", .options = all},
        {.name = "amax_of_one_lane", .file = epilogue,
         .find = "__reduce_max_sync(0xffffffffu, largest_)", .replace = "largest_",
         .shape = "64x128x256", .options = all},
        {.name = "amax_without_the_last_rows", .file = epilogue,
         .find = "rows_left_ = s.m - row;", .replace = "rows_left_ = s.m / 128 * 128 - row;",
         .shape = "96x128x256", .options = all},
        {.name = "fp8_pairs_not_exchanged",
         .find = "__shfl_xor_sync(0xffffffffu, odd ? first : second, 1)", .replace = "(odd ? first : second)",
         .shape = "64x128x256", .options = all},
        {.name = "fp8_staging_not_swizzled",
         .find = "j / 2 ^ (row >> row_shift & chunk_mask)", .replace = "j / 2",
         .shape = "64x128x256", .options = all},
    });
}
const Planted kGemmWgmmaFp8Epilogue(&gemm_wgmma_fp8_epilogue);

std::vector<Mutant> gemm_wgmma_fp8_overlap() {
    return of_family("gemm/wgmma_fp8", "", {
        // If only the consumer warpgroups' own wait is missing, the answer is still right, because they read scales after
        // products of operands that the producer waited for.
        {.name = "nobody_waits", .file = "gemm/device/hopper/hopper_ring.cuh",
         .find = "    " + kWait + "    dependent_launch::let_next_grid_start();\n",
         .replace = "    dependent_launch::let_next_grid_start();\n",
         .config = "pdl=1", .shape = "4096x1x512",
         .options = {{"dtype", "e4m3"}, {"c", "f32"}, {"acc", "f32fast"}, {"scale", "row"}}}});
}
const PlantedInChain kGemmWgmmaFp8Overlap(&gemm_wgmma_fp8_overlap);
// clang-format on

}  // namespace
}  // namespace autotune::test
