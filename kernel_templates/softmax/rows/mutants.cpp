#include "tests/kernel_templates/planted_mutants.h"

namespace autotune::test {
namespace {

// clang-format off
std::vector<Mutant> softmax_rows() {
    const std::string agreed = "threads=128 threads_per_row=128 register_chunks=2 unroll=1 online=1 hold_weights=1 warp_max_first=1";
    std::vector<Mutant> list = of_family("softmax/rows", "rows_per_thread=1", {
        {.name = "lanes_agree_on_the_peak_of_half", .file = "softmax/device/exchange.cuh",
         .find = "step > 0; step /= 2) peak = fmaxf", .replace = "step > 1; step /= 2) peak = fmaxf", .config = agreed},
        {.name = "lanes_add_half_of_their_sums", .file = "softmax/device/exchange.cuh",
         .find = "step > 0; step /= 2) sum +=", .replace = "step > 1; step /= 2) sum +=", .config = agreed},
        {.name = "weights_stay_relative_to_the_warps_peak",
         .find = "hold_weights && !is_whole_row ?", .replace = "false ?", .config = agreed},
        {.name = "parts_are_read_before_they_are_written", .file = "softmax/device/exchange.cuh",
         .find = "                __syncthreads();\n", .replace = "                __syncwarp();\n", .config = agreed + " threads=64 threads_per_row=64 access_bytes=2", .races = true},
        {.name = "end_of_a_row_weighs_one", .file = "softmax/device/softmax.cuh",
         .find = "negative ? -minus_infinity() : minus_infinity()", .replace = "0.0F", .config = agreed},
        {.name = "what_is_not_held_is_not_summed",
         .find = "part[r] = part_of_rest(row[r], part[r]);", .replace = "{}",
         .config = "threads=128 threads_per_row=128 register_chunks=1 unroll=1 online=1 hold_weights=0 warp_max_first=0"},
        {.name = "logarithm_without_the_peak", .file = "softmax/device/softmax.cuh",
         .find = "__fmaf_rn(row.peak, magnitude, log2_of(row.sum) * ln2)", .replace = "log2_of(row.sum) * ln2", .config = agreed},
    });
    for (Mutant& mutant : list) {
        mutant.shape = mutant.races ? "9x128" : "9x1992";
        mutant.options = {{"dtype", "bf16"}, {"lse", "yes"}};
    }
    return list;
}
const Planted kSoftmaxRows(&softmax_rows);

std::vector<Mutant> softmax_rows_overlap() {
    return of_family("softmax/rows", "", {
        {.name = "softmax_does_not_wait",
         .find = "    " + kWait, .replace = "",
         .config = "pdl=1", .shape = "128x1024", .options = {{"dtype", "bf16"}, {"scale", "8"}}}});
}
const PlantedInChain kSoftmaxRowsOverlap(&softmax_rows_overlap);
// clang-format on

}  // namespace
}  // namespace autotune::test
