#include <algorithm>
#include <array>

#include "kernel_templates/gemm/op/gemm_problem.h"
#include "kernel_templates/gemm/shared/family_parts.h"
#include "kernel_templates/gemm/shared/tile_shapes.h"
#include "kernel_templates/gemm/simt/geometry.h"
#include "kernel_templates/structured_family.h"
#include "src/core/immortal.h"
#include "src/core/integer_math.h"

namespace autotune {
namespace {

using gemm::ceil_div;
using gemm::View;
using simt::registers_needed;
using simt::ResolvedConfig;
using simt::smem_bytes;

// The template has static shared memory only, and every GPU allows 48 KiB of it.
constexpr std::int64_t kStaticSmemBytes = 48 * 1024;

constexpr auto rule = rules_by<ResolvedConfig>();

std::vector<Constraint> constraints(const View& view, const Device& device) {
    const auto size = static_cast<std::int64_t>(size_bytes(view.in));
    const std::int64_t registers = device.limits.registers_per_block;
    const std::int64_t most_threads = std::min(device.limits.threads_per_block, 1024);
    const bool is_f16 = view.acc == DType::f16;
    const bool transposes_both = !view.trans_a && view.trans_b;
    return {
        {"more than one element a thread without shared memory",
         {"smem", "thread_m", "thread_n"},
         rule([](const ResolvedConfig& s) { return s.smem == 1 || (s.thread_m == 1 && s.thread_n == 1); })},
        {"parameters of the copies have no effect without shared memory",
         {"smem", "block_k", "vec", "packed", "bcf", "smem_pad", "stages", "cp_async", "min_blocks"},
         rule([](const ResolvedConfig& s) {
             return s.smem == 1 || (s.block_k == 8 && s.vec == 1 && s.packed == 0 && s.bcf == 0 && s.smem_pad == 0 &&
                                    s.stages == 1 && s.cp_async == 0 && s.min_blocks == 1);
         })},
        {"a thread's tile is more than 4 times as long as wide", {"thread_m", "thread_n"}, rule([](const ResolvedConfig& s) {
             return s.thread_m <= 4 * s.thread_n && s.thread_n <= 4 * s.thread_m;
         })},
        {"packed has no effect for vec <= 2", {"vec", "packed"}, rule([](const ResolvedConfig& s) {
             return s.packed == 0 || s.vec > 2;
         })},
        {"bcf although a thread has a single element along M or N: no halves",
         {"thread_m", "thread_n", "bcf"},
         rule([](const ResolvedConfig& s) { return s.bcf == 0 || (s.thread_m > 1 && s.thread_n > 1); })},
        {"cp.async of fewer than two elements", {"vec", "cp_async"}, rule([](const ResolvedConfig& s) {
             return s.cp_async == 0 || s.vec > 1;
         })},
        {"cp.async although both operands are contiguous along K: it cannot transpose",
         {"cp_async"},
         rule([=](const ResolvedConfig& s) { return s.cp_async == 0 || !transposes_both; })},
        {"the block's threads are not whole warps, or more than the GPU allows",
         {"block_m", "block_n", "thread_m", "thread_n"},
         rule(
             [=](const ResolvedConfig& s) { return s.threads() % 32 == 0 && s.threads() >= 32 && s.threads() <= most_threads; })},
        {"the sums exceed the register file",
         {"block_m", "block_n", "thread_m", "thread_n", "block_k", "vec", "min_blocks"},
         rule([=](const ResolvedConfig& s) {
             const std::int64_t needed = registers_needed(s, is_f16);
             return needed <= 255 && s.threads() * needed * s.min_blocks <= registers;
         })},
        {"min_blocks does not bind: two blocks have the threads, or the registers, anyhow",
         {"block_m", "block_n", "thread_m", "thread_n", "min_blocks"},
         rule([=](const ResolvedConfig& s) {
             return s.min_blocks == 1 || (s.threads() >= 256 && s.threads() * 2 <= most_threads && s.thread_m >= 8);
         })},
        {"tiles exceed static shared memory",
         {"block_m", "block_n", "block_k", "smem_pad", "stages"},
         rule([=](const ResolvedConfig& s) { return smem_bytes(s, size) <= kStaticSmemBytes; })},
        {"some threads would load nothing",
         {"smem", "block_m", "block_n", "thread_m", "thread_n", "block_k", "vec"},
         rule([](const ResolvedConfig& s) {
             return s.smem == 0 || std::min(s.block_m, s.block_n) * s.block_k >= s.threads() * std::min<std::int64_t>(s.vec, 2);
         })},
    };
}

// How a classic kernel copies its tiles. Its names contain f16x4 or f16x8 for vec, k16 or k32 for block_k above 8, pack, bcf,
// offset for smem_pad, dbuf for two buffers and async for cp.async.
struct Copying {
    std::int64_t block_k, vec, packed, bcf, smem_pad, stages, cp_async;
};

Config config_of(const std::array<std::int64_t, 4>& tile, const Copying& c, bool smem = true) {
    return config_from(ResolvedConfig{.smem = smem ? 1 : 0,
                                      .block_m = tile[0],
                                      .block_n = tile[1],
                                      .thread_m = tile[2],
                                      .thread_n = tile[3],
                                      .block_k = c.block_k,
                                      .vec = c.vec,
                                      .packed = c.packed,
                                      .bcf = c.bcf,
                                      .smem_pad = c.smem_pad,
                                      .stages = c.stages,
                                      .cp_async = c.cp_async});
}

std::vector<NamedConfig> named_configs() {
    constexpr std::array<std::int64_t, 4> small = {64, 64, 4, 4}, large = {128, 128, 8, 8}, tall = {256, 128, 16, 8};
    const std::string t4 = "t_4x4_sliced_k_f16x4_pack", t8x4 = "t_8x8_sliced_k_f16x4", t8x8 = "t_8x8_sliced_k_f16x8_pack";
    std::vector<NamedConfig> named = {{"naive", config_of({16, 16, 1, 1}, {8, 1, 0, 0, 0, 1, 0}, false)},
                                      {"sliced_k", config_of({32, 32, 1, 1}, {32, 1, 0, 0, 0, 1, 0})},
                                      {t4 + "_bcf", config_of(small, {16, 4, 1, 1, 0, 1, 0})},
                                      {t4 + "_bcf_offset", config_of(small, {16, 4, 1, 1, 8, 1, 0})},
                                      {t8x4, config_of(large, {8, 4, 0, 0, 0, 1, 0})},
                                      {t8x4 + "_bcf", config_of(large, {8, 4, 0, 1, 0, 1, 0})},
                                      {t8x4 + "_bcf_offset", config_of(large, {8, 4, 0, 1, 8, 1, 0})},
                                      {t8x4 + "_pack", config_of(large, {8, 4, 1, 0, 0, 1, 0})},
                                      {t8x4 + "_pack_bcf", config_of(large, {8, 4, 1, 1, 0, 1, 0})},
                                      {t8x4 + "_pack_bcf_offset", config_of(large, {8, 4, 1, 1, 8, 1, 0})},
                                      {t8x8 + "_bcf", config_of(large, {8, 8, 1, 1, 0, 1, 0})},
                                      {t8x8 + "_bcf_offset", config_of(large, {8, 8, 1, 1, 8, 1, 0})},
                                      {t8x8 + "_bcf_dbuf", config_of(large, {8, 8, 1, 1, 0, 2, 0})}};
    for (const std::int64_t block_k : {16, 32}) {
        const std::string name = "t_8x8_sliced_k" + std::to_string(block_k) + "_f16x8_pack_dbuf";
        named.push_back({name, config_of(large, {block_k, 8, 1, 0, 0, 2, 0})});
        named.push_back({name + "_offset", config_of(large, {block_k, 8, 1, 0, 8, 2, 0})});
        named.push_back({name + "_async", config_of(large, {block_k, 8, 1, 0, 0, 2, 1})});
        named.push_back({name + "_async_offset", config_of(large, {block_k, 8, 1, 0, 8, 2, 1})});
    }
    named.push_back({"t_16x8_sliced_k32_f16x8_pack_dbuf", config_of(tall, {32, 8, 1, 0, 0, 2, 0})});
    named.push_back({"t_16x8_sliced_k32_f16x8_pack_dbuf_async", config_of(tall, {32, 8, 1, 0, 0, 2, 1})});
    return named;
}

class GemmSimt final : public StructuredFamily {
  public:
    std::string_view name() const override { return "gemm/simt"; }
    std::string_view about() const override {
        return "CUDA cores: naive, and tiles through shared memory; any layout and alignment";
    }
    int complexity_order() const override { return 10; }
    std::optional<std::string> refuses(const Problem& problem, const Device& device) const override;
    std::vector<Binding> facts(const Problem& problem) const override { return gemm::facts(problem); }
    LaunchPlan plan(const Problem& problem, const Config& config, const Device& device) const override;
    Predictor predictor(const Problem& problem, const Device& device) const override {
        return [problem, device](const Config& config) {
            return simt::predict_us(View(problem), resolve<ResolvedConfig>(config), device);
        };
    }

  protected:
    std::vector<Parameter> parameters() const override { return ResolvedConfig::parameters(); }
    std::vector<Constraint> constraints(const Problem& problem, const Device& device) const override {
        return autotune::constraints(View(problem), device);
    }
    Config usual_config(const SearchSpace&, const Problem&, const Device&) const override {
        return config_of({64, 64, 4, 4}, {16, 4, 1, 1, 8, 2, 0});
    }
    // Leaves out cp.async variants if both operands are contiguous along K, and 16x8 sums of f32 on some devices.
    std::vector<NamedConfig> named_configs(const Problem&, const Device&) const override { return autotune::named_configs(); }
};

std::optional<std::string> GemmSimt::refuses(const Problem& problem, const Device&) const {
    const View view(problem);
    const bool is_half = view.in == DType::f16 || view.in == DType::bf16;
    if (!is_half || view.in != view.out) return "gemm/simt computes in f16 or bf16, with C of the same type";
    if (view.acc == DType::f16 && view.in != DType::f16) return "gemm/simt accumulates in f16 only for f16 operands";
    return std::nullopt;
}

LaunchPlan GemmSimt::plan(const Problem& problem, const Config& config, const Device&) const {
    const View view(problem);
    LaunchPlan plan;
    const auto s = resolve<ResolvedConfig>(config);
    const std::int64_t blocks = ceil_div(view.m, s.block_m) * ceil_div(view.n, s.block_n) * view.batch;
    if (blocks == 0) return plan;
    LaunchStep step;
    // The kernel loops, so larger products need no more blocks.
    step.grid.x = narrow<std::uint32_t>(std::min(blocks, gemm::kMaxBlocks));
    step.block.x = narrow<std::uint32_t>(s.threads());
    step.arguments = gemm::arguments(problem);
    plan.steps.push_back(step);
    return plan;
}

}  // namespace

const Family& family_gemm_simt() {
    static const Immortal<GemmSimt> family;
    return *family;
}

}  // namespace autotune
