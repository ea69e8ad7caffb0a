#include "tests/kernel_templates/planted_mutants.h"

namespace autotune::test {
namespace {

// clang-format off
std::vector<Mutant> attention_bwd_wgmma() {
    return of_attention("attention_bwd/wgmma", {
        {.name = "delta_forgotten", .file = "attention_bwd/device/wgmma_parts.cuh",
         .find = "delta_out[to] = row < rows ? sums[step] : 0.0f;", .replace = "delta_out[to] = 0.0f;"},
        {.name = "dq_without_scale",
         .find = "row, rows, dq, scale);", .replace = "row, rows, dq, 1.0f);"},
        {.name = "dk_without_scale",
         .find = "row, keys, dk, scale);", .replace = "row, keys, dk, 1.0f);"},
        {.name = "dv_with_scale",
         .find = "row, keys, d_v, 1.0f);", .replace = "row, keys, d_v, scale);"},
        {.name = "a_head_of_the_group_is_lost",
         .find = "kv_heads * group + head;", .replace = "kv_heads * group + place.head * group;",
         .shape = "1x4x100x64", .options = {{"kv-heads", "2"}}},
        {.name = "rows_without_weight_weigh", .file = "attention_bwd/device/wgmma_parts.cuh",
         .find = "lse_out[to] = log == attention::minus_infinity() ? -log : log;", .replace = "lse_out[to] = log;"},
        {.name = "mask_off_by_one", .file = "attention_bwd/device/wgmma_parts.cuh",
         .find = "column < end[r] ?", .replace = "column <= end[r] ?"},
        {.name = "keys_pass_not_masked",
         .find = "if constexpr (is_masked) cut(s, mask, row, n * k_block_q", .replace = "if constexpr (false) cut(s, mask, row, n * k_block_q"},
        {.name = "diagonal_tile_taken_for_a_whole_one",
         .find = "mask.first_full_tile(row0 + 63, k_block_q)", .replace = "mask.first_full_tile(row0, k_block_q)"},
        {.name = "delta_of_the_row_beside",
         .find = "(i % 2 == 0 ? delta.x : delta.y)", .replace = "delta.x"},
        {.name = "last_key_tile_not_cut",
         .find = "step.first<true>(at, n, ds);", .replace = "step.first<false>(at, n, ds);"},
        {.name = "stage_released_before_dq_has_read_it",
         .find = "        wgmma_wait<0>();\n        release(shared.empty(before.at));",
         .replace = "        release(shared.empty(before.at));\n        wgmma_wait<0>();",
         .config = "q_warpgroups=1 q_block_k=32 q_stages=2", .races = true},
        {.name = "sums_not_waited_for",
         .find = "descriptor_at(step.k_by_rows, at.at * QueryShared::k_bytes));\n        wgmma_commit();\n        wgmma_wait<0>();",
         .replace = "descriptor_at(step.k_by_rows, at.at * QueryShared::k_bytes));\n        wgmma_commit();", .races = true},
        {.name = "scores_for_dv_alone_not_waited_for",
         .find = "wgmma_wait<of_k ? 1 : 0>();", .replace = "wgmma_wait<1>();", .shape = "1x1x150x192", .races = true},
        {.name = "gradients_for_dk_alone_not_waited_for",
         .find = "wgmma_wait<of_v ? 1 : 0>();", .replace = "wgmma_wait<1>();", .shape = "1x1x150x192", .races = true},
    });
}
const Planted kAttentionBwdWgmma(&attention_bwd_wgmma);
// clang-format on

}  // namespace
}  // namespace autotune::test
