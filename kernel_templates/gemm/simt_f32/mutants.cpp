#include "tests/kernel_templates/planted_mutants.h"

namespace autotune::test {
namespace {

// clang-format off
std::vector<Mutant> gemm_simt_f32() {
    const std::string transposed =
        "block_m=64 block_n=64 thread_m=8 thread_n=4 lanes_m=4 min_blocks=1 stages=2 cp_async=0 reg_transpose=1";
    return with_f32("f32", of_family("gemm/simt_f32", "", {
        {.name = "line_outside_read",
         .find = "return across > 0 ? (k_is_contiguous ? in_k : in_lines) : 0;",
         .replace = "return k_is_contiguous ? in_k : in_lines;",
         // The first item of the batch is followed by the second's elements, so on a GPU a read beyond the first changes the
         // result.
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
const Planted kGemmSimtF32(&gemm_simt_f32);
// clang-format on

}  // namespace
}  // namespace autotune::test
