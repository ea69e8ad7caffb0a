#include "tests/kernel_templates/planted_mutants.h"

namespace autotune::test {
namespace {

// clang-format off
std::vector<Mutant> attention_bwd_one_pass() {
    return of_attention("attention_bwd/one_pass", {
        {.name = "dq_without_scale",
         .find = "pack_pair<Element>(both[0] * scale, both[1] * scale)", .replace = "pack_pair<Element>(both[0], both[1])"},
        {.name = "dk_without_scale",
         .find = "row, keys, dk, scale);", .replace = "row, keys, dk, 1.0f);"},
        {.name = "a_head_of_the_group_is_lost",
         .find = "const int head = walk.plane - place.batch * heads,", .replace = "const int head = (walk.plane - place.batch * heads) / 2 * 2,",
         .shape = "1x4x100x64", .options = {{"kv-heads", "2"}}},
        {.name = "scores_not_masked",
         .find = "cut(s, mask, row, n * block_q + static_cast<int>(threadIdx.x % 4 * 2));", .replace = "(void)n;"},
        {.name = "keys_behind_the_last_weigh",
         .find = "if (keys_left <= i / 2 % 2 * 8) s[i]", .replace = "if (keys_left <= -1000) s[i]", .options = {{"mask", "none"}}},
        {.name = "the_first_adds_to_what_lies_there",
         .find = "if (turn > 0) {", .replace = "if (turn >= 0) {"},
        {.name = "both_adders_add_the_first_part",
         .find = "shared.dq + at.at * dq_bytes + part * part_bytes;", .replace = "shared.dq + at.at * dq_bytes;"},
        {.name = "both_adders_add_to_the_first_part",
         .find = "dq.of(walk) + part * (bytes / 4);", .replace = "dq.of(walk);"},
        {.name = "sums_end_before_the_last_rows",
         .find = "(rows - tile * block_q + 7) / 8)", .replace = "(rows - tile * block_q) / 8)",
         .config = "groups=2 block_q=80 swap_dq=1 early_dv=0 ds_buffers=1 stages=2", .shape = "1x2x100x128"},
        {.name = "turns_in_the_other_order", .file = "attention_bwd/one_pass/key_order.cuh",
         .find = "descending ? range.end - 1 - keys : keys - range.first", .replace = "keys - range.first",
         .config = "tile_order=1", .races = true},  // blocks that all run at once can wait for each other in any order
        {.name = "sums_of_the_tile_beside",
         .find = "return static_cast<long long>(at.plane) * tiles + at.tile;", .replace = "return static_cast<long long>(at.plane) * tiles;"},
        {.name = "swizzle_of_ds",
         .find = "((chunk % chunks) ^ swizzle) * 16", .replace = "(chunk % chunks) * 16"},
        {.name = "groups_exchange_their_rows_of_ds",
         .find = "const int m0 = group % dq_m_blocks * 64 + warp * 16, n0 = group / dq_m_blocks * dq_columns;",
         .replace = "const int m0 = (1 - group) % dq_m_blocks * 64 + warp * 16, n0 = (1 - group) / dq_m_blocks * dq_columns;"},
        {.name = "groups_do_not_wait_for_each_other",
         .find = "        named_barrier(1, math_threads);\n", .replace = "", .races = true},
        {.name = "ds_overwritten_early",
         .find = "        if constexpr (ds_buffers == 1 && begin == 0) named_barrier(2, math_threads);  // all groups have read the previous dS\n", .replace = "",
         .config = "ds_buffers=1 block_q=64", .races = true},
        {.name = "stage_released_before_dk_has_read_it",
         .find = "            wgmma_wait<0>();\n            release(shared.empty(at.at));", .replace = "            release(shared.empty(at.at));\n            wgmma_wait<0>();",
         .config = "groups=1 block_q=64 early_dv=0", .races = true},
        {.name = "dq_given_before_it_is_there",
         .find = "            wgmma_wait<1>();\n            give_dq(dq, dq_at, to);", .replace = "            give_dq(dq, dq_at, to);\n            wgmma_wait<1>();",
         .config = "groups=1 block_q=64 early_dv=0", .races = true},
        {.name = "delta_forgotten",
         .find = "packed[i / 2] = ptx::pack_pair<Element>(s[i] * (dp[i] - delta.x), s[i + 1] * (dp[i + 1] - delta.y));\n            }", .replace = "packed[i / 2] = ptx::pack_pair<Element>(s[i] * dp[i], s[i + 1] * dp[i + 1]);\n                (void)delta;\n            }",
         .config = "groups=1 block_q=64 early_dv=0"},
        {.name = "dq_overwritten_before_it_is_added",
         .find = "            barrier_wait(shared.dq_empty(at.at), at.parity ^ 1);\n", .replace = "",
         .config = "groups=1 block_q=64", .races = true},
        {.name = "second_half_of_dv_lost",
         .find = "issue_sums<value_tile, half>(d_v, p, tile_do);", .replace = "issue_sums<value_tile, block_q / 16>(d_v, p, tile_do);",
         .config = "groups=1 block_q=64 early_dv=2"},
        {.name = "second_half_of_dk_counted_twice",
         .find = "early_dv == 2 ? block_q / 32 : 0>", .replace = "0>",
         .config = "groups=1 block_q=64 early_dv=2"},
        {.name = "gradients_of_the_first_half_not_waited_for",
         .find = "                weigh<half>(s, of_rows);\n                wgmma_wait<1>();", .replace = "                weigh<half>(s, of_rows);",
         .config = "groups=1 block_q=64 early_dv=2", .races = true},
    });
}
const Planted kAttentionBwdOnePass(&attention_bwd_one_pass);
// clang-format on

}  // namespace
}  // namespace autotune::test
