#include "tests/kernel_templates/planted_mutants.h"

namespace autotune::test {
namespace {

// clang-format off
std::vector<Mutant> gemm_wgmma_tf32() {
    return with_f32("tf32", of_family("gemm/wgmma_tf32", "", {
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
}
const Planted kGemmWgmmaTf32(&gemm_wgmma_tf32);

std::vector<Mutant> gemm_wgmma_tf32_overlap() {
    return of_family("gemm/wgmma_tf32", "", {
        {.name = "producer_does_not_wait", .file = "gemm/device/f32_producer.cuh",
         .find = "    Position at;\n    begin_turn();\n", .replace = "    Position at;\n    dependent_launch::let_next_grid_start();\n",
         .config = "pdl=1", .shape = "256x512x512", .options = {{"dtype", "f32"}, {"compute", "tf32"}, {"layout", "nt"}}}});
}
const PlantedInChain kGemmWgmmaTf32Overlap(&gemm_wgmma_tf32_overlap);
// clang-format on

}  // namespace
}  // namespace autotune::test
