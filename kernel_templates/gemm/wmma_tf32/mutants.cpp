#include "tests/kernel_templates/planted_mutants.h"

namespace autotune::test {
namespace {

// clang-format off
std::vector<Mutant> gemm_wmma_tf32() {
    return with_f32("tf32", of_family("gemm/wmma_tf32", "", {
        {.name = "k_step_of_b_ignored",
         .find = "j * 16 * CopyB::ld_tile + k : k * CopyB::ld_tile + j * 16;",
         .replace = "j * 16 * CopyB::ld_tile + k : j * 16;",
         .shape = "64x64x64"}}));
}
const Planted kGemmWmmaTf32(&gemm_wmma_tf32);
// clang-format on

}  // namespace
}  // namespace autotune::test
