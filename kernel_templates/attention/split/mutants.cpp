#include "tests/kernel_templates/planted_mutants.h"

namespace autotune::test {
namespace {

// clang-format off
std::vector<Mutant> attention_split() {
    const std::map<std::string, std::string> decode = {{"mask", "none"}, {"kv-heads", "1"}, {"kv-len", "3000"}};
    return of_attention("attention/split", {
        {.name = "last_split_forgotten",
         .find = "join_to_output(StoredParts{of_line}, splits,", .replace = "join_to_output(StoredParts{of_line}, splits - 1,",
         .config = "splits=4", .shape = "1x4x1x64", .options = decode},
        {.name = "a_warp_is_not_joined",
         .find = "join_to_output(parts, warps,", .replace = "join_to_output(parts, warps - 1,",
         .config = "splits=1", .shape = "1x4x1x64", .options = decode},
        {.name = "part_not_brought_to_the_common_peak",
         .find = "add(attention::exp2_approx(facts[i].x - origin),", .replace = "add(1.0F,", .config = "splits=1",
         .shape = "1x4x1x64", .options = decode},
        {.name = "counter_not_reset",
         .find = "counted(counters + place.line, last) == last", .replace = "counted(counters + place.line, last + 1) == last",
         .config = "splits=4 join=0",
         .shape = "1x4x1x64", .options = decode},
        {.name = "warps_not_waited_for",
         .find = "store_part(meeting.parts[warp], state, lane, count);\n    __syncthreads();\n",
         .replace = "store_part(meeting.parts[warp], state, lane, count);\n", .config = "splits=1", .shape = "1x4x1x64", .options = decode,
         .races = true},
        {.name = "cluster_forgets_its_last_block",
         .find = "joined(ReceivedParts{meeting.received + turn * blocks}, blocks,",
         .replace = "joined(ReceivedParts{meeting.received + turn * blocks}, blocks - 1,", .config = "splits=4 join=2",
         .shape = "1x4x1x64", .options = decode},
        {.name = "parts_of_two_reads_keep_their_peaks",
         .find = "        sum *= factor;\n        total = make_float4(total.x * factor, total.y * factor, total.z * factor, total.w * factor);\n",
         .replace = "", .config = "splits=24 warps=8 resident_blocks=1", .shape = "1x4x1x64", .options = decode},
        {.name = "key_pairs_swapped",
         .find = "high ? 0x7632 : 0x5410", .replace = "high ? 0x3276 : 0x1054", .config = "splits=1", .shape = "1x4x1x64", .options = decode},
        {.name = "tail_key_counts_more_than_once",
         .find = "if (tile < begin_full || tile >= end_full) {", .replace = "if (tile < begin_full) {", .config = "splits=1",
         .shape = "1x4x1x64", .options = decode},
        {.name = "row_of_another_head",
         .find = "place.kv_head * group + pair.head", .replace = "place.kv_head * group + pair.head % 2", .config = "splits=1",
         .shape = "1x4x1x64", .options = decode},
    });
}
const Planted kAttentionSplit(&attention_split);

std::vector<Mutant> attention_split_overlap() {
    return of_family("attention/split", "", {
        {.name = "attention_does_not_wait",
         .find = "    " + kWait + "    Words queries", .replace = "    Words queries",
         .config = "pdl=1", .shape = "2x8x4x64", .options = {{"dtype", "bf16"}, {"kv-len", "1024"}, {"scale", "1"}}}});
}
const PlantedInChain kAttentionSplitOverlap(&attention_split_overlap);
// clang-format on

}  // namespace
}  // namespace autotune::test
