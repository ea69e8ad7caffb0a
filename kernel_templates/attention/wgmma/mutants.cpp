#include "tests/kernel_templates/planted_mutants.h"

namespace autotune::test {
namespace {

// clang-format off
std::vector<Mutant> attention_wgmma() {
    const std::string alone = "consumer_warpgroups=1 q_buffers=1 order_groups=0 schedule=0 block_k=32 ";
    const std::string self_loading = alone + "producer=0";
    const std::map<std::string, std::string> grouped = {{"kv-heads", "2"}};
    return of_attention("attention/wgmma", {
        {.name = "outputs_keep_the_old_peak",
         .find = "o[i] *= correction[i / 2 % 2];", .replace = "o[i] *= 1.0f;", .config = alone},
        {.name = "row_sum_keeps_the_old_peak",
         .find = "rows.sum[r] * correction[r];", .replace = "rows.sum[r];", .config = alone},
        {.name = "correction_comes_too_late",
         .find = "* factor <= 8.0f);", .replace = "* factor <= 800.0f);", .config = alone + "rescale=1"},
        {.name = "sees_one_key_too_many",
         .find = "const bool seen = column < end[r]", .replace = "const bool seen = column <= end[r]", .config = alone},
        {.name = "window_begins_one_key_late",
         .find = "column >= first[r]);", .replace = "column > first[r]);", .config = alone,
         .options = {{"mask", "window"}, {"left", "40"}}},
        {.name = "diagonal_tile_not_cut",
         .find = "n >= max(keys.first, whole_end); --n)", .replace = "n >= max(keys.first, whole_end + 1); --n)", .config = alone},
        {.name = "peak_of_half_a_row", .file = "attention/device/hopper_tiles.cuh",
         .find = "return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));", .replace = "return x;", .config = alone},
        {.name = "sum_of_half_a_row", .file = "attention/device/hopper_tiles.cuh",
         .find = "return x + __shfl_xor_sync(0xffffffffu, x, 2);", .replace = "return x;", .config = alone},
        {.name = "logarithm_without_scale",
         .find = "attention::log_sum_exp(rows.max[r], sum, scale)", .replace = "attention::log_sum_exp(rows.max[r], sum, 1.0f)",
         .config = alone, .options = {{"lse", "yes"}}},
        {.name = "keys_of_another_head",
         .find = "kv_head(work.head / p.group)", .replace = "kv_head(work.head % (p.heads / p.group))", .config = alone,
         .shape = "1x4x100x64", .options = grouped},
        {.name = "tile_counter_not_reset",
         .find = "atomicInc(counter, static_cast<u32>(p.all_items) + gridDim.x - 1)", .replace = "atomicAdd(counter, 1u)",
         // There are more tiles than an H200 has SMs.
         .config = "consumer_warpgroups=1 q_buffers=1 order_groups=0 schedule=2 blocks_per_sm=1 block_k=32", .shape = "1x72x100x64", .host_shape = "1x9x100x64"},
        {.name = "keys_between_parts_lost",
         .find = "keys.first + steps * (part + 1) / parts}", .replace = "keys.first + steps * (part + 1) / parts - 1}",
         .config = alone + "split_waves=1", .shape = "1x6x1x64", .options = {{"mask", "none"}, {"kv-len", "750"}}},
        {.name = "keys_released_early",
         .find = "            wgmma_wait<1>();\n            release(shared.k_empty(ring.at));\n",
         .replace = "            release(shared.k_empty(ring.at));\n            wgmma_wait<1>();\n", .config = alone + "stages=2 overlap=1",
         .races = true},
        {.name = "last_values_not_waited_for",
         .find = "        barrier_wait(shared.v_full(ring.at), ring.parity);\n", .replace = "", .config = alone, .races = true},
        {.name = "values_of_another_tile_loaded",
         .find = "loads->load_v(from.at, from.parity ^ 1, n - stages);", .replace = "loads->load_v(from.at, from.parity ^ 1, n - stages + 1);",
         .config = self_loading + " stages=2"},
        {.name = "first_tile_loaded_twice",
         .find = "const int n = work.keys.end - 1 - i;", .replace = "const int n = work.keys.end - 1;",
         .config = self_loading + " stages=2"},
    });
}
const Planted kAttentionWgmma(&attention_wgmma);

std::vector<Mutant> attention_wgmma_overlap() {
    return of_family("attention/wgmma", "", {
        {.name = "attention_does_not_wait",
         .find = "    " + kWait + "    dependent_launch::let_next_grid_start();\n    const Output",
         .replace = "    dependent_launch::let_next_grid_start();\n    const Output",
         .config = "pdl=1", .shape = "1x4x256x64", .options = {{"dtype", "bf16"}, {"scale", "1"}}}});
}
const PlantedInChain kAttentionWgmmaOverlap(&attention_wgmma_overlap);
// clang-format on

}  // namespace
}  // namespace autotune::test
