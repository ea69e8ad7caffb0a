#include "tests/kernel_templates/planted_mutants.h"

namespace autotune::test {
namespace {

// clang-format off
std::vector<Mutant> attention_simt() {
    return of_attention("attention/simt", {
        {.name = "sums_keep_the_old_peak",
         .find = "sums[i][c] *= factor;", .replace = "sums[i][c] *= 1.0F;"},
        {.name = "row_sum_keeps_the_old_peak",
         .find = "state.sum[i] = __fmaf_rn(state.sum[i], factor, sum);", .replace = "state.sum[i] += sum;"},
        {.name = "peak_of_half_a_row",
         .find = "step < threads_x; step *= 2) mine = fmaxf", .replace = "2 * step < threads_x; step *= 2) mine = fmaxf"},
        {.name = "sum_of_half_a_row",
         .find = "step < threads_x; step *= 2) mine +=", .replace = "2 * step < threads_x; step *= 2) mine +="},
        {.name = "tail_keys_not_masked",
         .find = "if (masking != 2 || tile < begin_full || tile >= end_full)", .replace = "if (masking != 2)",
         .options = {{"mask", "none"}}},
        {.name = "begin_of_the_window_ignored",
         .find = "(!has_low || key >= begin) && key < end", .replace = "key < end",
         .options = {{"mask", "window"}, {"left", "40"}}},
        {.name = "logarithm_without_its_unit",
         .find = "attention::log_sum_exp(state.peak[i], sum, attention::ln_2)",
         .replace = "attention::log_sum_exp(state.peak[i], sum, 1.0F)", .options = {{"lse", "yes"}}},
        {.name = "values_of_another_head",
         .find = "v + call.v_strides.of_head(at.b, at.head / group)", .replace = "v + call.v_strides.of_head(at.b, 0)",
         .shape = "1x4x100x64", .options = {{"kv-heads", "2"}}},
        {.name = "rows_without_a_key_are_divided", .file = "attention/device/call.cuh",
         .find = "return sum == 0.0F ? 0.0F : 1.0F / sum;", .replace = "return 1.0F / sum;",
         .options = {{"mask", "causal_bottom_right"}, {"kv-len", "100"}}},
        {.name = "weights_of_another_key",
         .find = "shared.p + own_key(place, j) * ld_p", .replace = "shared.p + (j * threads_x + place.x) * ld_p"},
        {.name = "values_of_the_first_part_alone",
         .find = "(first_key + row) * v_row", .replace = "first_key * v_row"},
        {.name = "part_not_waited_for",
         .find = "        ptx::cp_async_wait<stages - 2>();\n", .replace = "", .options = {{"dtype", "f32"}}, .races = true},
        {.name = "part_overwritten_early",
         .find = "        __syncthreads();  // this part has arrived, and the part in the next slot to be filled has been read\n", .replace = "",
         .races = true},
    });
}
const Planted kAttentionSimt(&attention_simt);
// clang-format on

}  // namespace
}  // namespace autotune::test
