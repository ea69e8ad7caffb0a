#include "tests/kernel_templates/planted_mutants.h"

namespace autotune::test {
namespace {

// clang-format off
std::vector<Mutant> gemm_wgmma_tf32x3() {
    return with_f32("tf32x3", of_family("gemm/wgmma_tf32x3", "", {
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
}
const Planted kGemmWgmmaTf32x3(&gemm_wgmma_tf32x3);
// clang-format on

}  // namespace
}  // namespace autotune::test
