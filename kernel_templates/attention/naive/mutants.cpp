#include "tests/kernel_templates/planted_mutants.h"

namespace autotune::test {
namespace {

// clang-format off
std::vector<Mutant> attention_naive() {
    return of_attention("attention/naive", {
        {.name = "scores_without_scale",
         .find = "        score *= scale;\n", .replace = ""},
        {.name = "weights_not_divided_by_their_sum",
         .find = "x[i] *= inverse;", .replace = "x[i] *= 1.0F;"},
        {.name = "logarithm_without_the_peak",
         .find = "attention::log_sum_exp(peak, sum, 1.0F)", .replace = "attention::log_sum_exp(0.0F, sum, 1.0F)",
         .options = {{"lse", "yes"}}},
        {.name = "a_key_of_the_softmax_is_lost",
         .find = "for (int key = 0; key < one.kv_len; ++key) sum", .replace = "for (int key = 0; key + 1 < one.kv_len; ++key) sum"},
        {.name = "sum_of_a_block_before_its_parts",
         .find = "    shared[threadIdx.x] = mine;\n    __syncthreads();\n", .replace = "    shared[threadIdx.x] = mine;\n", .races = true},
    });
}
const Planted kAttentionNaive(&attention_naive);
// clang-format on

}  // namespace
}  // namespace autotune::test
