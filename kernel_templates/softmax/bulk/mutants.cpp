#include "tests/kernel_templates/planted_mutants.h"

namespace autotune::test {
namespace {

// clang-format off
std::vector<Mutant> softmax_bulk() {
    std::vector<Mutant> list = of_family("softmax/bulk", "threads=128 threads_per_row=128 register_chunks=4 copy_to_registers=1 stages=1 waves=0", {
        {.name = "weights_stay_relative_to_the_warps_peak",
         .find = "softmax::weight(weights.mine.peak, origin, slope) * inverse;", .replace = "inverse;"},
        {.name = "end_of_a_drained_row_weighs_one",
         .find = "packs[h].at[j] = softmax::nothing<Element, negative>();", .replace = "packs[h].at[j] = Element{};"},
        {.name = "half_of_a_drained_row_is_summed",
         .find = "mine.sum = softmax::sum_of_lanes<lanes>", .replace = "mine.sum = softmax::sum_of_lanes<lanes / 2>"},
    });
    for (Mutant& mutant : list) {
        mutant.shape = "9x4088";
        mutant.options = {{"dtype", "bf16"}, {"lse", "yes"}};
    }
    return list;
}
const Planted kSoftmaxBulk(&softmax_bulk);

std::vector<Mutant> softmax_bulk_overlap() {
    return of_family("softmax/bulk", "", {
        {.name = "softmax_does_not_wait",
         .find = "    " + kWait, .replace = "",
         .config = "pdl=1", .shape = "128x8192", .options = {{"dtype", "bf16"}, {"scale", "8"}}}});
}
const PlantedInChain kSoftmaxBulkOverlap(&softmax_bulk_overlap);
// clang-format on

}  // namespace
}  // namespace autotune::test
