#include "tests/kernel_templates/planted_mutants.h"

namespace autotune::test {
namespace {

// clang-format off
std::vector<Mutant> attention_bwd_two_pass() {
    return of_attention("attention_bwd/two_pass", {
        {.name = "delta_forgotten",
         .find = "has_weight ? sum : 0.0F", .replace = "0.0F"},
        {.name = "dq_without_scale",
         .find = "sums, scale, shared_q, lane)", .replace = "sums, 1.0F, shared_q, lane)"},
        {.name = "dk_without_scale",
         .find = "of_keys, scale, shared_k, lane)", .replace = "of_keys, 1.0F, shared_k, lane)"},
        {.name = "a_head_of_the_group_is_lost",
         .find = "turns = tiles * group;", .replace = "turns = tiles * (group - 1);",
         .shape = "1x4x100x64", .options = {{"kv-heads", "2"}}},
        {.name = "rows_without_weight_weigh",
         .find = "const bool has_weight = value != attention::minus_infinity();", .replace = "const bool has_weight = true;"},
        {.name = "keys_pass_not_masked",
         .find = "apply_mask(scores, seen, first_row, tile * k_tile, lane);", .replace = "(void)seen;"},
        {.name = "delta_of_the_row_beside",
         .find = "rows[n * 8 + i % 2].delta", .replace = "rows[n * 8].delta"},
        {.name = "weights_relative_to_another_row",
         .find = "-rows[n * 8 + i % 2].lse", .replace = "-rows[n * 8].lse"},
        {.name = "gradient_of_values_without_the_last_tile",
         .find = "turns = tiles * group;", .replace = "turns = (tiles - 1) * group;"},
        {.name = "keys_of_another_head",
         .find = "k + call.forward.k_strides.of_head(at.b, at.head / group);", .replace = "k + call.forward.k_strides.of_head(at.b, 0);",
         .shape = "1x4x100x64", .options = {{"kv-heads", "2"}}},
        {.name = "tile_not_waited_for",
         .find = "ptx::cp_async_wait<stages - 2>();\n        __syncthreads();\n        fetch(tile + stages - 1);",
         .replace = "ptx::cp_async_wait<stages - 1>();\n        __syncthreads();\n        fetch(tile + stages - 1);", .races = true},
        {.name = "tile_read_before_others_have_copied",
         .find = "        __syncthreads();\n        fetch(turn + stages - 1);", .replace = "        fetch(turn + stages - 1);",
         .races = true},
        {.name = "bounds_seen_from_keys_swapped", .file = "attention/device/mask.cuh",
         .find = "return {-mask.high, -mask.low, q_len};", .replace = "return {-mask.low, -mask.high, q_len};",
         .options = {{"mask", "window"}, {"left", "40"}, {"right", "3"}}},
    });
}
const Planted kAttentionBwdTwoPass(&attention_bwd_two_pass);
// clang-format on

}  // namespace
}  // namespace autotune::test
