#include "tests/kernel_templates/planted_mutants.h"

namespace autotune::test {
namespace {

// clang-format off
std::vector<Mutant> gemm_mma_tf32() {
    return with_f32("tf32x3", of_family("gemm/mma_tf32", "", {
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
}
const Planted kGemmMmaTf32(&gemm_mma_tf32);
// clang-format on

}  // namespace
}  // namespace autotune::test
