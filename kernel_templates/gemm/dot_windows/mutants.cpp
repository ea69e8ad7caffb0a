#include "tests/kernel_templates/planted_mutants.h"

namespace autotune::test {
namespace {

// clang-format off
std::vector<Mutant> gemm_dot_windows() {
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
const Planted kGemmDotWindows(&gemm_dot_windows);

std::vector<Mutant> gemm_dot_windows_overlap() {
    return of_family("gemm/dot_windows", "", {
        {.name = "does_not_wait",
         .find = "    " + kWait, .replace = "",
         .shape = "1x1023x1023", .options = {{"layout", "nt"}}}});
}
const PlantedInChain kGemmDotWindowsOverlap(&gemm_dot_windows_overlap);
// clang-format on

}  // namespace
}  // namespace autotune::test
