#include "tests/kernel_templates/planted_mutants.h"

namespace autotune::test {
namespace {

// clang-format off
std::vector<Mutant> gemm_simt() {
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
const Planted kGemmSimt(&gemm_simt);
// clang-format on

}  // namespace
}  // namespace autotune::test
