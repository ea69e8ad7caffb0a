#include "tests/kernel_templates/planted_mutants.h"

namespace autotune::test {
namespace {

// clang-format off
std::vector<Mutant> gemm_dot() {
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
const Planted kGemmDot(&gemm_dot);

std::vector<Mutant> gemm_dot_overlap() {
    return of_family("gemm/dot", "", {
        {.name = "does_not_wait",
         .find = "    " + kWait, .replace = "",
         .shape = "1x1024x1024"}});
}
const PlantedInChain kGemmDotOverlap(&gemm_dot_overlap);
// clang-format on

}  // namespace
}  // namespace autotune::test
