#include "tests/kernel_templates/mutants.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "src/core/error.h"

namespace autotune::test {
namespace {

std::vector<Mutant> of_family(const std::string& family, const std::string& config, std::vector<Mutant> list) {
    for (Mutant& mutant : list) {
        mutant.name = family.substr(family.find('/') + 1) + "_" + mutant.name;
        mutant.family = family;
        mutant.config = config + " " + mutant.config;
    }
    return list;
}

// clang-format off
std::vector<Mutant> simt() {
    return of_family("gemm/simt", "vec=4 packed=1 bcf=0 smem_pad=0 stages=1 cp_async=0", {
        {.name = "last_row_of_tiles_forgotten",
         .find = "const i64 tiles = (shape.m + block_m - 1) / block_m * tiles_n;",
         .replace = "const i64 tiles = shape.m / block_m * tiles_n;",
         .shape = "130x96x64"},
        {.name = "no_barrier_after_filling",
         .find = "        ptx::cp_async_wait<0>();\n        __syncthreads();\n    };",
         .replace = "        ptx::cp_async_wait<0>();\n    };",
         .shape = "256x256x512", .races = true},
        {.name = "no_barrier_before_filling",
         .find = "if (stages == 1 || is_last) __syncthreads();",
         .replace = "if (is_last) __syncthreads();",
         .shape = "256x256x512", .races = true},
        {.name = "last_k_step_skipped",
         .find = "const bool is_last = k0 >= a.k;",
         .replace = "const bool is_last = k0 + block_k > a.k;",
         .shape = "64x64x72"},
        {.name = "direct_last_k_skipped",
         .find = "for (i64 k = 0; k < a.k; ++k) sums",
         .replace = "for (i64 k = 0; k + 1 < a.k; ++k) sums",
         .config = "smem=0 block_m=16 block_n=16 thread_m=1 thread_n=1 block_k=8 vec=1 packed=0", .shape = "64x64x72"},
        {.name = "buffers_do_not_alternate",
         .find = "        stage = next;\n",
         .replace = "",
         .config = "stages=2", .shape = "64x64x128"},
        {.name = "halves_of_a_tile_not_apart",
         .find = "return i / run * (block / runs) + i % run;",
         .replace = "return i;",
         .config = "bcf=1", .shape = "64x64x64"},
        {.name = "one_of_two_f16_sums_lost",
         .find = "left[i].bits * 0x10001U",
         .replace = "left[i].bits",
         .shape = "64x64x64", .options = {{"acc", "f16"}}},
        {.name = "beta_ignored", .file = "gemm/device/store_run.cuh",
         .find = "value += beta * to_f32(before.at[j]);",
         .replace = "value += 0.0F * to_f32(before.at[j]);",
         .shape = "64x64x64", .options = {{"beta", "0.5"}}},
        {.name = "sums_in_f16",
         .find = "using Acc = ${acc_type};",
         .replace = "using Declared = ${acc_type};\nusing Acc = f16;",
         .shape = "64x64x2048"},
        {.name = "tail_not_masked",
         .find = "across < (k_is_contiguous ? lines_left : k_left) ? (k_is_contiguous ? k_left : lines_left) - along : 0;",
         .replace = "vec;",
         .shape = "65x67x69"},
        {.name = "ld_ignored",
         .find = "const Source left = {a + which * stride_a, lda, row,",
         .replace = "const Source left = {a + which * stride_a, trans_a ? shape.m : shape.k, row,",
         .shape = "64x64x64", .options = {{"lda", "72"}}},
        {.name = "batch_stride_ignored",
         .find = "const Source right = {b + which * stride_b,",
         .replace = "const Source right = {b,",
         .shape = "64x64x64", .options = {{"batch", "3"}}},
        {.name = "transposition_of_b",
         .find = "using FillerB = Filler<trans_b, width_b, block_n>;",
         .replace = "using FillerB = Filler<!trans_b, width_b, block_n>;",
         .shape = "128x128x128"},
        {.name = "a_row_past_the_end",
         .find = "if (row >= rows) return;",
         .replace = "if (row > rows) return;",
         .shape = "66x64x32"},
        {.name = "a_column_past_the_end",
         .find = "shape.beta, cols - col);",
         .replace = "shape.beta, cols - col + 1);",
         .shape = "65x67x69", .options = {{"ldc", "75"}}}});
}

std::vector<Mutant> mma() {
    return of_family("gemm/mma",
                     "block_m=64 block_n=64 warps_m=2 warps_n=2 block_k=32 stages=3 smem_swizzle=1 reg_buffers=1 "
                     "split_barrier=0 min_blocks=1 pack=0 split_k=1", {
        {.name = "no_barrier_between_tiles",
         .find = "        __syncthreads();\n#pragma unroll\n        for (int step = 0;",
         .replace = "#pragma unroll\n        for (int step = 0;",
         .shape = "256x256x1024", .races = true},
        {.name = "wait_for_one_tile_too_few",
         .find = "void meet() {\n    ptx::cp_async_wait<stages - 2>();",
         .replace = "void meet() {\n    ptx::cp_async_wait<stages - 1>();",
         .config = "reg_buffers=2", .shape = "256x256x1024", .races = true},
        {.name = "k_tail_dropped",
         .find = "const int tiles = (k_count + block_k - 1) / block_k;",
         .replace = "const int tiles = k_count / block_k;",
         .shape = "64x64x72"},
        {.name = "swizzle_of_reads",
         .find = "tile + first[in_row % distinct] + in_row / distinct * distinct * 2 * chunk_bytes",
         .replace = "tile + first[0] + in_row * 2 * chunk_bytes",
         .shape = "64x64x64"},
        {.name = "beta_ignored",
         .find = "value = make_float2(value.x + beta * old.x, value.y + beta * old.y);",
         .replace = "value = make_float2(value.x, value.y);",
         .shape = "64x64x64", .options = {{"beta", "0.5"}}},
        {.name = "c_of_a_band_read_again",
         .find = "next = read_band(c + 16 * ldc,",
         .replace = "next = read_band(c,",
         .shape = "64x64x64", .options = {{"beta", "0.5"}}},
        {.name = "second_column_of_c_not_read",
         .find = "if (!reads_pairs_of_c && col + 1 < cols) pair.high = from[1];",
         .replace = "",
         .shape = "65x67x69", .options = {{"beta", "0.5"}, {"align", "2"}}},
        {.name = "alpha_dropped",
         .find = "float2 value = make_float2(alpha * sum.x, alpha * sum.y);",
         .replace = "float2 value = make_float2(sum.x, sum.y);",
         .shape = "64x64x64", .options = {{"alpha", "0.75"}}},
        {.name = "reduction_misses_a_part",
         .find = "for (int split = 1; split < split_k; ++split) {",
         .replace = "for (int split = 1; split + 1 < split_k; ++split) {",
         .config = "split_k=3", .shape = "64x64x512"},
        {.name = "reduction_reads_c_where_beta_is_0",
         .find = "beta != 0 ? values[e] + beta * to_f32(before[e]) : values[e]",
         .replace = "values[e] + beta * to_f32(to[e])",
         .config = "split_k=2", .shape = "64x64x512"},
        {.name = "batch_stride_of_c_ignored",
         .find = "return c + at.batch * stride_c + at.row",
         .replace = "return c + at.row",
         .shape = "64x64x64", .options = {{"batch", "3"}}},
        {.name = "transposition_of_b",
         .find = "ptx::ldmatrix_x4_trans(to, address);",
         .replace = "ptx::ldmatrix_x4(to, address);",
         .shape = "64x64x64"},
        {.name = "tail_not_masked",
         .find = "const int valid = row_holds ? 2 * max(0, min(chunk, cols_left - skipped * chunk)) : 0;",
         .replace = "const int valid = 2 * chunk;",
         .shape = "72x72x72"},
        {.name = "no_barrier_before_the_slabs",
         .find = "    __syncthreads();  // the slabs lie where the ring was\n",
         .replace = "",
         .shape = "256x256x512", .races = true},
        {.name = "sums_in_f16",
         .find = "using Acc = ${acc_type};",
         .replace = "using Declared = ${acc_type};\nusing Acc = f16;",
         .shape = "64x64x2048"},
        {.name = "ring_one_tile_short",
         .find = "if (at == first + stages * stage_bytes) at = first;",
         .replace = "if (at == first + (stages - 1) * stage_bytes) at = first;",
         .shape = "256x256x1024", .races = true},
        {.name = "halves_of_b_exchanged",
         .find = "pair[j % 2 * 2], pair[j % 2 * 2 + 1]",
         .replace = "pair[j % 2 * 2 + 1], pair[j % 2 * 2]",
         .shape = "64x64x64"},
        {.name = "warps_do_not_wait_for_each_other",
         .find = "                    meeting.wait();\n",
         .replace = "                    (void)meeting;\n",
         .config = "reg_buffers=2 split_barrier=1", .shape = "256x256x1024", .races = true},
        {.name = "ld_ignored",
         .find = "CopierB copier_b(batch_b, packs_b ? packed_ldb : ldb,",
         .replace = "CopierB copier_b(batch_b, packs_b ? packed_ldb : n,",
         .shape = "64x72x64", .options = {{"ldb", "80"}}},
        {.name = "pack_ignores_the_batch_stride", .file = "gemm/device/pack.cuh",
         .find = "slice * stride + (row - slice * rows) * ld + col",
         .replace = "(row - slice * rows) * ld + col",
         .config = "pack=1", .shape = "65x67x69", .options = {{"batch", "3"}}}});
}

std::vector<Mutant> wgmma() {
    return of_family("gemm/wgmma",
                     "block_m=64 block_n=64 block_k=64 consumer_warpgroups=1 pingpong=0 cluster_m=1 cluster_n=1 cluster_k=1 "
                     "swap_ab=0 tma_store=1 epilogue_stages=2 tma_swizzle=128 reduce_kernel=0 stages=12 split_k=1 "
                     "prefetch_steps=0 prefetch_all=0 advance_descriptors=1", {
        {.name = "k_tail_dropped", .file = "gemm/device/hopper/hopper_schedule.cuh",
         .find = "return (k + block_k - 1) / block_k;",
         .replace = "return k / block_k;",
         .shape = "64x64x136"},
        {.name = "no_proxy_fence_before_the_store",
         .find = "        fence_async_proxy();\n        named_barrier(1 + group, 128);\n        if (threadIdx.x % 128 != 0) continue;",
         .replace = "        named_barrier(1 + group, 128);\n        if (threadIdx.x % 128 != 0) continue;",
         .config = "block_m=64 block_n=256 block_k=64 consumer_warpgroups=2 pingpong=1 stages=4 group=8", .shape = "4096x4096x64", .races = true},
        {.name = "swizzle_of_the_staging_buffer",
         .find = "(j + lane / 16) ^ (row >> row_shift & chunk_mask)) * 16);\n            u32 r[4];",
         .replace = "(j + lane / 16)) * 16);\n            u32 r[4];",
         .shape = "64x64x64"},
        {.name = "staging_buffer_not_waited_for",
         .find = "    if (threadIdx.x % 128 == 0) store_wait_read<on_their_way>();\n",
         .replace = "",
         .config = "block_m=256 block_n=192 consumer_warpgroups=2 stages=3 epilogue_stages=1 group=1", .shape = "1024x1920x64", .races = true},
        {.name = "alpha_dropped", .file = "gemm/device/pair_store.cuh",
         .find = "const float value = scaled ? sum : out.alpha * sum;",
         .replace = "const float value = sum;",
         .config = "tma_store=0", .shape = "64x64x64", .options = {{"alpha", "0.75"}}},
        {.name = "beta_ignored", .file = "gemm/device/pair_load.cuh",
         .find = "out.alpha * sums.low + out.beta * c.low",
         .replace = "out.alpha * sums.low",
         .config = "tma_store=0", .shape = "64x64x64", .options = {{"beta", "0.5"}}},
        {.name = "second_of_a_pair_of_c", .file = "gemm/device/pair_load.cuh",
         .find = "from[swap_ab ? out.ldc : 1]",
         .replace = "from[1]",
         .config = "tma_store=0 swap_ab=1", .shape = "65x67x69", .options = {{"beta", "0.5"}}},
        {.name = "beta_ignored_where_tma_stores",
         .find = "out.alpha * sums.low + out.beta * before.low",
         .replace = "out.alpha * sums.low",
         .shape = "64x64x64", .options = {{"beta", "0.5"}}},
        {.name = "old_c_not_transposed",
         .find = "ptx::ldmatrix_x4_trans(r, at);",
         .replace = "ptx::ldmatrix_x4(r, at);",
         .config = "swap_ab=1", .shape = "64x64x64", .options = {{"beta", "0.5"}}},
        {.name = "phase_of_a_span_of_c",
         .find = "        parities ^= 1u << buffer;\n",
         .replace = "",
         .config = "block_n=96 stages=10", .shape = "4096x96x64", .options = {{"beta", "0.5"}}, .races = true, .hangs = true},
        {.name = "span_of_c_on_top_of_a_stored_one",
         .find = "                store_wait_read<0>();\n                load_span_of_c",
         .replace = "                load_span_of_c",
         .config = "block_n=96 stages=10", .shape = "4096x96x64", .options = {{"beta", "0.5"}}, .races = true},
        {.name = "counter_not_reset", .file = "gemm/device/hopper/hopper_parts.cuh",
         .find = "atomicInc(counter, parts - 1)",
         .replace = "atomicAdd(counter, 1u)",
         .config = "split_k=2", .shape = "64x64x512"},
        {.name = "reduction_misses_a_part", .file = "gemm/device/hopper/hopper_parts.cuh",
         .find = "for (int part = 0; part < work.parts; ++part) {",
         .replace = "for (int part = 1; part < work.parts; ++part) {",
         .config = "split_k=2", .shape = "64x64x512"},
        {.name = "second_kernel_misses_a_part", .file = "gemm/device/hopper/hopper_parts.cuh",
         .find = "for (int part = 0; part < split_k; ++part) {",
         .replace = "for (int part = 1; part < split_k; ++part) {",
         .config = "split_k=2 tma_store=0 reduce_kernel=1", .shape = "64x64x512"},
        {.name = "second_kernel_adds_another_group", .file = "gemm/device/hopper/hopper_parts.cuh",
         .find = "const int number = group_of_all / groups_per_tile, group_in_tile = group_of_all % groups_per_tile;",
         .replace = "const int number = group_of_all / groups_per_tile, group_in_tile = 0;",
         .config = "block_m=128 consumer_warpgroups=2 split_k=2 tma_store=0 reduce_kernel=1 stages=9", .shape = "128x64x512"},
        {.name = "no_fence_before_the_counter", .file = "gemm/device/hopper/hopper_parts.cuh",
         .find = "    __threadfence();\n    named_barrier(1 + group, 128);\n    if (thread == 0) {",
         .replace = "    named_barrier(1 + group, 128);\n    if (thread == 0) {",
         .config = "split_k=2", .shape = "512x512x512", .races = true},
        {.name = "stage_released_too_early",
         .find = "                wgmma_wait<1>();\n                release",
         .replace = "                release",
         .config = "block_n=256 block_k=128 stages=2", .shape = "2048x2048x4096", .races = true},
        {.name = "batch_of_b_ignored", .file = "gemm/device/hopper/hopper_producer.cuh",
         .find = "y, full, tile.n0, of_k * block_k, tile.batch,",
         .replace = "y, full, tile.n0, of_k * block_k, 0,",
         .shape = "64x64x64", .options = {{"batch", "3"}}},
        {.name = "stride_of_a_descriptor",
         .find = "static_cast<u64>(span | (span",
         .replace = "static_cast<u64>(2 * span | (span",
         .shape = "64x64x64", .options = {{"layout", "nt"}}},
        {.name = "quotient_one_too_small", .file = "gemm/device/hopper/hopper_whole_tiles.cuh",
         .find = "by >= by ? below + 1 : below);",
         .replace = "by > by ? below + 1 : below);",
         .config = "raster=1 group=4", .shape = "128x2048x128"},
        {.name = "turned_from_behind_the_last_step", .file = "gemm/device/hopper/hopper_producer.cuh",
         .find = "2 * work.first + work.steps - 1 - step",
         .replace = "2 * work.first + work.steps - step",
         .config = "block_m=128 block_n=112 consumer_warpgroups=2 pingpong=0 stages=6 raster=0 group=1 serpentine_k=1", .shape = "128x14896x72", .host_shape = "128x1456x72"},
        {.name = "last_tile_stays", .file = "gemm/wgmma/whole_loop.cuh",
         .find = "        if (!is_first) {\n",
         .replace = "        if (false) {\n",
         .config = "block_n=48 raster=0 group=1 overlap_epilogue=1", .shape = "128x3840x200", .host_shape = "128x480x200"},
        {.name = "tile_leaves_to_the_next_ones_place", .file = "gemm/wgmma/whole_loop.cuh",
         .find = "store_round(out, before, row0, staging, group, packed, step);",
         .replace = "store_round(out, tiles.tile(work), row0, staging, group, packed, step);",
         .config = "block_n=48 raster=0 group=1 overlap_epilogue=1", .shape = "128x3840x200", .host_shape = "128x480x200"},
        {.name = "rounded_before_the_last_multiplications", .file = "gemm/device/hopper/hopper_consumer.cuh",
         .find = "        wgmma_wait<0>();\n        release",
         .replace = "        release",
         .config = "block_n=256 stages=5 group=8 overlap_epilogue=1", .shape = "4096x4096x256", .races = true},
        {.name = "c_read_from_the_first_tile", .file = "gemm/wgmma/whole_loop.cuh",
         .find = "if (adds_c) read_c(",
         .replace = "if (adds_c && is_first) read_c(",
         .config = "block_n=48 raster=0 group=1 overlap_epilogue=1", .shape = "128x3840x776", .host_shape = "128x480x776", .options = {{"beta", "0.5"}}},
        {.name = "lower_rows_of_c", .file = "gemm/wgmma/whole_loop.cuh",
         .find = "band * 64 + i % 2 * 8, i / 2 * 8)",
         .replace = "band * 64, i / 2 * 8)",
         .config = "block_n=48 raster=0 group=1 overlap_epilogue=1", .shape = "128x3840x776", .host_shape = "128x480x776", .options = {{"beta", "0.5"}}},
        {.name = "late_round_not_waited_for", .file = "gemm/wgmma/whole_loop.cuh",
         .find = "        wait_for_buffers<false>(group);\n",
         .replace = "        (void)group;\n",
         .config = "block_n=256 stages=5 group=8 overlap_epilogue=1", .shape = "4096x4096x256", .races = true},
        {.name = "k_slices_repeated",
         .find = "const u32 slab = kk * 16 / widest_span, in_slab = kk * 16 % widest_span * 2;",
         .replace = "const u32 slab = kk * 16 / widest_span, in_slab = kk % 2 * 16 % widest_span * 2;",
         .shape = "64x64x64"},
        {.name = "share_of_a_peer_forgotten", .file = "gemm/device/hopper/hopper_parts.cuh",
         .find = "for (int block = 0; block < cluster_k; ++block) {",
         .replace = "for (int block = 0; block + 1 < cluster_k; ++block) {",
         .config = "cluster_k=2 tma_store=0", .shape = "64x64x1024"},
        {.name = "high_half_of_a_pair", .file = "gemm/device/pairs.cuh",
         .find = "static_cast<u16>(registers[i] >> 16)",
         .replace = "static_cast<u16>(registers[i])",
         .shape = "64x64x64", .options = {{"acc", "f16"}}},
        {.name = "parts_in_f16_read_from_one_place", .file = "gemm/device/hopper/hopper_parts.cuh",
         .find = "mine + first * 128, &acc",
         .replace = "mine, &acc",
         .config = "block_n=128 stages=8 split_k=2", .shape = "64x128x512", .options = {{"acc", "f16"}}},
        {.name = "sums_not_cleared",
         .find = "(y + to_y / 16),\n                                                                    fresh && kk == 0 ? 0 : 1",
         .replace = "(y + to_y / 16), 1",
         .shape = "128x8704x128", .host_shape = "128x1088x128"},
        {.name = "a_row_past_the_end", .file = "gemm/device/pair_store.cuh",
         .find = "if (row >= s.m || col >= s.n) return;",
         .replace = "if (row > s.m || col >= s.n) return;",
         .config = "tma_store=0", .shape = "65x67x69"}});
}

std::vector<Mutant> wgmma_fp8() {
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

std::vector<Mutant> fp8_epilogue() {
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

std::vector<Mutant> wgmma_nonpersistent() {
    return of_family("gemm/wgmma_nonpersistent",
                     "block_m=64 block_n=64 block_k=64 consumer_warpgroups=1 k_warpgroups=1 cluster_m=1 cluster_n=1 cluster_k=1 swap_ab=0 stages=2 "
                     "raster=0 pdl=0", {
        {.name = "k_tail_dropped",
         .find = "const int steps = (k + block_k - 1) / block_k;",
         .replace = "const int steps = k / block_k;",
         .config = "stages=3", .shape = "64x64x136"},
        {.name = "half_a_unit_not_stored",
         .find = "constexpr int columns = bands * band_units;",
         .replace = "constexpr int columns = bands * (block_n / 16);",
         .config = "block_n=72", .shape = "64x72x64", .options = {{"layout", "nt"}}},
        {.name = "tiles_along_n_in_the_order_of_m",
         .find = "constexpr (raster == 0)",
         .replace = "constexpr (raster >= 0)",
         .config = "raster=1", .shape = "192x128x64"},
        {.name = "k_slices_repeated",
         .find = "in_slab = kk % 4 * 32;",
         .replace = "in_slab = kk % 2 * 32;",
         .shape = "64x64x64"},
        {.name = "stride_of_a_descriptor",
         .find = "static_cast<u64>(span | (span",
         .replace = "static_cast<u64>(2 * span | (span",
         .shape = "64x64x64"},
        {.name = "stage_released_too_early",
         .find = "            wgmma_wait<1>();\n",
         .replace = "",
         .config = "block_m=128 block_n=256 consumer_warpgroups=2 stages=4", .shape = "1024x2048x4096", .races = true},
        {.name = "parts_of_a_block_not_waited_for",
         .find = "if constexpr (k_warpgroups > 1) named_barrier(1, math_threads);",
         .replace = "",
         .config = "k_warpgroups=2 stages=8", .shape = "512x512x512", .races = true},
        {.name = "share_of_a_part_forgotten",
         .find = "for (int other = 0; other < parts; ++other) {",
         .replace = "for (int other = 0; other + 1 < parts; ++other) {",
         .config = "cluster_k=2 stages=8", .shape = "64x64x1024"},
        {.name = "blocks_of_a_cluster_begin_at_one_step",
         .find = "run.first = steps * place.k / cluster_k;",
         .replace = "run.first = 0;",
         .config = "cluster_k=2 stages=8", .shape = "64x64x1024"},
        {.name = "blocks_of_a_part_bring_one_share",
         .find = "return {rank / cluster_k % cluster_m,",
         .replace = "return {rank % cluster_m,",
         .config = "cluster_m=2 cluster_k=2 stages=8", .shape = "128x64x1024", .hangs = true},
        {.name = "shares_of_a_tile_in_one_place",
         .find = "(slab * shares + share) * (rows * span * 2)",
         .replace = "(slab * shares) * (rows * span * 2)",
         .config = "cluster_m=2", .shape = "128x64x64"},
        {.name = "another_parts_columns",
         .find = "owner == 0 || owner == part ? from[r]",
         .replace = "owner == 0 ? from[r]",
         .config = "k_warpgroups=2 stages=8", .shape = "64x64x512"},
        {.name = "pieces_past_the_end_of_a_row",
         .find = "(swap_ab ? s.m : s.n) - c_col - Pieces::column(i)",
         .replace = "(swap_ab ? s.m : s.n) - c_col",
         .shape = "64x61x64", .options = {{"layout", "nt"}, {"ldc", "75"}}},
        {.name = "one_half_of_two_pieces_of_c",
         .find = "u16& bits) { bits = static_cast<u16>(r[i / 2] >> i % 2 * 16);",
         .replace = "u16& bits) { bits = static_cast<u16>(r[i / 2]);",
         .shape = "64x61x64", .options = {{"layout", "nt"}, {"beta", "0.5"}}},
        {.name = "one_chunk_of_c_for_all",
         .find = "                           held[i]);",
         .replace = "                           held[0]);",
         .shape = "64x64x64", .options = {{"beta", "0.5"}}},
        {.name = "c_of_a_group_read_again",
         .find = "part, group + held_groups, held",
         .replace = "part, group, held",
         .config = "block_m=128 block_n=192 consumer_warpgroups=2 stages=5", .shape = "128x192x512", .options = {{"beta", "0.5"}}},
        {.name = "c_of_the_first_group_for_all",
         .find = "read_group(out, s, tile, part, group, held[0])",
         .replace = "read_group(out, s, tile, part, 0, held[0])",
         .config = "block_m=128 block_n=256 consumer_warpgroups=2 stages=4", .shape = "128x256x512", .options = {{"beta", "0.5"}}},
        {.name = "exchanged_operands_not_transposed",
         .find = "store_matrices_transposed(staged_at(",
         .replace = "store_matrices(staged_at(",
         .config = "swap_ab=1", .shape = "64x64x64"},
        {.name = "old_c_not_transposed",
         .find = "ptx::ldmatrix_x4_trans(r, at);",
         .replace = "ptx::ldmatrix_x4(r, at);",
         .config = "swap_ab=1", .shape = "64x64x64", .options = {{"beta", "0.5"}}},
        {.name = "rows_past_a_tail_taken_for_whole",
         .find = "const bool is_whole = row + 16 <= s.m &&",
         .replace = "const bool is_whole =",
         .shape = "72x64x64"},
        {.name = "units_staged_in_one_place",
         .find = "stage_unit(staging + i * staged_unit_bytes, out.alpha, sum);",
         .replace = "stage_unit(staging, out.alpha, sum);",
         .shape = "64x64x64"},
        {.name = "alpha_dropped",
         .find = "r[i] = pack2<Out>(alpha * sum[2 * i], alpha * sum[2 * i + 1]);",
         .replace = "r[i] = pack2<Out>(sum[2 * i], sum[2 * i + 1]);",
         .shape = "64x64x64", .options = {{"alpha", "0.75"}}},
        {.name = "beta_ignored",
         .find = "out.alpha * sum[2 * i] + out.beta * before.low",
         .replace = "out.alpha * sum[2 * i]",
         .shape = "64x64x64", .options = {{"beta", "0.5"}}},
        {.name = "high_half_of_a_pair", .file = "gemm/device/pairs.cuh",
         .find = "static_cast<u16>(registers[i] >> 16)",
         .replace = "static_cast<u16>(registers[i])",
         .shape = "64x64x64", .options = {{"acc", "f16"}}},
        {.name = "batch_of_b_ignored",
         .find = "y, full, tile.n0, k, tile.batch,",
         .replace = "y, full, tile.n0, k, 0,",
         .shape = "64x64x64", .options = {{"batch", "3"}}},
        {.name = "a_row_past_the_end",
         .find = "c_row + i * rows < (swap_ab ? s.n : s.m)",
         .replace = "c_row + i * rows <= (swap_ab ? s.n : s.m)",
         .shape = "65x67x69", .options = {{"lda", "72"}, {"ldb", "72"}, {"ldc", "72"}}},
        {.name = "a_column_past_the_end",
         .find = "i * rows < (swap_ab ? s.n : s.m) ? min(8, (swap_ab ? s.m : s.n) - c_col)",
         .replace = "i * rows < (swap_ab ? s.n : s.m) ? min(8, (swap_ab ? s.m : s.n) - c_col + 1)",
         .shape = "65x67x69", .options = {{"lda", "72"}, {"ldb", "72"}, {"ldc", "72"}}}});
}

std::vector<Mutant> dot() {
    return of_family("gemm/dot", "threads=64 lanes=64 columns=1 unroll=1", {
        {.name = "rest_of_k_dropped",
         .find = "if constexpr (width > 1) sum_rest(",
         .replace = "if constexpr (width > 8) sum_rest(",
         .config = "lanes=16", .shape = "1x37x133", .options = {{"layout", "nt"}, {"lda", "136"}, {"ldb", "136"}}},
        {.name = "half_of_the_lanes_not_added",
         .find = "distance < in_warp;",
         .replace = "2 * distance < in_warp;",
         .config = "lanes=32", .shape = "1x37x512", .options = {{"layout", "nt"}}},
        {.name = "warps_do_not_meet",
         .find = "for (int i = 0; i < apart; ++i) sum",
         .replace = "for (int i = 0; i + 1 < apart; ++i) sum",
         .shape = "1x37x1024", .options = {{"layout", "nt"}}},
        {.name = "sums_read_before_they_are_there",
         .find = "        __syncthreads();\n",
         .replace = "",
         .config = "threads=256 lanes=32", .shape = "1x37x1024", .options = {{"layout", "nn"}}, .races = true},
        {.name = "a_column_too_many_stored",
         .find = "&& own.column <= from.last_column;",
         .replace = ";",
         .config = "columns=2 lanes=32", .shape = "3x40x256", .options = {{"layout", "nt"}}},
        {.name = "first_column_for_all",
         .find = "return min(c, last_column) * column_step;",
         .replace = "return 0 * column_step;",
         .config = "columns=2 lanes=32", .shape = "2x40x256", .options = {{"layout", "nt"}}},
        {.name = "a_line_too_many_stored",
         .find = "first_line + own.line < lines &&",
         .replace = "first_line + own.line < lines + 1 &&",
         .config = "threads=64 lanes=32", .shape = "1x37x256", .options = {{"layout", "nt"}}},
        {.name = "beta_ignored",
         .find = "value + beta * before",
         .replace = "value + 0.0F * before",
         .config = "lanes=32", .shape = "1x40x256", .options = {{"layout", "nt"}, {"beta", "0.5"}}},
        {.name = "batch_of_y_ignored",
         .find = "slice * (swap_ab ? stride_a : stride_b);",
         .replace = "0 * (swap_ab ? stride_a : stride_b);",
         .config = "lanes=32", .shape = "3*1x40x256", .options = {{"layout", "nt"}}}});
}

std::vector<Mutant> dot_windows() {
    return of_family("gemm/dot_windows", "threads=128 lanes=32 rows=1 columns=1 unroll=1 cluster_k=1", {
        {.name = "head_of_k_dropped",
         .find = "for (int i = lane; i < 2 * window; i += all_lanes)",
         .replace = "for (int i = lane + window; i < 2 * window; i += all_lanes)",
         .shape = "1x37x333", .options = {{"layout", "nt"}}},
        {.name = "tail_of_k_dropped",
         .find = "for (int i = lane; i < 2 * window; i += all_lanes)",
         .replace = "for (int i = lane; i < window; i += all_lanes)",
         .shape = "1x37x333", .options = {{"layout", "nt"}}},
        {.name = "window_before_the_line_read",
         .find = "const int begin = shift == 0 ? 0 : 1, end",
         .replace = "const int begin = 0, end",
         .shape = "1x37x333", .options = {{"layout", "nt"}}},
        {.name = "lines_of_another_shift",
         .find = "group / window * (window * rows) + group % window + window * row",
         .replace = "group * rows + row",
         .config = "rows=2 lanes=16", .shape = "1x37x333", .options = {{"layout", "nt"}}},
        {.name = "last_window_twice",
         .find = "first + u * all_lanes < end ? ~0U : 0U",
         .replace = "~0U",
         .config = "unroll=2 lanes=16", .shape = "1x37x333", .options = {{"layout", "nt"}}},
        {.name = "warps_do_not_meet",
         .find = "for (int i = 0; i < apart; ++i) picked",
         .replace = "for (int i = 0; i + 1 < apart; ++i) picked",
         .config = "lanes=64", .shape = "1x37x1031", .options = {{"layout", "nt"}}},
        {.name = "sums_read_before_they_are_there",
         .find = "    __syncthreads();\n    f32 sum",
         .replace = "    f32 sum",
         .config = "lanes=16", .shape = "1x37x1031", .options = {{"layout", "nn"}}, .races = true},
        {.name = "blocks_of_a_cluster_do_not_meet",
         .find = "        for (int rank = 0; rank < cluster_k; ++rank) {",
         .replace = "        for (int rank = 0; rank < cluster_k - 1; ++rank) {",
         .config = "cluster_k=2", .shape = "1x37x1031", .options = {{"layout", "nt"}}},
        {.name = "first_window_dropped",
         .find = "if (is_used && first_alone && count > 0) alone(0);",
         .replace = "",
         .config = "lanes=16", .shape = "1x37x331", .options = {{"layout", "nn"}, {"align", "2"}}},
        {.name = "last_window_dropped",
         .find = "if (is_used && last_alone && count > begin) alone(from.k - 1);",
         .replace = "",
         .config = "lanes=16", .shape = "1x37x331", .options = {{"layout", "nn"}, {"align", "2"}}},
        {.name = "blocks_store_all_their_windows",
         .find = "constexpr int owned = window * (groups - 1);",
         .replace = "constexpr int owned = window * groups;",
         .config = "lanes=16", .shape = "1x137x331", .options = {{"layout", "nn"}, {"align", "2"}}},
        {.name = "half_of_the_helpers_not_added",
         .find = "distance < helpers;",
         .replace = "2 * distance < helpers;",
         .config = "lanes=16", .shape = "1x37x331", .options = {{"layout", "nn"}, {"align", "2"}}},
        {.name = "a_column_too_many_stored",
         .find = " && from.first_column + own.column <= from.last_column;",
         .replace = ";",
         .config = "columns=2", .shape = "3x37x331", .options = {{"layout", "nt"}}},
        {.name = "beta_ignored",
         .find = "value + beta * before",
         .replace = "value + 0.0F * before",
         .shape = "1x40x257", .options = {{"layout", "nt"}, {"beta", "0.5"}}},
        {.name = "batch_of_y_ignored",
         .find = "slice * (swap_ab ? stride_a : stride_b)",
         .replace = "0 * (swap_ab ? stride_a : stride_b)",
         .shape = "3*1x40x257", .options = {{"layout", "nt"}}}});
}

std::vector<Mutant> wmma() {
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
// The families of attention, whose problems are causal unless they say otherwise.
std::vector<Mutant> of_attention(const std::string& family, std::vector<Mutant> list) {
    for (Mutant& mutant : list) {
        std::string prefix = family;
        std::replace(prefix.begin(), prefix.end(), '/', '_');
        mutant.name = prefix + "_" + mutant.name;
        mutant.family = family;
        if (mutant.shape.empty()) mutant.shape = "1x1x150x64";
        mutant.options.emplace("mask", "causal");
    }
    return list;
}

std::vector<Mutant> softmax_rows() {
    const std::string agreed = "threads=128 threads_per_row=128 register_chunks=2 unroll=1 online=1 hold_weights=1 warp_max_first=1";
    std::vector<Mutant> list = of_family("softmax/rows", "rows_per_thread=1", {
        {.name = "lanes_agree_on_the_peak_of_half", .file = "softmax/device/exchange.cuh",
         .find = "step > 0; step /= 2) peak = fmaxf", .replace = "step > 1; step /= 2) peak = fmaxf", .config = agreed},
        {.name = "lanes_add_half_of_their_sums", .file = "softmax/device/exchange.cuh",
         .find = "step > 0; step /= 2) sum +=", .replace = "step > 1; step /= 2) sum +=", .config = agreed},
        {.name = "weights_stay_relative_to_the_warps_peak",
         .find = "hold_weights && !is_whole_row ?", .replace = "false ?", .config = agreed},
        {.name = "parts_are_read_before_they_are_written", .file = "softmax/device/exchange.cuh",
         .find = "                __syncthreads();\n", .replace = "                __syncwarp();\n", .config = agreed + " threads=64 threads_per_row=64 access_bytes=2", .races = true},
        {.name = "end_of_a_row_weighs_one", .file = "softmax/device/softmax.cuh",
         .find = "negative ? -minus_infinity() : minus_infinity()", .replace = "0.0F", .config = agreed},
        {.name = "what_is_not_held_is_not_summed",
         .find = "part[r] = part_of_rest(row[r], part[r]);", .replace = "{}",
         .config = "threads=128 threads_per_row=128 register_chunks=1 unroll=1 online=1 hold_weights=0 warp_max_first=0"},
        {.name = "logarithm_without_the_peak", .file = "softmax/device/softmax.cuh",
         .find = "__fmaf_rn(row.peak, magnitude, log2_of(row.sum) * ln2)", .replace = "log2_of(row.sum) * ln2", .config = agreed},
    });
    for (Mutant& mutant : list) {
        mutant.shape = mutant.races ? "9x128" : "9x1992";
        mutant.options = {{"dtype", "bf16"}, {"lse", "yes"}};
    }
    return list;
}

std::vector<Mutant> softmax_bulk() {
    std::vector<Mutant> list = of_family("softmax/bulk", "threads=128 threads_per_row=128 register_chunks=4 copy_to_registers=1 stages=1 waves=0", {
        {.name = "weights_stay_relative_to_the_warps_peak",
         .find = "softmax::weight(weights.mine.peak, origin, slope) * inverse;", .replace = "inverse;"},
        {.name = "end_of_a_drained_row_weighs_one",
         .find = "packs[h].at[j] = softmax::nothing<Element, negative>();", .replace = "packs[h].at[j] = Element{};"},
        {.name = "half_of_a_drained_row_is_summed",
         .find = "mine.sum = softmax::sum_of_lanes<lanes>", .replace = "mine.sum = softmax::sum_of_lanes<lanes / 2>"},
    });
    for (Mutant& mutant : list) {
        mutant.shape = "9x4088";
        mutant.options = {{"dtype", "bf16"}, {"lse", "yes"}};
    }
    return list;
}

std::vector<Mutant> attention_naive() {
    return of_attention("attention/naive", {
        {.name = "scores_without_scale",
         .find = "        score *= scale;\n", .replace = ""},
        {.name = "weights_not_divided_by_their_sum",
         .find = "x[i] *= inverse;", .replace = "x[i] *= 1.0F;"},
        {.name = "logarithm_without_the_peak",
         .find = "attention::log_sum_exp(peak, sum, 1.0F)", .replace = "attention::log_sum_exp(0.0F, sum, 1.0F)",
         .options = {{"lse", "yes"}}},
        {.name = "a_key_of_the_softmax_is_lost",
         .find = "for (int key = 0; key < one.kv_len; ++key) sum", .replace = "for (int key = 0; key + 1 < one.kv_len; ++key) sum"},
        {.name = "sum_of_a_block_before_its_parts",
         .find = "    shared[threadIdx.x] = mine;\n    __syncthreads();\n", .replace = "    shared[threadIdx.x] = mine;\n", .races = true},
    });
}

std::vector<Mutant> attention_simt() {
    return of_attention("attention/simt", {
        {.name = "sums_keep_the_old_peak",
         .find = "sums[i][c] *= factor;", .replace = "sums[i][c] *= 1.0F;"},
        {.name = "row_sum_keeps_the_old_peak",
         .find = "state.sum[i] = __fmaf_rn(state.sum[i], factor, sum);", .replace = "state.sum[i] += sum;"},
        {.name = "peak_of_half_a_row",
         .find = "step < threads_x; step *= 2) mine = fmaxf", .replace = "2 * step < threads_x; step *= 2) mine = fmaxf"},
        {.name = "sum_of_half_a_row",
         .find = "step < threads_x; step *= 2) mine +=", .replace = "2 * step < threads_x; step *= 2) mine +="},
        {.name = "tail_keys_not_masked",
         .find = "if (masking != 2 || tile < begin_full || tile >= end_full)", .replace = "if (masking != 2)",
         .options = {{"mask", "none"}}},
        {.name = "begin_of_the_window_ignored",
         .find = "(!has_low || key >= begin) && key < end", .replace = "key < end",
         .options = {{"mask", "window"}, {"left", "40"}}},
        {.name = "logarithm_without_its_unit",
         .find = "attention::log_sum_exp(state.peak[i], sum, attention::ln_2)",
         .replace = "attention::log_sum_exp(state.peak[i], sum, 1.0F)", .options = {{"lse", "yes"}}},
        {.name = "values_of_another_head",
         .find = "v + call.v_strides.of_head(at.b, at.head / group)", .replace = "v + call.v_strides.of_head(at.b, 0)",
         .shape = "1x4x100x64", .options = {{"kv-heads", "2"}}},
        {.name = "rows_without_a_key_are_divided", .file = "attention/device/call.cuh",
         .find = "return sum == 0.0F ? 0.0F : 1.0F / sum;", .replace = "return 1.0F / sum;",
         .options = {{"mask", "causal_bottom_right"}, {"kv-len", "100"}}},
        {.name = "weights_of_another_key",
         .find = "shared.p + own_key(place, j) * ld_p", .replace = "shared.p + (j * threads_x + place.x) * ld_p"},
        {.name = "values_of_the_first_part_alone",
         .find = "(first_key + row) * v_row", .replace = "first_key * v_row"},
        {.name = "part_not_waited_for",
         .find = "        ptx::cp_async_wait<stages - 2>();\n", .replace = "", .options = {{"dtype", "f32"}}, .races = true},
        {.name = "part_overwritten_early",
         .find = "        __syncthreads();  // this part is there, and the one whose slot is filled next is read\n", .replace = "",
         .races = true},
    });
}

std::vector<Mutant> attention_mma() {
    return of_attention("attention/mma", {
        {.name = "sees_one_key_too_many", .file = "attention/device/mask.cuh",
         .find = "clamped(row + high + 1, 0, kv_len)", .replace = "clamped(row + high + 2, 0, kv_len)"},
        {.name = "sees_one_key_too_few", .file = "attention/device/mask.cuh",
         .find = "clamped(row + high + 1, 0, kv_len)", .replace = "clamped(row + high, 0, kv_len)"},
        {.name = "window_begins_one_key_late", .file = "attention/device/mask.cuh",
         .find = "clamped(row + low, 0, kv_len)", .replace = "clamped(row + low + 1, 0, kv_len)",
         .options = {{"mask", "window"}, {"left", "40"}}},
        {.name = "last_tile_skipped", .file = "attention/device/mask.cuh",
         .find = "(end_key(last) + block_k - 1) / block_k", .replace = "end_key(last) / block_k"},
        {.name = "diagonal_tile_not_masked", .file = "attention/device/mask.cuh",
         .find = "return end_key(first) / block_k;", .replace = "return (end_key(first) + block_k - 1) / block_k;"},
        {.name = "tail_keys_not_masked",
         .find = "if (masking != 2 || tile < begin_full || tile >= end_full)", .replace = "if (masking != 2)",
         .options = {{"mask", "none"}}},
        {.name = "sums_keep_the_old_peak",
         .find = "sums[band][n][i] *= factor[i / 2];", .replace = "sums[band][n][i] *= 1.0F;"},
        {.name = "row_sum_keeps_the_old_peak",
         .find = "__fmaf_rn(state.sum[band][half], factor[half], sum)", .replace = "state.sum[band][half] + sum"},
        {.name = "peak_of_half_a_row",
         .find = "return fmaxf(mine, __shfl_xor_sync(0xffffffffU, mine, 2));", .replace = "return mine;"},
        {.name = "sum_of_half_a_row",
         .find = "return mine + __shfl_xor_sync(0xffffffffU, mine, 2);", .replace = "return mine;"},
        {.name = "logarithm_without_its_unit",
         .find = "attention::log_sum_exp(state.peak[band][half], all_sums[band][half], attention::ln_2)",
         .replace = "attention::log_sum_exp(state.peak[band][half], all_sums[band][half], 1.0F)", .options = {{"lse", "yes"}}},
        {.name = "exponent_without_log2e",
         .find = "const f32 slope = scale * attention::log2_e;", .replace = "const f32 slope = scale;"},
        {.name = "keys_of_another_head",
         .find = "k + call.k_strides.of_head(at.b, at.head / group)", .replace = "k + call.k_strides.of_head(at.b, at.head % (q_heads / group))",
         .shape = "1x4x100x64", .options = {{"kv-heads", "2"}}},
        {.name = "rows_of_two_bands_swapped", .file = "attention/device/mma_half.cuh",
         .find = "const int row = first + band * 16 + half * 8 + lane.id / 4;", .replace = "const int row = first + (bands - 1 - band) * 16 + half * 8 + lane.id / 4;",
         .config = "block_q=128 warps=4"},
        {.name = "causal_mask_aligned_at_the_other_end", .file = "attention/device/call.cuh",
         .find = "return {mask_low, mask_high, kv_len};", .replace = "return {mask_low, 0, kv_len};",
         .options = {{"mask", "causal_bottom_right"}, {"kv-len", "100"}}},
        {.name = "tile_not_waited_for",
         .find = "ptx::cp_async_wait<stages == 1 ? 0 : stages - 2>();", .replace = "ptx::cp_async_wait<stages == 1 ? 0 : stages - 1>();",
         .config = "stages=2", .races = true},
        {.name = "tile_overwritten_early",
         .find = "        __syncthreads();\n        if constexpr (stages == 1) {\n            ring.fetch_values(tile, 0);",
         .replace = "        if constexpr (stages == 1) {\n            ring.fetch_values(tile, 0);",
         .config = "stages=2", .races = true},
        {.name = "values_of_the_tile_before",
         .find = "ring.v + slot * v_bytes", .replace = "ring.v + (slot + stages - 1) % stages * v_bytes", .config = "stages=2"},
        {.name = "tf32_weights_of_other_keys", .file = "attention/device/mma_tf32.cuh",
         .find = "scores[n][i % 2 * 2 + i / 2]", .replace = "scores[n][i]", .options = {{"dtype", "f32"}, {"compute", "tf32"}}},
        {.name = "tf32_columns_swapped", .file = "attention/device/mma_tf32.cuh",
         .find = "[half * 2 + tile % 2] * inverse", .replace = "[half * 2 + 1 - tile % 2] * inverse",
         .options = {{"dtype", "f32"}, {"compute", "tf32"}}},
        {.name = "tf32_padding_not_cleared", .file = "attention/device/mma_tf32.cuh",
         .find = "if constexpr (first < end) {", .replace = "if constexpr (first > end) {", .shape = "1x1x150x40",
         .options = {{"dtype", "f32"}, {"compute", "tf32"}}},
        {.name = "packed_keys_of_the_first_sequence", .file = "attention/device/call.cuh",
         .find = "        call.k += sequence.first_kv * k_strides.row;\n", .replace = "", .shape = "3x2x60x64",
         .options = {{"packed", "yes"}, {"mask", "none"}}},
        {.name = "packed_keys_as_many_as_the_longest_has", .file = "attention/device/call.cuh",
         .find = "        call.kv_len = sequence.kv_len;\n", .replace = "", .shape = "3x2x60x64",
         .options = {{"packed", "yes"}, {"mask", "none"}}},
        {.name = "packed_diagonal_of_the_first_key", .file = "attention/device/call.cuh",
         .find = "bottom_right != 0 ? kv_len - q_len : 0", .replace = "0", .shape = "3x2x60x64",
         .options = {{"packed", "yes"}, {"mask", "causal_bottom_right"}, {"kv-len", "100"}}},
        {.name = "packed_logarithms_overlap", .file = "attention/device/call.cuh",
         .find = "        call.first_q = sequence.first_q;\n", .replace = "", .shape = "3x2x60x64",
         .options = {{"packed", "yes"}, {"mask", "none"}, {"lse", "yes"}}},
    });
}

std::vector<Mutant> attention_split() {
    const std::map<std::string, std::string> decode = {{"mask", "none"}, {"kv-heads", "1"}, {"kv-len", "3000"}};
    return of_attention("attention/split", {
        {.name = "last_split_forgotten",
         .find = "join_to_output(StoredParts{of_line}, splits,", .replace = "join_to_output(StoredParts{of_line}, splits - 1,",
         .config = "splits=4", .shape = "1x4x1x64", .options = decode},
        {.name = "a_warp_is_not_joined",
         .find = "join_to_output(parts, warps,", .replace = "join_to_output(parts, warps - 1,",
         .config = "splits=1", .shape = "1x4x1x64", .options = decode},
        {.name = "part_not_brought_to_the_common_peak",
         .find = "add(attention::exp2_approx(facts[i].x - origin),", .replace = "add(1.0F,", .config = "splits=1",
         .shape = "1x4x1x64", .options = decode},
        {.name = "counter_not_reset",
         .find = "counted(counters + place.line, last) == last", .replace = "counted(counters + place.line, last + 1) == last",
         .config = "splits=4 join=0",
         .shape = "1x4x1x64", .options = decode},
        {.name = "warps_not_waited_for",
         .find = "store_part(meeting.parts[warp], state, lane, count);\n    __syncthreads();\n",
         .replace = "store_part(meeting.parts[warp], state, lane, count);\n", .config = "splits=1", .shape = "1x4x1x64", .options = decode,
         .races = true},
        {.name = "cluster_forgets_its_last_block",
         .find = "joined(ReceivedParts{meeting.received + turn * blocks}, blocks,",
         .replace = "joined(ReceivedParts{meeting.received + turn * blocks}, blocks - 1,", .config = "splits=4 join=2",
         .shape = "1x4x1x64", .options = decode},
        {.name = "parts_of_two_reads_keep_their_peaks",
         .find = "        sum *= factor;\n        total = make_float4(total.x * factor, total.y * factor, total.z * factor, total.w * factor);\n",
         .replace = "", .config = "splits=24 warps=8 resident_blocks=1", .shape = "1x4x1x64", .options = decode},
        {.name = "key_pairs_swapped",
         .find = "high ? 0x7632 : 0x5410", .replace = "high ? 0x3276 : 0x1054", .config = "splits=1", .shape = "1x4x1x64", .options = decode},
        {.name = "tail_key_counts_more_than_once",
         .find = "if (tile < begin_full || tile >= end_full) {", .replace = "if (tile < begin_full) {", .config = "splits=1",
         .shape = "1x4x1x64", .options = decode},
        {.name = "row_of_another_head",
         .find = "place.kv_head * group + pair.head", .replace = "place.kv_head * group + pair.head % 2", .config = "splits=1",
         .shape = "1x4x1x64", .options = decode},
    });
}

std::vector<Mutant> attention_wgmma() {
    const std::string alone = "consumer_warpgroups=1 q_buffers=1 order_groups=0 schedule=0 block_k=32 ";
    const std::string self_loading = alone + "producer=0";
    const std::map<std::string, std::string> grouped = {{"kv-heads", "2"}};
    return of_attention("attention/wgmma", {
        {.name = "outputs_keep_the_old_peak",
         .find = "o[i] *= correction[i / 2 % 2];", .replace = "o[i] *= 1.0f;", .config = alone},
        {.name = "row_sum_keeps_the_old_peak",
         .find = "rows.sum[r] * correction[r];", .replace = "rows.sum[r];", .config = alone},
        {.name = "correction_comes_too_late",
         .find = "* factor <= 8.0f);", .replace = "* factor <= 800.0f);", .config = alone + "rescale=1"},
        {.name = "sees_one_key_too_many",
         .find = "const bool seen = column < end[r]", .replace = "const bool seen = column <= end[r]", .config = alone},
        {.name = "window_begins_one_key_late",
         .find = "column >= first[r]);", .replace = "column > first[r]);", .config = alone,
         .options = {{"mask", "window"}, {"left", "40"}}},
        {.name = "diagonal_tile_not_cut",
         .find = "n >= max(keys.first, whole_end); --n)", .replace = "n >= max(keys.first, whole_end + 1); --n)", .config = alone},
        {.name = "peak_of_half_a_row", .file = "attention/device/hopper_tiles.cuh",
         .find = "return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));", .replace = "return x;", .config = alone},
        {.name = "sum_of_half_a_row", .file = "attention/device/hopper_tiles.cuh",
         .find = "return x + __shfl_xor_sync(0xffffffffu, x, 2);", .replace = "return x;", .config = alone},
        {.name = "logarithm_without_scale",
         .find = "attention::log_sum_exp(rows.max[r], sum, scale)", .replace = "attention::log_sum_exp(rows.max[r], sum, 1.0f)",
         .config = alone, .options = {{"lse", "yes"}}},
        {.name = "keys_of_another_head",
         .find = "kv_head(work.head / p.group)", .replace = "kv_head(work.head % (p.heads / p.group))", .config = alone,
         .shape = "1x4x100x64", .options = grouped},
        {.name = "tile_counter_not_reset",
         .find = "atomicInc(counter, static_cast<u32>(p.all_items) + gridDim.x - 1)", .replace = "atomicAdd(counter, 1u)",
         // More tiles than an H200 has SMs.
         .config = "consumer_warpgroups=1 q_buffers=1 order_groups=0 schedule=2 blocks_per_sm=1 block_k=32", .shape = "1x72x100x64", .host_shape = "1x9x100x64"},
        {.name = "keys_between_parts_lost",
         .find = "keys.first + steps * (part + 1) / parts}", .replace = "keys.first + steps * (part + 1) / parts - 1}",
         .config = alone + "split_waves=1", .shape = "1x6x1x64", .options = {{"mask", "none"}, {"kv-len", "750"}}},
        {.name = "keys_released_early",
         .find = "            wgmma_wait<1>();\n            release(shared.k_empty(ring.at));\n",
         .replace = "            release(shared.k_empty(ring.at));\n            wgmma_wait<1>();\n", .config = alone + "stages=2 overlap=1",
         .races = true},
        {.name = "last_values_not_waited_for",
         .find = "        barrier_wait(shared.v_full(ring.at), ring.parity);\n", .replace = "", .config = alone, .races = true},
        {.name = "values_of_another_tile_loaded",
         .find = "loads->load_v(from.at, from.parity ^ 1, n - stages);", .replace = "loads->load_v(from.at, from.parity ^ 1, n - stages + 1);",
         .config = self_loading + " stages=2"},
        {.name = "first_tile_loaded_twice",
         .find = "const int n = work.keys.end - 1 - i;", .replace = "const int n = work.keys.end - 1;",
         .config = self_loading + " stages=2"},
    });
}

std::vector<Mutant> attention_bwd_two_pass() {
    return of_attention("attention_bwd/two_pass", {
        {.name = "delta_forgotten",
         .find = "has_weight ? sum : 0.0F", .replace = "0.0F"},
        {.name = "dq_without_scale",
         .find = "sums, scale, shared_q, lane)", .replace = "sums, 1.0F, shared_q, lane)"},
        {.name = "dk_without_scale",
         .find = "of_keys, scale, shared_k, lane)", .replace = "of_keys, 1.0F, shared_k, lane)"},
        {.name = "a_head_of_the_group_is_lost",
         .find = "turns = tiles * group;", .replace = "turns = tiles * (group - 1);",
         .shape = "1x4x100x64", .options = {{"kv-heads", "2"}}},
        {.name = "rows_without_weight_weigh",
         .find = "const bool has_weight = value != attention::minus_infinity();", .replace = "const bool has_weight = true;"},
        {.name = "keys_pass_not_masked",
         .find = "apply_mask(scores, seen, first_row, tile * k_tile, lane);", .replace = "(void)seen;"},
        {.name = "delta_of_the_row_beside",
         .find = "rows[n * 8 + i % 2].delta", .replace = "rows[n * 8].delta"},
        {.name = "weights_relative_to_another_row",
         .find = "-rows[n * 8 + i % 2].lse", .replace = "-rows[n * 8].lse"},
        {.name = "gradient_of_values_without_the_last_tile",
         .find = "turns = tiles * group;", .replace = "turns = (tiles - 1) * group;"},
        {.name = "keys_of_another_head",
         .find = "k + call.forward.k_strides.of_head(at.b, at.head / group);", .replace = "k + call.forward.k_strides.of_head(at.b, 0);",
         .shape = "1x4x100x64", .options = {{"kv-heads", "2"}}},
        {.name = "tile_not_waited_for",
         .find = "ptx::cp_async_wait<stages - 2>();\n        __syncthreads();\n        fetch(tile + stages - 1);",
         .replace = "ptx::cp_async_wait<stages - 1>();\n        __syncthreads();\n        fetch(tile + stages - 1);", .races = true},
        {.name = "tile_read_before_others_have_copied",
         .find = "        __syncthreads();\n        fetch(turn + stages - 1);", .replace = "        fetch(turn + stages - 1);",
         .races = true},
        {.name = "bounds_seen_from_keys_swapped", .file = "attention/device/mask.cuh",
         .find = "return {-mask.high, -mask.low, q_len};", .replace = "return {-mask.low, -mask.high, q_len};",
         .options = {{"mask", "window"}, {"left", "40"}, {"right", "3"}}},
    });
}

std::vector<Mutant> attention_bwd_wgmma() {
    return of_attention("attention_bwd/wgmma", {
        {.name = "delta_forgotten", .file = "attention_bwd/device/wgmma_parts.cuh",
         .find = "delta_out[to] = row < rows ? sums[step] : 0.0f;", .replace = "delta_out[to] = 0.0f;"},
        {.name = "dq_without_scale",
         .find = "row, rows, dq, scale);", .replace = "row, rows, dq, 1.0f);"},
        {.name = "dk_without_scale",
         .find = "row, keys, dk, scale);", .replace = "row, keys, dk, 1.0f);"},
        {.name = "dv_with_scale",
         .find = "row, keys, d_v, 1.0f);", .replace = "row, keys, d_v, scale);"},
        {.name = "a_head_of_the_group_is_lost",
         .find = "kv_heads * group + head;", .replace = "kv_heads * group + place.head * group;",
         .shape = "1x4x100x64", .options = {{"kv-heads", "2"}}},
        {.name = "rows_without_weight_weigh", .file = "attention_bwd/device/wgmma_parts.cuh",
         .find = "lse_out[to] = log == attention::minus_infinity() ? -log : log;", .replace = "lse_out[to] = log;"},
        {.name = "mask_off_by_one", .file = "attention_bwd/device/wgmma_parts.cuh",
         .find = "column < end[r] ?", .replace = "column <= end[r] ?"},
        {.name = "keys_pass_not_masked",
         .find = "if constexpr (is_masked) cut(s, mask, row, n * k_block_q", .replace = "if constexpr (false) cut(s, mask, row, n * k_block_q"},
        {.name = "diagonal_tile_taken_for_a_whole_one",
         .find = "mask.first_full_tile(row0 + 63, k_block_q)", .replace = "mask.first_full_tile(row0, k_block_q)"},
        {.name = "delta_of_the_row_beside",
         .find = "(i % 2 == 0 ? delta.x : delta.y)", .replace = "delta.x"},
        {.name = "last_key_tile_not_cut",
         .find = "step.first<true>(at, n, ds);", .replace = "step.first<false>(at, n, ds);"},
        {.name = "stage_released_before_dq_has_read_it",
         .find = "        wgmma_wait<0>();\n        release(shared.empty(before.at));",
         .replace = "        release(shared.empty(before.at));\n        wgmma_wait<0>();",
         .config = "q_warpgroups=1 q_block_k=32 q_stages=2", .races = true},
        {.name = "sums_not_waited_for",
         .find = "descriptor_at(step.k_by_rows, at.at * QueryShared::k_bytes));\n        wgmma_commit();\n        wgmma_wait<0>();",
         .replace = "descriptor_at(step.k_by_rows, at.at * QueryShared::k_bytes));\n        wgmma_commit();", .races = true},
        {.name = "scores_for_dv_alone_not_waited_for",
         .find = "wgmma_wait<of_k ? 1 : 0>();", .replace = "wgmma_wait<1>();", .shape = "1x1x150x192", .races = true},
        {.name = "gradients_for_dk_alone_not_waited_for",
         .find = "wgmma_wait<of_v ? 1 : 0>();", .replace = "wgmma_wait<1>();", .shape = "1x1x150x192", .races = true},
    });
}

std::vector<Mutant> attention_bwd_one_pass() {
    return of_attention("attention_bwd/one_pass", {
        {.name = "dq_without_scale",
         .find = "pack_pair<Element>(both[0] * scale, both[1] * scale)", .replace = "pack_pair<Element>(both[0], both[1])"},
        {.name = "dk_without_scale",
         .find = "row, keys, dk, scale);", .replace = "row, keys, dk, 1.0f);"},
        {.name = "a_head_of_the_group_is_lost",
         .find = "const int head = walk.plane - place.batch * heads,", .replace = "const int head = (walk.plane - place.batch * heads) / 2 * 2,",
         .shape = "1x4x100x64", .options = {{"kv-heads", "2"}}},
        {.name = "scores_not_masked",
         .find = "cut(s, mask, row, n * block_q + static_cast<int>(threadIdx.x % 4 * 2));", .replace = "(void)n;"},
        {.name = "keys_behind_the_last_weigh",
         .find = "if (keys_left <= i / 2 % 2 * 8) s[i]", .replace = "if (keys_left <= -1000) s[i]", .options = {{"mask", "none"}}},
        {.name = "the_first_adds_to_what_lies_there",
         .find = "if (turn > 0) {", .replace = "if (turn >= 0) {"},
        {.name = "both_adders_add_the_first_part",
         .find = "shared.dq + at.at * dq_bytes + part * part_bytes;", .replace = "shared.dq + at.at * dq_bytes;"},
        {.name = "both_adders_add_to_the_first_part",
         .find = "dq.of(walk) + part * (bytes / 4);", .replace = "dq.of(walk);"},
        {.name = "sums_end_before_the_last_rows",
         .find = "(rows - tile * block_q + 7) / 8)", .replace = "(rows - tile * block_q) / 8)",
         .config = "groups=2 block_q=80 swap_dq=1 early_dv=0 ds_buffers=1 stages=2", .shape = "1x2x100x128"},
        {.name = "turns_in_the_other_order", .file = "attention_bwd/one_pass/key_order.cuh",
         .find = "descending ? range.end - 1 - keys : keys - range.first", .replace = "keys - range.first",
         .config = "tile_order=1", .races = true},  // blocks that are all resident wait for each other in any order
        {.name = "sums_of_the_tile_beside",
         .find = "return static_cast<long long>(at.plane) * tiles + at.tile;", .replace = "return static_cast<long long>(at.plane) * tiles;"},
        {.name = "swizzle_of_ds",
         .find = "((chunk % chunks) ^ swizzle) * 16", .replace = "(chunk % chunks) * 16"},
        {.name = "groups_exchange_their_rows_of_ds",
         .find = "const int m0 = group % dq_m_blocks * 64 + warp * 16, n0 = group / dq_m_blocks * dq_columns;",
         .replace = "const int m0 = (1 - group) % dq_m_blocks * 64 + warp * 16, n0 = (1 - group) / dq_m_blocks * dq_columns;"},
        {.name = "groups_do_not_wait_for_each_other",
         .find = "        named_barrier(1, math_threads);\n", .replace = "", .races = true},
        {.name = "ds_overwritten_early",
         .find = "        if constexpr (ds_buffers == 1 && begin == 0) named_barrier(2, math_threads);  // all have taken dQ of the tile before\n", .replace = "",
         .config = "ds_buffers=1 block_q=64", .races = true},
        {.name = "stage_released_before_dk_has_read_it",
         .find = "            wgmma_wait<0>();\n            release(shared.empty(at.at));", .replace = "            release(shared.empty(at.at));\n            wgmma_wait<0>();",
         .config = "groups=1 block_q=64 early_dv=0", .races = true},
        {.name = "dq_given_before_it_is_there",
         .find = "            wgmma_wait<1>();\n            give_dq(dq, dq_at, to);", .replace = "            give_dq(dq, dq_at, to);\n            wgmma_wait<1>();",
         .config = "groups=1 block_q=64 early_dv=0", .races = true},
        {.name = "delta_forgotten",
         .find = "packed[i / 2] = ptx::pack_pair<Element>(s[i] * (dp[i] - delta.x), s[i + 1] * (dp[i + 1] - delta.y));\n            }", .replace = "packed[i / 2] = ptx::pack_pair<Element>(s[i] * dp[i], s[i + 1] * dp[i + 1]);\n                (void)delta;\n            }",
         .config = "groups=1 block_q=64 early_dv=0"},
        {.name = "dq_overwritten_before_it_is_added",
         .find = "            barrier_wait(shared.dq_empty(at.at), at.parity ^ 1);\n", .replace = "",
         .config = "groups=1 block_q=64", .races = true},
        {.name = "second_half_of_dv_lost",
         .find = "issue_sums<value_tile, half>(d_v, p, tile_do);", .replace = "issue_sums<value_tile, block_q / 16>(d_v, p, tile_do);",
         .config = "groups=1 block_q=64 early_dv=2"},
        {.name = "second_half_of_dk_counted_twice",
         .find = "early_dv == 2 ? block_q / 32 : 0>", .replace = "0>",
         .config = "groups=1 block_q=64 early_dv=2"},
        {.name = "gradients_of_the_first_half_not_waited_for",
         .find = "                weigh<half>(s, of_rows);\n                wgmma_wait<1>();", .replace = "                weigh<half>(s, of_rows);",
         .config = "groups=1 block_q=64 early_dv=2", .races = true},
    });
}

std::vector<Mutant> attention_bwd_simt() {
    return of_attention("attention_bwd/simt", {
        {.name = "delta_forgotten",
         .find = "has_weight ? sum : 0.0F", .replace = "0.0F"},
        {.name = "dq_without_scale",
         .find = "q_len - first, sums, scale, place)", .replace = "q_len - first, sums, 1.0F, place)"},
        {.name = "dk_without_scale",
         .find = "kv_len - first, of_keys, scale, place)", .replace = "kv_len - first, of_keys, 1.0F, place)"},
        {.name = "dv_with_scale",
         .find = "kv_len - first, of_values, 1.0F, place)", .replace = "kv_len - first, of_values, scale, place)"},
        {.name = "a_head_of_the_group_is_lost",
         .find = "const int steps = tiles * group;", .replace = "const int steps = tiles * (group - 1);",
         .shape = "1x4x100x64", .options = {{"kv-heads", "2"}}},
        {.name = "a_head_of_the_group_is_counted_twice",
         .find = "return at.head * group + step / tiles;", .replace = "return at.head * group + step / tiles / 2;",
         .shape = "1x4x100x64", .options = {{"kv-heads", "2"}}},
        {.name = "keys_pass_not_masked",
         .find = "apply_mask(scores, seen, first, first_other, place);", .replace = "(void)seen;"},
        {.name = "weights_without_log2e",
         .find = "has_weight ? value * attention::log2_e :", .replace = "has_weight ? value :"},
        {.name = "added_dq_without_scale",
         .find = "q_len - first_other, scale, shared.weights", .replace = "q_len - first_other, 1.0F, shared.weights",
         .config = "passes=1", .options = {{"dtype", "f32"}, {"deterministic", "any"}}},
        {.name = "keys_behind_the_last_add_to_dq",
         .find = "if (passes == 1 && place.own(i) >= kv_len - first) scores[i][j] = 0;", .replace = "",
         .config = "passes=1", .options = {{"dtype", "f32"}, {"mask", "none"}, {"deterministic", "any"}}},
        {.name = "dq_added_to_what_lies_there",
         .find = "i < d; i += 32) to[i] = from_f32<Element>(0);", .replace = "i < 0; i += 32) to[i] = from_f32<Element>(0);",
         .config = "passes=1", .options = {{"dtype", "f32"}, {"deterministic", "any"}}},
        {.name = "dq_does_not_wait_for_all_weights",
         .find = "        __syncthreads();  // queries are read, and all have shared their weights\n", .replace = "",
         .config = "passes=1", .options = {{"dtype", "f32"}, {"deterministic", "any"}}, .races = true},
        {.name = "gradients_overwritten_early",
         .find = "        __syncthreads();  // gradients are read\n", .replace = "", .races = true},
        {.name = "tile_of_queries_not_waited_for",
         .find = "        ptx::cp_async_wait<0>();\n        __syncthreads();  // the tile is there",
         .replace = "        __syncthreads();  // the tile is there", .options = {{"dtype", "f32"}}, .races = true},
        {.name = "weights_of_the_other_row", .file = "attention/device/simt_parts.cuh",
         .find = "int turn() const { return turn_of_row(y); }", .replace = "int turn() const { return turn_of_row(y + 1); }"},
        {.name = "tile_overwritten_early",
         .find = "        const int left = kv_len - tile * tile_rows;\n        __syncthreads();  // the tile before is read\n",
         .replace = "        const int left = kv_len - tile * tile_rows;\n", .races = true},
        {.name = "tile_not_waited_for",
         .find = "        ptx::cp_async_wait<0>();\n        __syncthreads();\n        Scores",
         .replace = "        __syncthreads();\n        Scores", .options = {{"dtype", "f32"}}, .races = true},
    });
}

std::vector<Mutant> with_f32(const char* compute, std::vector<Mutant> list) {
    for (Mutant& mutant : list) {
        mutant.options["dtype"] = "f32";
        mutant.options["compute"] = compute;
    }
    return list;
}

std::vector<Mutant> simt_f32() {
    const std::string transposed =
        "block_m=64 block_n=64 thread_m=8 thread_n=4 lanes_m=4 min_blocks=1 stages=2 cp_async=0 reg_transpose=1";
    return with_f32("f32", of_family("gemm/simt_f32", "", {
        {.name = "line_outside_read",
         .find = "return across > 0 ? (k_is_contiguous ? in_k : in_lines) : 0;",
         .replace = "return k_is_contiguous ? in_k : in_lines;",
         // Behind the first item of the batch lie the second's elements, so a GPU shows what is read there.
         .shape = "64x64x73", .options = {{"layout", "tn"}, {"batch", "2"}}},
        {.name = "next_tile_not_waited_for",
         .find = "            ptx::cp_async_wait<ahead - 1>();\n            __syncthreads();\n        };",
         .replace = "        };",
         .shape = "256x256x1024", .races = true},
        {.name = "transposed_past_the_end_of_k",
         .find = "line < patch.lines_left ? patch.k_left - k_first : 0",
         .replace = "line + 1 < patch.lines_left ? 4 : patch.k_left - k_first",
         .config = transposed, .shape = "64x64x76", .options = {{"layout", "nt"}}},
        {.name = "transposed_into_the_tile_that_is_read",
         .find = "transposer.store(next * sizeof(Stage));",
         .replace = "transposer.store(read * sizeof(Stage));",
         .config = transposed, .shape = "64x64x256", .options = {{"layout", "nt"}}},
        {.name = "transposed_tile_not_waited_for",
         .find = "            if (k + 1 == block_k) __syncthreads();\n", .replace = "",
         .config = transposed, .shape = "256x256x1024", .options = {{"layout", "nt"}}, .races = true},
        {.name = "part_of_k_counted_twice",
         .find = "const int k_count = min(k - k_first, k_per_split);",
         .replace = "const int k_count = k - k_first;",
         .config = "split_k=2", .shape = "64x64x512"},
        {.name = "a_part_not_added", .file = "gemm/device/add_parts.cuh",
         .find = "for (int split = 1; split < split_k; ++split) {",
         .replace = "for (int split = 2; split < split_k; ++split) {",
         .config = "split_k=2", .shape = "64x64x512"}}));
}

std::vector<Mutant> tf32() {
    std::vector<Mutant> list = with_f32("tf32x3", of_family("gemm/mma_tf32", "", {
        {.name = "low_part_of_a_lost",
         .find = "mma_m16n8k8_tf32(sums[i][j], low, high_b[j][0], high_b[j][1]);",
         .replace = "mma_m16n8k8_tf32(sums[i][j], low, low_b[j][0], low_b[j][1]);",
         .shape = "64x64x256"},
        {.name = "low_part_of_b_lost",
         .find = "mma_m16n8k8_tf32(sums[i][j], high, low_b[j][0], low_b[j][1]);",
         .replace = "static_cast<void>(low_b[j]);",
         .shape = "64x64x256"},
        {.name = "rest_of_an_operand_cut", .file = "gemm/device/f32_split.cuh",
         .find = "return {high, __float_as_uint(__uint_as_float(bits) - __uint_as_float(high))};",
         .replace = "return {high, 0U};",
         .shape = "64x64x256"},
        {.name = "lower_rows_take_the_upper",
         .find = "lane_r() + 8 * upper); }",
         .replace = "lane_r()); }",
         .shape = "64x64x256"}}));
    const std::vector<Mutant> wgmma = with_f32("tf32", of_family("gemm/wgmma_tf32", "", {
        {.name = "second_of_two_rows_lost",
         .find = "at[i / 2][band][i % 2 * 2 + 1] = four[2 * band + 1];",
         .replace = "at[i / 2][band][i % 2 * 2 + 1] = four[2 * band];",
         .shape = "256x256x64"},
        {.name = "copy_not_transposed", .file = "gemm/device/arrange.cuh",
         .find = "transposes ? square[x][y + i] : square[y + i][x]",
         .replace = "square[y + i][x]",
         .shape = "256x256x64", .options = {{"layout", "tn"}}},
        {.name = "last_k_step_skipped", .file = "gemm/device/f32_producer.cuh",
         .find = "int steps() const { return (k + block_k - 1) / block_k; }",
         .replace = "int steps() const { return k / block_k; }",
         .shape = "256x256x80"}}));
    const std::vector<Mutant> wgmma_x3 = with_f32("tf32x3", of_family("gemm/wgmma_tf32x3", "", {
        {.name = "low_part_of_x_lost",
         .find = "run(products, x.low[kk], matrix_descriptor(y + kk * 32",
         .replace = "run(products, x.low[kk], matrix_descriptor(small + kk * 32",
         .shape = "256x256x256"},
        {.name = "half_of_y_not_split",
         .find = "{cut_off(four[0]), cut_off(four[1]), cut_off(four[2]), cut_off(four[3])}",
         .replace = "{cut_off(four[0]), cut_off(four[1]), 0U, 0U}",
         .shape = "256x256x256"},
        {.name = "sums_of_a_step_not_promoted",
         .find = "sums[part][i] += products[i];",
         .replace = "sums[part][i] = products[i];",
         .shape = "256x256x256"},
        {.name = "chunks_of_slabs_confused",
         .find = "lane_r() % 2 * 4 + lane_r() / 4 +",
         .replace = "lane_r() / 4 +",
         .shape = "256x256x256"}}));
    const std::vector<Mutant> wmma = with_f32("tf32", of_family("gemm/wmma_tf32", "", {
        {.name = "k_step_of_b_ignored",
         .find = "j * 16 * CopyB::ld_tile + k : k * CopyB::ld_tile + j * 16;",
         .replace = "j * 16 * CopyB::ld_tile + k : j * 16;",
         .shape = "64x64x64"}}));
    list.insert(list.end(), wgmma.begin(), wgmma.end());
    list.insert(list.end(), wgmma_x3.begin(), wgmma_x3.end());
    list.insert(list.end(), wmma.begin(), wmma.end());
    return list;
}

std::vector<Mutant> without_waits() {
    const std::string wait = "dependent_launch::wait_for_earlier_grids();\n";
    std::vector<Mutant> all;
    const auto add = [&](const std::string& family, Mutant mutant) {
        for (Mutant& one : of_family(family, "", {std::move(mutant)})) all.push_back(std::move(one));
    };
    add("gemm/wgmma", {.name = "producer_does_not_wait", .file = "gemm/device/hopper/hopper_producer.cuh",
        .find = "            begin_turn();\n            asm volatile(\"st.volatile",
        .replace = "            dependent_launch::let_next_grid_start();\n            asm volatile(\"st.volatile",
        .config = "pdl=1", .shape = "256x256x256"});
    add("gemm/wgmma", {.name = "consumers_do_not_wait",
        .find = "        take_from_producer();\n        begin_turn();\n",
        .replace = "        take_from_producer();\n        dependent_launch::let_next_grid_start();\n",
        .config = "tma_store=1 pdl=1", .shape = "256x256x256", .options = {{"beta", "1"}}});
    add("gemm/wgmma", {.name = "reduction_does_not_wait",
        .find = "    float sums[8] = {};\n    " + wait,
        .replace = "    float sums[8] = {};\n",
        .config = "cluster_k=1 split_k=2 tma_store=0 reduce_kernel=1 pdl=1 prefetch_steps=0 prefetch_all=0", .shape = "256x1024x1024"});
    add("gemm/wgmma_nonpersistent", {.name = "producer_does_not_wait",
        .find = "            " + wait + "            dependent_launch::let",
        .replace = "            dependent_launch::let",
        .config = "pdl=1", .shape = "256x256x256"});
    // Without their own wait alone the consumer warpgroups are right in time: they read scales after products of operands that the producer
    // waited for.
    add("gemm/wgmma_fp8", {.name = "nobody_waits", .file = "gemm/device/hopper/hopper_ring.cuh",
        .find = "    " + wait + "    dependent_launch::let_next_grid_start();\n",
        .replace = "    dependent_launch::let_next_grid_start();\n",
        .config = "pdl=1", .shape = "4096x1x512",
        .options = {{"dtype", "e4m3"}, {"c", "f32"}, {"acc", "f32fast"}, {"scale", "row"}}});
    add("gemm/wgmma_tf32", {.name = "producer_does_not_wait", .file = "gemm/device/f32_producer.cuh",
        .find = "    Position at;\n    begin_turn();\n", .replace = "    Position at;\n    dependent_launch::let_next_grid_start();\n",
        .config = "pdl=1", .shape = "256x512x512", .options = {{"dtype", "f32"}, {"compute", "tf32"}, {"layout", "nt"}}});
    add("attention/split", {.name = "attention_does_not_wait",
        .find = "    " + wait + "    Words queries", .replace = "    Words queries",
        .config = "pdl=1", .shape = "2x8x4x64", .options = {{"dtype", "bf16"}, {"kv-len", "1024"}, {"scale", "1"}}});
    add("attention/wgmma", {.name = "attention_does_not_wait",
        .find = "    " + wait + "    dependent_launch::let_next_grid_start();\n    const Output",
        .replace = "    dependent_launch::let_next_grid_start();\n    const Output",
        .config = "pdl=1", .shape = "1x4x256x64", .options = {{"dtype", "bf16"}, {"scale", "1"}}});
    add("gemm/gemv", {.name = "does_not_wait",
        .find = "#endif\n    " + wait,
        .replace = "#endif\n",
        .shape = "1x1024x1024"});
    add("gemm/dot", {.name = "does_not_wait",
        .find = "    " + wait, .replace = "",
        .shape = "1x1024x1024"});
    add("gemm/dot_windows", {.name = "does_not_wait",
        .find = "    " + wait, .replace = "",
        .shape = "1x1023x1023", .options = {{"layout", "nt"}}});
    add("add/vector", {.name = "add_does_not_wait",
        .find = "    " + wait, .replace = "",
        .config = "pdl=1", .shape = "65536", .options = {{"dtype", "bf16"}}});
    add("add/bulk", {.name = "add_does_not_wait",
        .find = "    " + wait, .replace = "",
        .config = "pdl=1", .shape = "65536", .options = {{"dtype", "bf16"}}});
    add("softmax/rows", {.name = "softmax_does_not_wait",
        .find = "    " + wait, .replace = "",
        .config = "pdl=1", .shape = "128x1024", .options = {{"dtype", "bf16"}, {"scale", "8"}}});
    add("softmax/bulk", {.name = "softmax_does_not_wait",
        .find = "    " + wait, .replace = "",
        .config = "pdl=1", .shape = "128x8192", .options = {{"dtype", "bf16"}, {"scale", "8"}}});
    return all;
}
// clang-format on

}  // namespace

const std::vector<Mutant>& overlap_mutants() {
    static const std::vector<Mutant> all = without_waits();
    return all;
}

const std::vector<Mutant>& mutants() {
    static const std::vector<Mutant> all = [] {
        std::vector<Mutant> list;
        for (const auto& part : {simt(),
                                 mma(),
                                 wgmma(),
                                 wgmma_nonpersistent(),
                                 dot(),
                                 dot_windows(),
                                 wmma(),
                                 wgmma_fp8(),
                                 fp8_epilogue(),
                                 attention_naive(),
                                 attention_simt(),
                                 attention_mma(),
                                 attention_split(),
                                 attention_wgmma(),
                                 attention_bwd_two_pass(),
                                 attention_bwd_wgmma(),
                                 attention_bwd_one_pass(),
                                 attention_bwd_simt(),
                                 softmax_rows(),
                                 softmax_bulk(),
                                 simt_f32(),
                                 tf32()})
            list.insert(list.end(), part.begin(), part.end());
        return list;
    }();
    return all;
}

bool runs_on_host(const Mutant& mutant) {
    constexpr std::array without = {"gemm/wmma", "gemm/wmma_tf32", "gemm/mma_fp8"};  // instructions that do not run there
    const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
    const bool has_cluster = has(mutant.config, "cluster_m=2") || has(mutant.config, "cluster_n=2") ||
                             has(mutant.config, "cluster_k=2") ||
                             (mutant.family == "attention/split" && has(mutant.config, "join=2"));
    const bool lacks_a_fence = has(mutant.find, "fence");  // which has no effect there
    // Digits that are lost do not show in sums that have all of them.
    const bool lacks_digits = mutant.name == "wgmma_fp8_promotion_forgotten";
    // Tiles are wider than what runs there quickly.
    const bool is_large = mutant.races && has(mutant.family, "gemm/wgmma") && !mutant.shape.starts_with("64x64x");
    return !has_cluster && !lacks_a_fence && !lacks_digits && !is_large &&
           std::find(without.begin(), without.end(), mutant.family) == without.end();
}

std::string text_of_template(const Catalogue& catalogue, const std::string& path) {
    for (const TemplateHeader& header : catalogue.headers()) {
        if (header.name == path) return header.text();
    }
    const Family* family = catalogue.find_family(path.substr(0, path.rfind('/')));
    check(family != nullptr, "there is no template " + path);
    return catalogue.text(*family);
}

int occurrences(const std::string& text, const std::string& part) {
    int count = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
    return count;
}

Catalogue mutated(const Mutant& mutant) {
    std::string text = text_of_template(Catalogue::embedded(), mutant.path());
    check(occurrences(text, mutant.find) == 1,
          mutant.name + ": what it replaces does not stand exactly once in " + mutant.path());
    text.replace(text.find(mutant.find), mutant.find.size(), mutant.replace);
    const std::filesystem::path folder =
        std::filesystem::temp_directory_path() / ("mutant_" + std::to_string(::getpid()) + "_" + mutant.name);
    std::filesystem::create_directories((folder / mutant.path()).parent_path());
    std::ofstream(folder / mutant.path(), std::ios::binary) << text;
    Catalogue catalogue = Catalogue::from_directory(folder.string());
    std::filesystem::remove_all(folder);
    return catalogue;
}

Problem problem_of(const Mutant& mutant, const Catalogue& catalogue) {
    std::map<std::string, std::string> options = mutant.options;
    options.emplace("dtype", "f16");
    return catalogue.problem({mutant.family.substr(0, mutant.family.find('/')), mutant.shape, options});
}

Config config_of(const Mutant& mutant, const SearchSpace& space) {
    Config config = space.default_config;
    std::istringstream words(mutant.config);
    for (std::string word; words >> word;) {
        const std::size_t equals = word.find('=');
        config.set(word.substr(0, equals), std::stoll(word.substr(equals + 1)));
    }
    const std::optional<std::string> why = space.why_not(config);
    check(!why, mutant.name + ": " + why.value_or("") + " (" + config.to_string() + ")");
    return config;
}

}  // namespace autotune::test
