// Renders families, runs them on the host, and checks them with the tests of their op. For attention: every mask, grouped heads,
// queries and keys of different lengths, tails, rows that see no key, types, alignments. For gemm see also mutants_host_test.cpp,
// which runs the sound templates too.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "tests/support/host_cuda/candidate.h"

namespace autotune::test {
namespace {

using Options = std::map<std::string, std::string>;

struct Request {
    std::string shape;
    Options options = {};
};

// Problems with the same text: they differ only in lengths, heads and strides.
struct HostCase {
    std::string name;
    std::string family;
    std::string config;  // the differences from the default, such as "stages=3"
    Options options;     // of all problems
    std::vector<Request> problems;
    int sm_count = host_cuda::kSmCount;
};

void PrintTo(const HostCase& each, std::ostream* out) {
    *out << each.name;
}

// ---- attention, of head size `d` ----

std::vector<Request> unmasked(const std::string& d) {
    return {{"1x4x70x" + d, {{"kv-len", "45"}, {"kv-heads", "2"}}},
            {"2x2x17x" + d, {{"kv-len", "81"}, {"order", "bshd"}}},
            {"1x1x1x" + d, {{"kv-len", "1"}}}};
}
std::vector<Request> causal(const std::string& d) {
    return {{"1x1x83x" + d, {{"mask", "causal"}}},
            {"1x2x33x" + d, {{"mask", "causal_bottom_right"}, {"kv-len", "66"}, {"kv-heads", "1"}}},
            {"2x1x50x" + d, {{"mask", "causal_bottom_right"}, {"kv-len", "20"}, {"order", "bshd"}}},  // 30 rows see no key
            {"1x1x1x" + d, {{"mask", "causal"}, {"kv-len", "5"}}}};
}
std::vector<Request> window(const std::string& d) {
    return {{"1x1x85x" + d, {{"mask", "window"}, {"left", "20"}, {"right", "7"}}},
            {"1x2x40x" + d, {{"mask", "window_bottom_right"}, {"left", "10"}, {"kv-len", "75"}, {"kv-heads", "1"}}},
            {"1x1x60x" + d, {{"mask", "window_bottom_right"}, {"left", "0"}, {"kv-len", "30"}}},
            {"1x1x40x" + d, {{"mask", "window"}, {"left", "3"}, {"kv-len", "12"}}}};  // the last 25 rows see no key
}

HostCase forward(const std::string& name, const std::string& family, const std::string& dtype, std::vector<Request> problems,
                 const std::string& config = "", Options options = {}) {
    options.emplace("dtype", dtype);
    options.emplace("lse", "yes");
    problems.push_back(problems.back());
    problems.back().options["lse"] = "no";
    return {name + "_" + dtype, "attention/" + family, config, options, std::move(problems)};
}

HostCase backward(const std::string& name, const std::string& family, const std::string& dtype, std::vector<Request> problems,
                  const std::string& config = "", Options options = {}) {
    options.emplace("dtype", dtype);
    return {name + "_" + dtype, "attention_bwd/" + family, config, options, std::move(problems)};
}

// Sequences of different lengths.
std::vector<Request> packed(const std::string& d) {
    return {{"4x4x37x" + d, {{"packed", "yes"}, {"kv-heads", "2"}, {"kv-len", "60"}}},
            {"7x2x3x" + d, {{"packed", "yes"}, {"total-q", "5"}, {"total-kv", "4"}}}};  // some are empty
}
std::vector<Request> packed_causal(const std::string& d) {
    return {{"4x2x50x" + d, {{"packed", "yes"}, {"mask", "causal"}}},
            {"3x2x40x" + d,
             {{"packed", "yes"}, {"mask", "causal_bottom_right"}, {"kv-len", "70"}, {"total-kv", "100"}, {"order", "bhsd"}}},
            {"3x2x40x" + d, {{"packed", "yes"}, {"mask", "causal_bottom_right"}, {"kv-len", "20"}}}};  // rows without a key
}
std::vector<Request> packed_window(const std::string& d) {
    return {{"3x2x40x" + d,
             {{"packed", "yes"}, {"mask", "window"}, {"left", "9"}, {"right", "2"}, {"kv-len", "50"}, {"kv-heads", "1"}}},
            {"3x1x40x" + d, {{"packed", "yes"}, {"mask", "window_bottom_right"}, {"left", "30"}, {"kv-len", "70"}}}};
}

// Few queries, many keys.
std::vector<Request> decoding(const std::string& d, const Options& mask) {
    std::vector<Request> all = {{"1x4x1x" + d, {{"kv-heads", "2"}, {"kv-len", "300"}}},
                                {"2x6x3x" + d, {{"kv-heads", "2"}, {"kv-len", "131"}, {"order", "bshd"}}},
                                {"1x20x2x" + d, {{"kv-heads", "1"}, {"kv-len", "70"}}}};  // three bands of rows
    for (Request& each : all) each.options.insert(mask.begin(), mask.end());
    return all;
}

// clang-format off
std::vector<HostCase> cases() {
    const Options narrow = {{"dv", "24"}};
    const std::string of_one_group = "consumer_warpgroups=1 q_buffers=1 order_groups=0 schedule=0 producer=0 ";
    const std::string of_fp8 = "block_k=128 cluster_m=1 cluster_n=1 cluster_k=1 prefetch_steps=0 prefetch_all=0 raster=0 group=1 ";
    const std::string of_wgmma =
        "block_k=64 cluster_m=1 cluster_n=1 cluster_k=1 tma_swizzle=128 raster=0 group=1 evict_first=0 prefetch_steps=0 prefetch_all=0 advance_descriptors=1 ";
    const int few = 3;  // few SMs, so that each block has many tiles even for a small problem
    const std::string of_one_tile = "block_k=64 cluster_m=1 cluster_n=1 cluster_k=1 ";
    return {
        forward("naive_unmasked", "naive", "f32", unmasked("32")),
        forward("naive_causal", "naive", "bf16", causal("32")),
        forward("naive_window", "naive", "f16", window("40"), "block_q=4 block_k=16 row_threads=32 out_rows=1", narrow),

        forward("simt_window", "simt", "f32", window("64"), "threads=128 part=64 unroll=4 stages=2"),
        forward("simt_causal", "simt", "bf16", causal("64"), "masking=1 order=3 unroll=2"),
        forward("simt_causal_rows8", "simt", "f32", causal("32"), "threads=64 threads_x=16 thread_q=8 thread_k=2 masking=0 order=1"),
        forward("simt_unaligned", "simt", "f32", unmasked("40"), "", {{"dv", "24"}, {"align", "4"}}),
        forward("simt_unaligned", "simt", "f16", unmasked("40"), "", {{"dv", "24"}, {"align", "2"}}),

        forward("mma_unmasked", "mma", "bf16", unmasked("64")),
        forward("mma_causal", "mma", "bf16", causal("64"), "block_q=32 warps=2 block_k=16 stages=3 q_in_registers=1 order=2"),
        forward("mma_window", "mma", "bf16", window("64"), "block_q=16 warps=1 block_k=48 stages=2 smem_swizzle=0 order=1"),
        forward("mma_causal_all_tiles", "mma", "f16", causal("64"), "block_q=64 warps=2 block_k=32 stages=1 masking=0 lazy_rescale=0 order=3"),
        forward("mma_unaligned", "mma", "f16", unmasked("40"), "block_q=16 warps=1 block_k=32", {{"dv", "72"}, {"align", "2"}}),
        forward("mma_window_skipped", "mma", "bf16", window("64"), "block_q=32 warps=2 block_k=32 stages=1 masking=1", {{"dv", "128"}, {"align", "8"}}),

        forward("mma_tf32_unmasked", "mma", "f32", unmasked("64"), "", {{"compute", "tf32"}}),
        forward("mma_tf32_causal", "mma", "f32", causal("40"), "block_q=32 warps=2 block_k=16 stages=2 q_in_registers=1 order=2", {{"compute", "tf32"}, {"dv", "72"}}),
        forward("mma_tf32_window", "mma", "f32", window("64"), "block_q=32 warps=1 block_k=48 stages=1 order=1", {{"compute", "tf32"}, {"dv", "128"}, {"align", "8"}}),
        forward("mma_tf32_unaligned", "mma", "f32", unmasked("24"), "block_q=16 warps=1 block_k=32 masking=0", {{"compute", "tf32"}, {"dv", "24"}, {"align", "4"}}),
        forward("mma_tf32_packed", "mma", "f32", packed_causal("64"), "block_q=64 warps=2 block_k=32 stages=3", {{"compute", "tf32"}}),

        forward("naive_packed", "naive", "f32", packed("32")),
        forward("naive_packed_window", "naive", "bf16", packed_window("32")),
        forward("simt_packed", "simt", "bf16", packed("64")),
        forward("simt_packed_causal", "simt", "f32", packed_causal("64"), "masking=2 order=2"),
        forward("mma_packed", "mma", "bf16", packed("64")),
        forward("mma_packed_causal", "mma", "bf16", packed_causal("64"), "block_q=32 warps=2 block_k=16 stages=2 order=2"),
        forward("mma_packed_window", "mma", "f16", packed_window("64"), "block_q=16 warps=1 block_k=32 stages=1 masking=0 order=0"),

        forward("split_one", "split", "bf16", decoding("64", {}), "warps=2 splits=1"),
        forward("split_last_block", "split", "bf16", decoding("64", {{"mask", "causal_bottom_right"}}), "warps=2 splits=3"),
        forward("split_second_kernel", "split", "f16", decoding("128", {{"mask", "window_bottom_right"}, {"left", "60"}}), "warps=1 key_steps=2 splits=2 join=1", {{"dv", "64"}}),

        backward("two_pass_unmasked", "two_pass", "bf16", unmasked("64")),
        backward("two_pass_causal", "two_pass", "bf16", causal("64"), "q_warps=2 q_tile=32 k_warps=1 k_tile=16 order=2"),
        backward("two_pass_window", "two_pass", "bf16", window("64"), "q_warps=1 q_tile=48 k_warps=2 k_tile=32 stages=3 smem_swizzle=0"),
        backward("two_pass_causal", "two_pass", "f16", causal("64"), "q_warps=4 q_tile=16 k_warps=4 k_tile=48 order=0", {{"dv", "128"}}),
        backward("two_pass_unaligned", "two_pass", "f16", unmasked("40"), "q_warps=1 k_warps=1", {{"dv", "24"}, {"align", "2"}}),

        backward("simt_unmasked", "simt", "f32", unmasked("64")),
        backward("simt_causal", "simt", "f32", causal("32")),
        backward("simt_window", "simt", "f32", window("32"), "order=0"),
        backward("simt_one_pass", "simt", "f32", unmasked("64"), "passes=1", {{"deterministic", "any"}}),
        backward("simt_one_pass_causal", "simt", "f32", causal("72"), "threads=128 threads_x=8 thread_own=4 thread_other=8 passes=1",
                 {{"deterministic", "any"}}),
        backward("simt_causal", "simt", "bf16", causal("64")),
        backward("simt_unaligned", "simt", "f16", unmasked("40"), "", {{"dv", "24"}, {"align", "2"}}),

        forward("wgmma_unmasked", "wgmma", "bf16", unmasked("64")),
        forward("wgmma_causal", "wgmma", "bf16", causal("128")),
        forward("wgmma_window", "wgmma", "f16", window("64")),
        forward("wgmma_self_loading_unmasked", "wgmma", "bf16", unmasked("64"), of_one_group + "block_k=32"),
        forward("wgmma_self_loading_causal", "wgmma", "bf16", causal("128"), of_one_group + "block_k=32 stages=3 overlap=0"),
        forward("wgmma_self_loading_window", "wgmma", "f16", window("64"), of_one_group + "block_k=48 blocks_per_sm=3 rescale=1"),
        forward("wgmma_self_loading_divided", "wgmma", "bf16", {{"1x6x1x64", {{"kv-len", "70"}}}}, of_one_group + "block_k=32 split_waves=1"),
        forward("wgmma_self_loading_packed", "wgmma", "bf16", packed_causal("64"), of_one_group + "block_k=32"),
        forward("wgmma_packed", "wgmma", "bf16", packed("64")),
        forward("wgmma_packed_causal", "wgmma", "bf16", packed_causal("64"), "consumer_warpgroups=1 block_k=32 order_groups=0"),
        forward("wgmma_packed_window", "wgmma", "f16", packed_window("64"), "consumer_warpgroups=1 block_k=48 order_groups=0 overlap=0", {{"dv", "128"}}),

        backward("wgmma_unmasked", "wgmma", "bf16", unmasked("64")),
        backward("wgmma_causal", "wgmma", "bf16", causal("64"), "q_warpgroups=1 q_block_k=48 q_stages=2 k_warpgroups=1 k_block_q=80 k_stages=3"),
        backward("wgmma_window", "wgmma", "f16", window("64"), "q_warpgroups=1 q_block_k=32 k_warpgroups=1 k_block_q=32", {{"dv", "128"}}),
        backward("wgmma_narrow", "wgmma", "bf16", causal("40"), "", {{"dv", "24"}}),
        backward("wgmma_wide", "wgmma", "bf16", causal("256"), "q_warpgroups=1 q_block_k=32 q_stages=2 k_warpgroups=1 k_block_q=32 k_stages=2"),
        backward("wgmma_wide_window", "wgmma", "f16", window("200"), "q_warpgroups=1 q_block_k=48 k_warpgroups=1 k_block_q=48 k_stages=3"),

        backward("one_pass_unmasked", "one_pass", "bf16", unmasked("64")),
        backward("one_pass_causal", "one_pass", "bf16", causal("64"), "groups=1 block_q=64 ds_buffers=1 stages=3"),
        backward("one_pass_causal_two_groups", "one_pass", "bf16", causal("64"), "groups=2 ds_buffers=2"),
        backward("one_pass_causal_from_above", "one_pass", "bf16", causal("128"), "groups=2 block_q=64 tile_order=0 walk=1 dq_buffers=2 ds_buffers=1"),
        backward("one_pass_window", "one_pass", "f16", window("64"), "groups=1 block_q=64 early_dv=1", {{"dv", "128"}}),
        backward("one_pass_wide_unmasked", "one_pass", "bf16", unmasked("128")),
        backward("one_pass_swapped", "one_pass", "bf16", causal("64"), "groups=1 block_q=80 swap_dq=1"),
        backward("one_pass_swapped_two_groups", "one_pass", "bf16", causal("128"), "groups=2 block_q=48 swap_dq=1"),
        backward("one_pass_from_registers", "one_pass", "bf16", causal("64"), "groups=1 block_q=64 dq_path=0", {{"deterministic", "any"}}),
        backward("one_pass_causal_128", "one_pass", "bf16", causal("64"), "groups=2 block_q=128 early_dv=0 ds_buffers=2 dq_buffers=2 stages=2"),
        backward("one_pass_window_one_group", "one_pass", "f16", window("64"), "groups=1 block_q=64 early_dv=0 ds_buffers=1 dq_buffers=2", {{"dv", "128"}}),
        backward("one_pass_swapped_80", "one_pass", "bf16", causal("128"), "groups=2 block_q=80 swap_dq=1 early_dv=0 ds_buffers=1 stages=2"),
        backward("one_pass_swapped_80_last_rows", "one_pass", "bf16", {{"2x4x100x128", {{"kv-heads", "2"}, {"kv-len", "130"}}}, {"1x2x161x128", {}}}, "groups=2 block_q=80 swap_dq=1 early_dv=0 ds_buffers=2 stages=2"),
        backward("one_pass_swapped_80_any_order", "one_pass", "f16", {{"1x3x100x128", {{"mask", "causal"}}}, {"2x2x239x128", {{"mask", "causal"}, {"order", "bshd"}}}}, "groups=2 block_q=80 swap_dq=1 early_dv=0 ds_buffers=2 stages=2 dq_path=1", {{"deterministic", "any"}}),
        backward("one_pass_wide_any_order", "one_pass", "bf16", unmasked("128"), "groups=2 block_q=64 early_dv=1 dq_path=1 swap_dq=0", {{"deterministic", "any"}}),
        backward("one_pass_wide_from_registers", "one_pass", "bf16", causal("128"), "groups=2 block_q=80 swap_dq=1 early_dv=0 dq_path=0 ds_buffers=2", {{"deterministic", "any"}}),
        backward("one_pass_halves", "one_pass", "bf16", causal("64"), "groups=2 block_q=128 early_dv=2 ds_buffers=1"),
        backward("one_pass_wide_halves", "one_pass", "f16", causal("128"), "groups=2 block_q=64 early_dv=2 swap_dq=1"),
        backward("one_pass_halves_any_order", "one_pass", "bf16", window("64"), "groups=1 block_q=32 swap_dq=1 dq_path=1 early_dv=2", {{"deterministic", "any"}}),
        backward("one_pass_in_any_order", "one_pass", "bf16", window("64"), "groups=1 block_q=32 swap_dq=1 dq_path=1", {{"deterministic", "any"}}),

        {"any_size", "gemm/wgmma", "cluster_m=1 cluster_n=1 cluster_k=1", {{"dtype", "bf16"}}, {{"200x136x264"}}},
        {"any_size", "gemm/wgmma_nonpersistent", "", {{"dtype", "f16"}}, {{"200x136x264"}}},
        {"any_size", "gemm/wgmma_tf32", "", {{"dtype", "f32"}, {"compute", "tf32"}, {"layout", "nt"}}, {{"200x136x264"}}},
        {"any_size", "gemm/wgmma_fp8", "block_m=64 block_n=64 block_k=128 tma_swizzle=128 consumer_warpgroups=1 pingpong=0 cluster_m=1 cluster_n=1 cluster_k=1 swap_ab=0 tma_store=1 epilogue_stages=2 reduce_kernel=0 stages=12 split_k=1 raster=0 group=1 prefetch_steps=0 prefetch_all=0", {{"dtype", "e4m3"}, {"layout", "nt"}}, {{"200x136x272"}}},
        {"any_size", "gemm/wgmma_fp8_plain", "", {{"dtype", "e4m3"}, {"layout", "nt"}}, {{"200x136x272"}}},
        {"long", "softmax/bulk", "", {{"dtype", "bf16"}}, {{"3x4096"}}},
        {"copied_to_registers", "softmax/bulk", "threads=128 threads_per_row=128 register_chunks=4 copy_to_registers=1 stages=1 waves=0", {{"dtype", "bf16"}, {"lse", "yes"}}, {{"5x4096"}, {"3x2056"}}},
        {"copied_tiles", "softmax/bulk", "threads=128 threads_per_row=32 register_chunks=2 copy_to_registers=1 stages=1 waves=0 load_hint=1 store_hint=1", {{"dtype", "f32"}, {"scale", "-3"}}, {{"11x256"}}},
        {"copied_again", "softmax/bulk", "threads=1024 threads_per_row=1024 register_chunks=1 copy_to_registers=1 stages=1 waves=1", {{"dtype", "bf16"}, {"lse", "yes"}}, {{"14x4104"}}},
        {"packed", "add/bulk", "", {{"dtype", "f16"}}, {{"50000"}}},
        {"whole_and_ragged_tiles", "gemm/simt_f32", "block_m=64 block_n=64 thread_m=8 thread_n=4 lanes_m=4 block_k=8 smem_pad=4 stages=4 cp_async=1 reg_transpose=0 reg_buffers=2 split_k=1", {{"dtype", "f32"}, {"compute", "f32"}, {"layout", "nn"}}, {{"130x200x76"}, {"2*64x72x24"}}},
        {"transposed", "gemm/simt_f32", "block_m=64 block_n=128 thread_m=8 thread_n=8 lanes_m=4 block_k=8 smem_pad=4 stages=2 cp_async=0 reg_transpose=1 reg_buffers=2 split_k=1", {{"dtype", "f32"}, {"compute", "f32"}, {"layout", "nt"}}, {{"130x200x76"}, {"2*64x128x24"}, {"64x128x4"}}},
        {"transposed_parts", "gemm/simt_f32", "block_m=64 block_n=64 thread_m=8 thread_n=4 lanes_m=4 block_k=8 smem_pad=4 stages=2 cp_async=0 reg_transpose=1 reg_buffers=2 split_k=2", {{"dtype", "f32"}, {"compute", "f32"}, {"layout", "nt"}, {"beta", "0.5"}}, {{"130x200x76"}, {"64x64x400"}}},
        {"tiles_by_registers", "gemm/simt_f32", "block_m=64 block_n=64 thread_m=8 thread_n=4 lanes_m=0 bcf=1 block_k=16 smem_pad=0 stages=2 cp_async=0 reg_transpose=0 reg_buffers=1 split_k=1", {{"dtype", "f32"}, {"compute", "f32"}, {"layout", "nt"}, {"beta", "0.5"}}, {{"130x200x77"}}},
        {"short_sums_of_tf32x3", "gemm/simt_f32", "", {{"dtype", "f32"}, {"compute", "tf32x3"}, {"layout", "tt"}}, {{"65x72x90"}}},
        {"nn", "gemm/wgmma_tf32x3", "", {{"dtype", "f32"}, {"compute", "tf32x3"}, {"layout", "nn"}}, {{"200x136x264"}, {"3*68x132x296"}, {"64x500x276"}}},
        {"tt", "gemm/wgmma_tf32x3", "block_n=96 stages=4", {{"dtype", "f32"}, {"compute", "tf32x3"}, {"layout", "tt"}, {"beta", "0.5"}}, {{"260x100x324"}}},
        {"nt", "gemm/wgmma_tf32x3", "block_n=64 parts_n=2 stages=6", {{"dtype", "f32"}, {"compute", "tf32x3"}, {"layout", "nt"}}, {{"200x136x356"}, {"129x196x292"}}},
        {"tn", "gemm/wgmma_tf32x3", "swap_ab=1", {{"dtype", "f32"}, {"compute", "tf32x3"}, {"layout", "tn"}}, {{"132x200x328"}}},
        {"unaligned", "gemm/wgmma_tf32x3", "", {{"dtype", "f32"}, {"compute", "tf32x3"}, {"layout", "nn"}, {"align", "4"}}, {{"131x133x333"}}},
        {"halves_of_x_nn", "gemm/wgmma_tf32", "block_m=256 block_n=128 consumer_warpgroups=2 pingpong=0 epilogue_stages=1 x_sets=2 stages=4", {{"dtype", "f32"}, {"compute", "tf32"}, {"layout", "nn"}}, {{"200x264x296"}}},
        {"halves_of_x_tt", "gemm/wgmma_tf32", "block_m=128 block_n=64 consumer_warpgroups=1 pingpong=0 x_sets=2", {{"dtype", "f32"}, {"compute", "tf32"}, {"layout", "tt"}}, {{"200x200x40"}}},
        {"device_maps", "gemm/wgmma_fp8", "block_m=128 block_n=128 consumer_warpgroups=2 pingpong=0 cluster_m=1 cluster_n=1 cluster_k=1 swap_ab=0 tma_store=1 epilogue_stages=2 reduce_kernel=0 stages=6 split_k=1 raster=0 group=1 prefetch_steps=0 prefetch_all=0 device_maps=1", {{"dtype", "e4m3"}, {"acc", "f32fast"}, {"c", "f16"}}, {{"200x264x272"}, {"2*136x264x144"}}},
        {"device_maps", "gemm/wgmma_fp8_plain", "loads=1 block_m=128 block_n=128 block_k=128 consumer_warpgroups=2 stages=4 persistent=1 raster=0 group=1 device_maps=1", {{"dtype", "e4m3"}}, {{"200x264x272"}}},
        {"promoted_bands", "gemm/wgmma_fp8", "block_m=256 block_n=128 consumer_warpgroups=2 pingpong=0 swap_ab=0 stages=3 cluster_m=1 cluster_n=1 cluster_k=1 tma_store=1 epilogue_stages=2 reduce_kernel=0 split_k=1 raster=0 group=1 prefetch_steps=0 prefetch_all=0 stagger=1", {{"dtype", "e4m3"}, {"scale", "block"}}, {{"264x136x528"}, {"264x136x512"}}, few},
        {"promoted_two_blocks", "gemm/wgmma_fp8", "block_m=128 block_n=192 consumer_warpgroups=2 pingpong=0 swap_ab=0 stages=4 cluster_m=1 cluster_n=1 cluster_k=1 tma_store=1 epilogue_stages=2 reduce_kernel=0 split_k=1 raster=0 group=1 prefetch_steps=0 prefetch_all=0", {{"dtype", "e4m3"}, {"scale", "block"}}, {{"136x408x528"}, {"136x408x512"}}, few},
        {"promoted_in_turns", "gemm/wgmma_fp8", "block_m=128 block_n=128 consumer_warpgroups=2 pingpong=0 swap_ab=0 stages=5 product_sets=2 cluster_m=1 cluster_n=1 cluster_k=1 tma_store=1 epilogue_stages=2 reduce_kernel=0 split_k=1 raster=0 group=1 prefetch_steps=0 prefetch_all=0", {{"dtype", "e4m3"}, {"scale", "block"}}, {{"136x136x400"}, {"136x136x1024"}}, few},
        {"promoted_pingpong", "gemm/wgmma_fp8", "block_m=128 block_n=128 consumer_warpgroups=2 pingpong=1 swap_ab=0 stages=4 product_sets=1 cluster_m=1 cluster_n=1 cluster_k=1 tma_store=1 epilogue_stages=2 reduce_kernel=0 split_k=1 raster=0 group=1 prefetch_steps=0 prefetch_all=0", {{"dtype", "e4m3"}, {"scale", "row"}}, {{"264x136x528"}}, few},
        {"promoted_exchanged", "gemm/wgmma_fp8", "block_m=128 block_n=64 consumer_warpgroups=2 pingpong=0 swap_ab=1 stages=7 product_sets=1 cluster_m=1 cluster_n=1 cluster_k=1 tma_store=1 epilogue_stages=2 reduce_kernel=0 split_k=1 raster=0 group=1 prefetch_steps=0 prefetch_all=0", {{"dtype", "e4m3"}, {"scale", "block"}}, {{"72x264x528"}, {"72x264x512"}}, few},
        {"cooperative", "gemm/wgmma_fp8", "block_m=128 block_n=64 block_k=128 tma_swizzle=128 raster=0 group=8 split_k=1 consumer_warpgroups=2 pingpong=0 cluster_m=1 cluster_n=1 cluster_k=1 swap_ab=0 tma_store=1 epilogue_stages=2 reduce_kernel=0 stages=7 prefetch_steps=0 prefetch_all=0", {{"dtype", "e4m3"}, {"acc", "f32fast"}}, {{"1032x328x48"}}, few},
        {"parts_of_k", "gemm/wgmma_fp8", "block_m=128 block_n=64 split_k=2 product_sets=1 stagger=0 consumer_warpgroups=2 pingpong=0 cluster_m=1 cluster_n=1 cluster_k=1 swap_ab=0 tma_store=1 epilogue_stages=2 reduce_kernel=0 stages=7 prefetch_steps=0 prefetch_all=0", {{"dtype", "e4m3"}, {"scale", "row"}}, {{"136x72x2048"}}},
        {"late", "gemm/wgmma_fp8", of_fp8 + "tma_swizzle=128 block_m=128 block_n=64 consumer_warpgroups=2 pingpong=0 swap_ab=0 tma_store=1 epilogue_stages=2 reduce_kernel=0 stages=7 split_k=1 overlap_epilogue=1", {{"dtype", "e4m3"}, {"acc", "f32fast"}, {"scale", "row"}, {"alpha", "0.75"}}, {{"776x472x48"}, {"648x456x400"}}, few},
        {"late_by_one_buffer", "gemm/wgmma_fp8", of_fp8 + "tma_swizzle=128 block_m=256 block_n=128 consumer_warpgroups=2 pingpong=0 swap_ab=0 tma_store=1 epilogue_stages=1 reduce_kernel=0 stages=4 split_k=1 overlap_epilogue=1", {{"dtype", "e4m3"}, {"acc", "f32fast"}, {"c", "f16"}}, {{"2*776x536x272"}}, few},
        {"late_exchanged", "gemm/wgmma_fp8", of_fp8 + "tma_swizzle=128 block_m=128 block_n=64 consumer_warpgroups=2 pingpong=0 swap_ab=1 tma_store=1 epilogue_stages=2 reduce_kernel=0 stages=7 split_k=1 overlap_epilogue=1", {{"dtype", "e4m3"}, {"acc", "f32fast"}, {"scale", "tensor"}, {"bias", "bf16"}, {"amax", "yes"}}, {{"456x648x144"}}, few},
        {"late_in_no_round", "gemm/wgmma_fp8", of_fp8 + "tma_swizzle=128 block_m=128 block_n=64 consumer_warpgroups=2 pingpong=0 swap_ab=0 tma_store=1 epilogue_stages=2 reduce_kernel=0 stages=7 split_k=1 overlap_epilogue=1", {{"dtype", "e4m3"}, {"acc", "f32fast"}, {"c", "f32"}}, {{"648x456x144"}}, few},
        {"whole_pingpong", "gemm/wgmma_fp8", of_fp8 + "block_m=64 block_n=176 tma_swizzle=128 consumer_warpgroups=2 pingpong=1 swap_ab=0 tma_store=1 epilogue_stages=2 reduce_kernel=0 stages=7 split_k=1 overlap_epilogue=1", {{"dtype", "e4m3"}, {"acc", "f32fast"}, {"c", "e4m3"}, {"scale", "row"}, {"bias", "bf16"}, {"scale_d", "tensor"}, {"amax", "yes"}}, {{"392x1056x48"}}, few},
        {"pingpong", "gemm/wgmma_fp8", "block_m=64 block_n=64 consumer_warpgroups=2 pingpong=1 tma_store=1 epilogue_stages=2 stages=12 split_k=1 cluster_m=1 cluster_n=1 cluster_k=1 swap_ab=0 reduce_kernel=0 prefetch_steps=0 prefetch_all=0 raster=1 group=4", {{"dtype", "e4m3"}, {"acc", "f32fast"}, {"scale", "row"}}, {{"392x328x48"}}, few},
        {"pingpong_narrow_spans", "gemm/wgmma_fp8", "block_m=64 block_n=176 block_k=128 tma_swizzle=128 consumer_warpgroups=2 pingpong=1 tma_store=1 epilogue_stages=2 stages=7 split_k=1 cluster_m=1 cluster_n=1 cluster_k=1 swap_ab=0 reduce_kernel=0 prefetch_steps=0 prefetch_all=0 raster=0 group=8", {{"dtype", "e4m3"}, {"acc", "f32fast"}, {"c", "f16"}}, {{"456x880x48"}}, few},

        {"epilogue_staged", "gemm/wgmma_fp8", of_fp8 + "block_m=128 block_n=128 consumer_warpgroups=2 pingpong=0 swap_ab=0 tma_store=1 epilogue_stages=2 reduce_kernel=0 stages=5 split_k=1", {{"dtype", "e4m3"}, {"acc", "f32fast"}, {"c", "e4m3"}, {"scale", "tensor"}, {"bias", "bf16"}, {"scale_d", "tensor"}, {"amax", "yes"}}, {{"200x272x272"}, {"2*136x144x144"}}},
        {"epilogue_spans_of_32", "gemm/wgmma_fp8", of_fp8 + "block_m=128 block_n=96 consumer_warpgroups=2 pingpong=0 swap_ab=0 tma_store=1 epilogue_stages=2 reduce_kernel=0 stages=6 split_k=1", {{"dtype", "e4m3"}, {"c", "e5m2"}, {"scale", "block"}, {"bias", "bf16"}, {"scale_d", "tensor"}, {"amax", "yes"}}, {{"200x208x272"}}},
        {"epilogue_pingpong_spans_of_16", "gemm/wgmma_fp8", of_fp8 + "block_m=64 block_n=176 tma_swizzle=128 consumer_warpgroups=2 pingpong=1 swap_ab=0 tma_store=1 epilogue_stages=2 reduce_kernel=0 stages=7 split_k=1", {{"dtype", "e4m3"}, {"acc", "f32fast"}, {"c", "e4m3"}, {"scale", "row"}, {"bias", "bf16"}, {"scale_d", "tensor"}, {"amax", "yes"}}, {{"392x1056x48"}}, few},
        {"epilogue_of_two_bands", "gemm/wgmma_fp8", of_fp8 + "block_m=256 block_n=128 consumer_warpgroups=2 pingpong=0 swap_ab=0 tma_store=1 epilogue_stages=2 reduce_kernel=0 stages=3 split_k=1 product_sets=1", {{"dtype", "e4m3"}, {"scale", "row"}, {"bias", "bf16"}, {"amax", "yes"}}, {{"520x264x272"}}},
        {"epilogue_exchanged", "gemm/wgmma_fp8", of_fp8 + "block_m=128 block_n=64 consumer_warpgroups=2 pingpong=0 swap_ab=1 tma_store=0 epilogue_stages=2 reduce_kernel=0 stages=8 split_k=1", {{"dtype", "e4m3"}, {"acc", "f32fast"}, {"c", "e4m3"}, {"scale", "row"}, {"bias", "bf16"}, {"scale_d", "tensor"}, {"amax", "yes"}}, {{"24x200x272"}, {"7x136x144"}}},
        {"epilogue_exchanged_staged", "gemm/wgmma_fp8", of_fp8 + "block_m=128 block_n=64 consumer_warpgroups=2 pingpong=0 swap_ab=1 tma_store=1 epilogue_stages=2 reduce_kernel=0 stages=7 split_k=1", {{"dtype", "e4m3"}, {"acc", "f32fast"}, {"bias", "f32"}, {"amax", "yes"}}, {{"72x264x144"}}},
        {"epilogue_of_last_part", "gemm/wgmma_fp8", of_fp8 + "block_m=128 block_n=64 consumer_warpgroups=2 pingpong=0 swap_ab=0 tma_store=1 epilogue_stages=2 reduce_kernel=0 stages=8 split_k=2 product_sets=1 stagger=0", {{"dtype", "e4m3"}, {"c", "e4m3"}, {"scale", "row"}, {"bias", "bf16"}, {"scale_d", "tensor"}, {"amax", "yes"}}, {{"136x80x2048"}}},
        {"epilogue_second_kernel", "gemm/wgmma_fp8", of_fp8 + "block_m=128 block_n=64 consumer_warpgroups=2 pingpong=0 swap_ab=0 tma_store=0 epilogue_stages=2 reduce_kernel=1 stages=8 split_k=2 product_sets=1 stagger=0", {{"dtype", "e4m3"}, {"c", "e4m3"}, {"scale", "tensor"}, {"bias", "bf16"}, {"scale_d", "tensor"}, {"amax", "yes"}}, {{"136x80x2048"}}},
        {"epilogue_direct", "gemm/wgmma_fp8", of_fp8 + "block_m=128 block_n=64 consumer_warpgroups=2 pingpong=0 swap_ab=0 tma_store=0 epilogue_stages=2 reduce_kernel=0 stages=8 split_k=1", {{"dtype", "e4m3"}, {"c", "f32"}, {"beta", "0.5"}, {"bias", "f16"}, {"amax", "yes"}}, {{"131x137x144"}}},
        {"epilogue_direct_fp8", "gemm/wgmma_fp8", of_fp8 + "block_m=128 block_n=64 consumer_warpgroups=2 pingpong=0 swap_ab=0 tma_store=0 epilogue_stages=2 reduce_kernel=0 stages=8 split_k=1", {{"dtype", "e4m3"}, {"c", "e5m2"}, {"beta", "any"}, {"bias", "bf16"}, {"scale_d", "tensor"}, {"amax", "yes"}}, {{"131x137x144"}}},
        {"epilogue_direct_pairs", "gemm/wgmma_fp8", of_fp8 + "block_m=128 block_n=64 consumer_warpgroups=2 pingpong=0 swap_ab=0 tma_store=0 epilogue_stages=2 reduce_kernel=0 stages=8 split_k=1", {{"dtype", "e4m3"}, {"c", "e5m2"}, {"beta", "any"}, {"bias", "bf16"}, {"scale_d", "tensor"}, {"amax", "yes"}}, {{"131x138x144"}}},
        {"fp8_alone", "gemm/wgmma_fp8", "block_m=64 block_n=64 block_k=128 tma_swizzle=128 consumer_warpgroups=1 pingpong=0 cluster_m=1 cluster_n=1 cluster_k=1 swap_ab=0 tma_store=1 epilogue_stages=2 reduce_kernel=0 stages=12 split_k=1 raster=0 group=1 prefetch_steps=0 prefetch_all=0", {{"dtype", "e4m3"}, {"c", "e4m3"}}, {{"200x144x272"}}},
        {"epilogue", "gemm/wgmma_fp8_plain", "loads=1 block_m=128 block_n=64 consumer_warpgroups=1 persistent=1", {{"dtype", "e4m3"}, {"c", "e4m3"}, {"scale", "row"}, {"bias", "bf16"}, {"scale_d", "tensor"}, {"amax", "yes"}}, {{"200x272x272"}, {"131x144x144"}}},
        {"epilogue_cp_async", "gemm/wgmma_fp8_plain", "loads=0 block_m=128 block_n=96 consumer_warpgroups=2", {{"dtype", "e4m3"}, {"scale", "block"}, {"bias", "bf16"}}, {{"200x264x272"}}},

        {"turned", "gemm/wgmma", of_wgmma + "block_m=128 block_n=112 consumer_warpgroups=2 pingpong=0 swap_ab=0 tma_store=1 epilogue_stages=2 reduce_kernel=0 stages=6 split_k=1 serpentine_k=1", {{"dtype", "bf16"}}, {{"520x264x200"}}},
        {"turned_pingpong", "gemm/wgmma", of_wgmma + "block_m=128 block_n=128 consumer_warpgroups=2 pingpong=1 swap_ab=1 tma_store=1 epilogue_stages=2 reduce_kernel=0 stages=5 split_k=1 serpentine_k=1", {{"dtype", "f16"}, {"layout", "nt"}}, {{"392x520x136"}}},
        {"turned_overlapped", "gemm/wgmma", of_wgmma + "block_m=128 block_n=112 consumer_warpgroups=2 pingpong=0 swap_ab=0 tma_store=1 epilogue_stages=2 reduce_kernel=0 stages=6 split_k=1 overlap_epilogue=1 serpentine_k=1", {{"dtype", "bf16"}, {"layout", "tn"}}, {{"2*264x392x520"}}},
        {"late", "gemm/wgmma", of_wgmma + "block_m=64 block_n=48 consumer_warpgroups=1 pingpong=0 swap_ab=0 tma_store=1 epilogue_stages=2 reduce_kernel=0 stages=12 split_k=1 overlap_epilogue=1", {{"dtype", "bf16"}, {"alpha", "0.75"}}, {{"328x136x200"}, {"840x48x136"}}},
        {"late_in_one_round", "gemm/wgmma", of_wgmma + "block_m=128 block_n=48 consumer_warpgroups=2 pingpong=0 swap_ab=1 tma_store=1 epilogue_stages=3 reduce_kernel=0 stages=9 split_k=1 overlap_epilogue=1", {{"dtype", "f16"}, {"layout", "nt"}}, {{"136x520x72"}}},
        {"late_of_two_bands", "gemm/wgmma", of_wgmma + "block_m=256 block_n=32 consumer_warpgroups=2 pingpong=0 swap_ab=0 tma_store=1 epilogue_stages=2 reduce_kernel=0 stages=5 split_k=1 overlap_epilogue=1", {{"dtype", "f16"}, {"acc", "f16"}, {"layout", "tn"}}, {{"2*520x104x40"}}},
        {"late_by_one_buffer", "gemm/wgmma", of_wgmma + "block_m=256 block_n=128 consumer_warpgroups=2 pingpong=0 swap_ab=0 tma_store=1 epilogue_stages=1 reduce_kernel=0 stages=4 split_k=1 overlap_epilogue=1", {{"dtype", "bf16"}, {"layout", "nt"}}, {{"776x392x72"}}},
        {"late_with_c", "gemm/wgmma", of_wgmma + "block_m=64 block_n=48 consumer_warpgroups=1 pingpong=0 swap_ab=0 tma_store=1 epilogue_stages=2 reduce_kernel=0 stages=12 split_k=1 overlap_epilogue=1", {{"dtype", "bf16"}, {"alpha", "0.75"}, {"beta", "-1.25"}}, {{"328x136x712"}, {"840x48x776"}}},
        {"late_of_two_bands_with_c", "gemm/wgmma", of_wgmma + "block_m=256 block_n=32 consumer_warpgroups=2 pingpong=0 swap_ab=0 tma_store=1 epilogue_stages=2 reduce_kernel=0 stages=5 split_k=1 overlap_epilogue=1", {{"dtype", "f16"}, {"acc", "f16"}, {"layout", "tn"}, {"beta", "0.5"}}, {{"2*520x104x584"}}},
        {"whole_pingpong", "gemm/wgmma", of_wgmma + "block_m=64 block_n=48 consumer_warpgroups=2 pingpong=1 swap_ab=0 tma_store=1 epilogue_stages=2 reduce_kernel=0 stages=12 split_k=1 overlap_epilogue=1", {{"dtype", "bf16"}, {"alpha", "0.75"}, {"layout", "tt"}}, {{"392x232x136"}}},
        {"c_late_spans", "gemm/wgmma", of_wgmma + "block_m=64 block_n=256 consumer_warpgroups=1 pingpong=0 swap_ab=0 tma_store=1 epilogue_stages=2 reduce_kernel=0 stages=5 split_k=1", {{"dtype", "f16"}, {"beta", "0.5"}}, {{"200x520x200"}}},
        {"c_pingpong_swapped", "gemm/wgmma", of_wgmma + "block_m=64 block_n=96 consumer_warpgroups=2 pingpong=1 swap_ab=1 tma_store=1 epilogue_stages=2 reduce_kernel=0 stages=10 split_k=1", {{"dtype", "bf16"}, {"beta", "-1.25"}, {"alpha", "0.75"}, {"layout", "nt"}}, {{"440x488x72"}}},
        {"c_cooperative", "gemm/wgmma", of_wgmma + "block_m=128 block_n=48 consumer_warpgroups=2 pingpong=0 swap_ab=0 tma_store=1 epilogue_stages=3 reduce_kernel=0 stages=9 split_k=1", {{"dtype", "bf16"}, {"beta", "-1.25"}, {"alpha", "0.75"}, {"layout", "tn"}}, {{"264x136x200", {{"batch", "2"}}}}},
        {"c_of_two_bands", "gemm/wgmma", of_wgmma + "block_m=128 block_n=128 consumer_warpgroups=1 pingpong=0 swap_ab=1 tma_store=1 epilogue_stages=2 reduce_kernel=0 stages=6 split_k=1", {{"dtype", "f16"}, {"beta", "0.5"}, {"layout", "tt"}}, {{"264x136x200"}}},
        {"c_of_last_part", "gemm/wgmma", of_wgmma + "block_m=64 block_n=64 consumer_warpgroups=1 pingpong=0 swap_ab=0 tma_store=1 epilogue_stages=2 reduce_kernel=0 stages=12 split_k=2", {{"dtype", "f16"}, {"beta", "0.5"}, {"acc", "f16"}}, {{"136x136x520"}}},
        {"c_of_streamed_tiles", "gemm/wgmma", of_wgmma + "block_m=64 block_n=32 consumer_warpgroups=1 pingpong=0 swap_ab=0 tma_store=1 epilogue_stages=2 reduce_kernel=0 stages=12 split_k=0", {{"dtype", "bf16"}, {"beta", "-1.25"}, {"alpha", "0.75"}}, {{"136x200x200"}}},
        {"c_second_kernel", "gemm/wgmma", of_wgmma + "block_m=64 block_n=64 consumer_warpgroups=1 pingpong=0 swap_ab=0 tma_store=0 epilogue_stages=2 reduce_kernel=1 stages=12 split_k=2", {{"dtype", "f16"}, {"beta", "0.5"}}, {{"131x137x520", {{"align", "2"}}}}},
        {"c_second_kernel_swapped", "gemm/wgmma", of_wgmma + "block_m=128 block_n=64 consumer_warpgroups=2 pingpong=0 swap_ab=1 tma_store=0 epilogue_stages=2 reduce_kernel=1 stages=9 split_k=2", {{"dtype", "f16"}, {"beta", "0.5"}, {"layout", "nt"}}, {{"131x136x520"}}},
        {"c_direct", "gemm/wgmma", of_wgmma + "block_m=128 block_n=256 consumer_warpgroups=2 pingpong=0 swap_ab=0 tma_store=0 epilogue_stages=2 reduce_kernel=0 stages=4 split_k=1", {{"dtype", "bf16"}, {"beta", "-1.25"}, {"alpha", "0.75"}}, {{"131x517x69", {{"align", "2"}}}}},
        {"c_direct_two_bands", "gemm/wgmma", of_wgmma + "block_m=256 block_n=96 consumer_warpgroups=2 pingpong=0 swap_ab=1 tma_store=0 epilogue_stages=2 reduce_kernel=0 stages=5 split_k=1", {{"dtype", "bf16"}, {"beta", "-1.25"}, {"alpha", "0.75"}}, {{"197x517x69", {{"align", "2"}}}}},
        {"c_direct_padded", "gemm/wgmma", of_wgmma + "block_m=64 block_n=96 consumer_warpgroups=1 pingpong=0 swap_ab=0 tma_store=0 epilogue_stages=2 reduce_kernel=0 stages=10 split_k=1", {{"dtype", "f16"}, {"beta", "0.5"}, {"ldc", "184"}, {"lda", "144"}, {"ldb", "184"}}, {{"131x177x140"}}},
        {"c_held", "gemm/wgmma_nonpersistent", of_one_tile + "block_m=64 block_n=64 consumer_warpgroups=1 k_warpgroups=1 swap_ab=0 stages=5", {{"dtype", "f16"}, {"beta", "0.5"}}, {{"200x136x264"}}},
        {"c_in_groups", "gemm/wgmma_nonpersistent", of_one_tile + "block_m=128 block_n=256 consumer_warpgroups=2 k_warpgroups=1 swap_ab=0 stages=4", {{"dtype", "bf16"}, {"beta", "-1.25"}, {"alpha", "0.75"}, {"layout", "nt"}}, {{"300x520x264"}}},
        {"c_swapped_in_groups", "gemm/wgmma_nonpersistent", of_one_tile + "block_m=128 block_n=256 consumer_warpgroups=2 k_warpgroups=1 swap_ab=1 stages=4", {{"dtype", "bf16"}, {"beta", "-1.25"}, {"alpha", "0.75"}, {"layout", "tt"}}, {{"304x520x264"}}},
        {"c_of_parts", "gemm/wgmma_nonpersistent", of_one_tile + "block_m=64 block_n=64 consumer_warpgroups=1 k_warpgroups=2 swap_ab=1 stages=6", {{"dtype", "f16"}, {"beta", "0.5"}, {"layout", "tn"}}, {{"200x136x328", {{"batch", "2"}}}}},
        {"c_unaligned", "gemm/wgmma_nonpersistent", of_one_tile + "block_m=64 block_n=96 consumer_warpgroups=1 k_warpgroups=1 swap_ab=0 stages=4", {{"dtype", "bf16"}, {"beta", "-1.25"}, {"alpha", "0.75"}, {"layout", "nt"}, {"align", "16,16,2"}}, {{"131x177x200"}}},
        {"c_unaligned_swapped", "gemm/wgmma_nonpersistent", of_one_tile + "block_m=64 block_n=96 consumer_warpgroups=1 k_warpgroups=1 swap_ab=1 stages=4", {{"dtype", "bf16"}, {"beta", "-1.25"}, {"alpha", "0.75"}, {"layout", "nt"}, {"align", "16,16,2"}}, {{"131x177x200"}}},
        {"c_of_four_bytes", "gemm/wgmma_nonpersistent", of_one_tile + "block_m=64 block_n=64 consumer_warpgroups=1 k_warpgroups=1 swap_ab=0 stages=4", {{"dtype", "bf16"}, {"beta", "-1.25"}, {"layout", "nt"}, {"align", "16,16,4"}}, {{"131x178x200"}}},
        {"c_of_four_bytes_swapped", "gemm/wgmma_nonpersistent", of_one_tile + "block_m=128 block_n=32 consumer_warpgroups=1 k_warpgroups=1 swap_ab=1 stages=4", {{"dtype", "f16"}, {"layout", "nt"}, {"align", "16,16,4"}}, {{"131x178x200"}}},
        {"c_cut_in_eight_bytes", "gemm/wgmma_nonpersistent", of_one_tile + "block_m=64 block_n=64 consumer_warpgroups=1 k_warpgroups=1 swap_ab=0 stages=4", {{"dtype", "f16"}, {"beta", "0.5"}, {"layout", "nt"}, {"ldc", "180"}}, {{"131x177x200"}}},
        {"c_cut_in_eight_bytes_swapped", "gemm/wgmma_nonpersistent", of_one_tile + "block_m=64 block_n=64 consumer_warpgroups=1 k_warpgroups=2 swap_ab=1 stages=6", {{"dtype", "f16"}, {"beta", "0.5"}, {"layout", "nt"}, {"ldc", "180"}}, {{"131x177x328"}}},
        {"c_padded", "gemm/wgmma_nonpersistent", of_one_tile + "block_m=64 block_n=64 consumer_warpgroups=1 k_warpgroups=1 swap_ab=0 stages=4", {{"dtype", "f16"}, {"beta", "0.5"}, {"layout", "nt"}, {"ldc", "184"}}, {{"131x177x200"}}},
        {"c_f16_sums", "gemm/wgmma_nonpersistent", of_one_tile + "block_m=64 block_n=256 consumer_warpgroups=1 k_warpgroups=1 swap_ab=0 stages=4", {{"dtype", "f16"}, {"beta", "0.5"}, {"acc", "f16"}}, {{"72x264x200"}}},
        {"half_a_unit", "gemm/wgmma_nonpersistent", of_one_tile + "block_m=64 block_n=72 consumer_warpgroups=1 k_warpgroups=1 swap_ab=1 stages=4", {{"dtype", "f16"}, {"layout", "nt"}}, {{"141x100x200"}}},
        {"half_a_unit_along_n", "gemm/wgmma_nonpersistent", of_one_tile + "block_m=128 block_n=24 consumer_warpgroups=1 k_warpgroups=1 swap_ab=0 stages=4 raster=1", {{"dtype", "bf16"}, {"layout", "nt"}, {"beta", "0.5"}}, {{"200x40x200"}}},
        {"half_a_unit_unaligned", "gemm/wgmma_nonpersistent", of_one_tile + "block_m=64 block_n=136 consumer_warpgroups=1 k_warpgroups=1 swap_ab=1 stages=4", {{"dtype", "bf16"}, {"layout", "nt"}, {"beta", "-1.25"}, {"align", "16,16,2"}}, {{"265x101x200"}}},
        {"along_n", "gemm/wgmma_nonpersistent", of_one_tile + "block_m=64 block_n=64 consumer_warpgroups=1 k_warpgroups=1 swap_ab=0 stages=5 raster=1", {{"dtype", "f16"}}, {{"264x328x264"}}},
        {"c_in_pairs", "gemm/mma", "block_m=64 block_n=64 warps_m=2 warps_n=2 block_k=32 stages=2 split_k=1", {{"dtype", "f16"}, {"beta", "0.5"}}, {{"72x136x40"}, {"2*40x72x48"}}},
        {"c_in_pairs_odd", "gemm/mma", "block_m=64 block_n=64 warps_m=2 warps_n=2 block_k=32 stages=2 split_k=1", {{"dtype", "f16"}, {"beta", "0.5"}, {"align", "4"}, {"ldc", "68"}}, {{"65x67x32", {{"lda", "34"}, {"ldb", "68"}}}}},
        {"c_unaligned", "gemm/mma", "block_m=32 block_n=64 warps_m=1 warps_n=4 block_k=64 split_k=1", {{"dtype", "bf16"}, {"beta", "-1.25"}, {"alpha", "0.75"}, {"layout", "tt"}, {"align", "2"}}, {{"41x131x70"}}},
        {"c_of_parts", "gemm/mma", "block_m=32 block_n=32 warps_m=1 warps_n=2 block_k=32 split_k=3", {{"dtype", "f16"}, {"beta", "0.5"}, {"align", "2"}}, {{"33x37x401"}}},
        {"row_in_registers", "softmax/rows", "", {{"dtype", "bf16"}, {"lse", "yes"}}, {{"33x296"}, {"1x8"}, {"5x1000"}}},
        {"long", "softmax/rows", "threads=64 threads_per_row=64 register_chunks=1 rows_per_thread=1 hold_weights=0 warp_max_first=0", {{"dtype", "f32"}, {"scale", "-3"}}, {{"3x2000"}, {"70x4"}}},
        {"agreed_warps", "softmax/rows", "threads=64 threads_per_row=8 rows_per_thread=2 register_chunks=1 hold_weights=1 unroll=1 online=1 warp_max_first=1", {{"dtype", "f16"}, {"lse", "yes"}}, {{"37x64"}, {"1x56"}}},
        {"agreed_elements", "softmax/rows", "threads=64 threads_per_row=32 register_chunks=3 hold_weights=0 unroll=1 online=1 warp_max_first=1", {{"dtype", "f32"}, {"scale", "-3"}}, {{"5x364"}}},
        {"agreed_block", "softmax/rows", "threads=128 threads_per_row=128 register_chunks=2 hold_weights=1 unroll=1 online=1 warp_max_first=1 waves=1", {{"dtype", "bf16"}, {"lse", "yes"}}, {{"150x1992"}, {"3x1032"}}},
        {"agreed_groups", "softmax/rows", "threads=128 threads_per_row=64 rows_per_thread=2 register_chunks=4 hold_weights=1 unroll=1 online=1 warp_max_first=1", {{"dtype", "bf16"}}, {{"11x2048"}}},
        {"packed", "add/vector", "vec=8 access_bytes=16 grid_stride=0 waves=0", {{"dtype", "f16"}}, {{"5003"}, {"1"}, {"64"}}},
        {"k_in_ones", "gemm/dot", "threads=64 lanes=16 columns=1 unroll=2", {{"dtype", "bf16"}, {"layout", "nt"}, {"align", "2"}, {"beta", "0.5"}}, {{"1x37x101"}, {"1x1x1", {{"lda", "3"}}}}},
        {"k_in_chunks", "gemm/dot", "threads=128 lanes=64 columns=4 unroll=2", {{"dtype", "f16"}, {"layout", "nt"}, {"beta", "-1.25"}, {"alpha", "0.75"}}, {{"5x21x1045", {{"lda", "1048"}, {"ldb", "1056"}, {"ldc", "24"}}}}},
        {"k_in_chunks_of_x", "gemm/dot", "threads=64 lanes=4 columns=2 unroll=2", {{"dtype", "bf16"}, {"layout", "nn"}, {"align", "16,2,2"}}, {{"70x3x72"}}},
        {"lines_side_by_side", "gemm/dot", "threads=256 lanes=32 columns=2 unroll=4", {{"dtype", "f16"}, {"layout", "nn"}, {"align", "2"}, {"beta", "0.5"}}, {{"3*2x45x301"}}},
        {"lines_side_by_side_of_a", "gemm/dot", "threads=64 lanes=2 columns=2 unroll=8", {{"dtype", "bf16"}, {"layout", "tt"}, {"align", "4"}}, {{"75x2x90", {{"lda", "76"}}}}},
        {"windows_of_k", "gemm/dot_windows", "threads=128 lanes=16 rows=2 columns=1 unroll=2", {{"dtype", "bf16"}, {"layout", "nt"}, {"align", "2"}, {"beta", "0.5"}}, {{"1x37x331"}, {"1x1x1", {{"lda", "3"}}}, {"1x5x7"}, {"1x19x9", {{"ldb", "12"}}}}},
        {"windows_of_k_in_warps", "gemm/dot_windows", "threads=128 lanes=64 rows=1 columns=2 unroll=1", {{"dtype", "f16"}, {"layout", "tt"}, {"align", "16,2,2"}}, {{"3*3x21x1045"}}},
        {"windows_of_k_of_a", "gemm/dot_windows", "threads=128 lanes=8 rows=4 columns=2 unroll=1", {{"dtype", "bf16"}, {"layout", "nn"}, {"align", "4"}, {"beta", "0.5"}}, {{"75x3x70"}}},
        {"windows_of_lines", "gemm/dot_windows", "threads=128 lanes=8 rows=1 columns=1 unroll=4", {{"dtype", "bf16"}, {"layout", "nn"}, {"align", "2"}, {"beta", "0.5"}}, {{"1x301x101"}, {"2*3x9x1", {{"lda", "3"}}}, {"1x8x43"}, {"2x5x33"}, {"2x130x16", {{"ldb", "131"}}}}},
        {"windows_of_lines_of_a", "gemm/dot_windows", "threads=256 lanes=64 rows=1 columns=4 unroll=2", {{"dtype", "f16"}, {"layout", "tn"}, {"align", "2"}}, {{"75x5x190", {{"lda", "79"}}}}},
        {"one_row", "gemm/gemv", "", {{"dtype", "f16"}, {"layout", "nt"}}, {{"1x200x304"}}},
        {"narrow", "add/vector", "", {{"dtype", "bf16"}, {"align", "2"}}, {{"777"}}},
    };
}
// clang-format on

Problem problem_of(const Catalogue& catalogue, const HostCase& each, const Request& request) {
    Options options = request.options;
    options.insert(each.options.begin(), each.options.end());
    return catalogue.problem({each.family.substr(0, each.family.find('/')), request.shape, options});
}

class FamilyOnHost : public ::testing::TestWithParam<HostCase> {};

TEST_P(FamilyOnHost, PassesTheTestsOfItsOp) {
    const HostCase& each = GetParam();
    const Catalogue catalogue = Catalogue::embedded();
    const Family& family = *catalogue.find_family(each.family);
    const Problem first = problem_of(catalogue, each, each.problems.front());
    const Config config = host_cuda::config_with(family, first, each.config, each.sm_count);
    host_cuda::HostCandidate candidate(catalogue, family, first, config, each.sm_count);
    for (const Request& request : each.problems) {
        const Problem problem = problem_of(catalogue, each, request);
        EXPECT_EQ(candidate.examine(problem), "") << problem.key();
    }
}

INSTANTIATE_TEST_SUITE_P(Each, FamilyOnHost, ::testing::ValuesIn(cases()), [](const auto& entry) {
    std::string name = entry.param.family + "_" + entry.param.name;
    std::replace(name.begin(), name.end(), '/', '_');
    return name;
});

}  // namespace
}  // namespace autotune::test
