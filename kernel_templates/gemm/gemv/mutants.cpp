#include "tests/kernel_templates/planted_mutants.h"

namespace autotune::test {
namespace {

// clang-format off
std::vector<Mutant> gemm_gemv_overlap() {
    return of_family("gemm/gemv", "", {
        {.name = "does_not_wait",
         .find = "#endif\n    " + kWait,
         .replace = "#endif\n",
         .shape = "1x1024x1024"}});
}
const PlantedInChain kGemmGemvOverlap(&gemm_gemv_overlap);
// clang-format on

}  // namespace
}  // namespace autotune::test
