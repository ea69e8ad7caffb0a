#include "tests/kernel_templates/planted_mutants.h"

namespace autotune::test {
namespace {

// clang-format off
std::vector<Mutant> add_bulk_overlap() {
    return of_family("add/bulk", "", {
        {.name = "add_does_not_wait",
         .find = "    " + kWait, .replace = "",
         .config = "pdl=1", .shape = "65536", .options = {{"dtype", "bf16"}}}});
}
const PlantedInChain kAddBulkOverlap(&add_bulk_overlap);
// clang-format on

}  // namespace
}  // namespace autotune::test
