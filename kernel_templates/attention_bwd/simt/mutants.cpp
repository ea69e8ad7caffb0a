#include "tests/kernel_templates/planted_mutants.h"

namespace autotune::test {
namespace {

// clang-format off
std::vector<Mutant> attention_bwd_simt() {
    return of_attention("attention_bwd/simt", {
        {.name = "delta_forgotten",
         .find = "has_weight ? sum : 0.0F", .replace = "0.0F"},
        {.name = "dq_without_scale",
         .find = "q_len - first, sums, scale, place)", .replace = "q_len - first, sums, 1.0F, place)"},
        {.name = "dk_without_scale",
         .find = "kv_len - first, of_keys, scale, place)", .replace = "kv_len - first, of_keys, 1.0F, place)"},
        {.name = "dv_with_scale",
         .find = "kv_len - first, of_values, 1.0F, place)", .replace = "kv_len - first, of_values, scale, place)"},
        {.name = "a_head_of_the_group_is_lost",
         .find = "const int steps = tiles * group;", .replace = "const int steps = tiles * (group - 1);",
         .shape = "1x4x100x64", .options = {{"kv-heads", "2"}}},
        {.name = "a_head_of_the_group_is_counted_twice",
         .find = "return at.head * group + step / tiles;", .replace = "return at.head * group + step / tiles / 2;",
         .shape = "1x4x100x64", .options = {{"kv-heads", "2"}}},
        {.name = "keys_pass_not_masked",
         .find = "apply_mask(scores, seen, first, first_other, place);", .replace = "(void)seen;"},
        {.name = "weights_without_log2e",
         .find = "has_weight ? value * attention::log2_e :", .replace = "has_weight ? value :"},
        {.name = "added_dq_without_scale",
         .find = "q_len - first_other, scale, shared.weights", .replace = "q_len - first_other, 1.0F, shared.weights",
         .config = "passes=1", .options = {{"dtype", "f32"}, {"deterministic", "any"}}},
        {.name = "keys_behind_the_last_add_to_dq",
         .find = "if (passes == 1 && place.own(i) >= kv_len - first) scores[i][j] = 0;", .replace = "",
         .config = "passes=1", .options = {{"dtype", "f32"}, {"mask", "none"}, {"deterministic", "any"}}},
        {.name = "dq_added_to_what_lies_there",
         .find = "i < d; i += 32) to[i] = from_f32<Element>(0);", .replace = "i < 0; i += 32) to[i] = from_f32<Element>(0);",
         .config = "passes=1", .options = {{"dtype", "f32"}, {"deterministic", "any"}}},
        {.name = "dq_does_not_wait_for_all_weights",
         .find = "        __syncthreads();  // queries have been read, and all threads have shared their weights\n", .replace = "",
         .config = "passes=1", .options = {{"dtype", "f32"}, {"deterministic", "any"}}, .races = true},
        {.name = "gradients_overwritten_early",
         .find = "        __syncthreads();  // gradients are read\n", .replace = "", .races = true},
        {.name = "tile_of_queries_not_waited_for",
         .find = "        ptx::cp_async_wait<0>();\n        __syncthreads();  // the tile has arrived",
         .replace = "        __syncthreads();  // the tile has arrived", .options = {{"dtype", "f32"}}, .races = true},
        {.name = "weights_of_the_other_row", .file = "attention/device/simt_parts.cuh",
         .find = "int turn() const { return turn_of_row(y); }", .replace = "int turn() const { return turn_of_row(y + 1); }"},
        {.name = "tile_overwritten_early",
         .find = "        const int left = kv_len - tile * tile_rows;\n        __syncthreads();  // the previous tile has been read\n",
         .replace = "        const int left = kv_len - tile * tile_rows;\n", .races = true},
        {.name = "tile_not_waited_for",
         .find = "        ptx::cp_async_wait<0>();\n        __syncthreads();\n        Scores",
         .replace = "        __syncthreads();\n        Scores", .options = {{"dtype", "f32"}}, .races = true},
    });
}
const Planted kAttentionBwdSimt(&attention_bwd_simt);
// clang-format on

}  // namespace
}  // namespace autotune::test
