#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "kernel_templates/attention/shared/tma_tiles.h"
#include "kernel_templates/attention_bwd/shared/wgmma_launch.h"
#include "kernel_templates/gemm/shared/family_parts.h"
#include "kernel_templates/parameter_table.h"
#include "kernel_templates/registry.h"
#include "kernel_templates/structured_family.h"
#include "src/core/immortal.h"
#include "src/core/integer_math.h"

namespace autotune {
namespace {

using attention::padded;
using attention::span_of;
using attention_bwd::add_key_arguments;
using attention_bwd::add_strides;
using attention_bwd::address_in;
using attention_bwd::ceil_div;
using attention_bwd::heads_at_once;
using attention_bwd::padded_rows;
using attention_bwd::registers_of;
using attention_bwd::round_up;
using attention_bwd::Scratch;
using attention_bwd::vector_bytes;
using attention_bwd::View;
using gemm::i32;
using std::int64_t;

// How dQ's parts are added (kernel.cuh).
enum DqPath : int64_t { kFromRegisters = 0, kBulk = 1, kOrdered = 2 };

constexpr int64_t kMostShared = 227 << 10;  // the largest shared memory of a block
constexpr int64_t kTicketBytes = 16;        // the ticket has its own bytes unless tiles fill shared memory
constexpr int64_t kTicketInts = 4;          // the ticket's ints come before the counters of each tile
constexpr int64_t kAdders = 2;              // this many threads add in order, each with a counter of its own

// clang-format off
#define ATTENTION_BWD_ONE_PASS_PARAMETERS(ROW) \
    ROW(groups, 1, compile, "warpgroups of 64 keys each", 1, 2) \
    ROW(block_q, 1, compile, "queries of a tile", 32, 48, 64, 80, 96, 112, 128) \
    ROW(stages, 1, compile, "tiles of queries in shared memory", 2, 3) \
    ROW(ds_buffers, 1, compile, "tiles of dS in shared memory; 1: one more barrier a tile", 1, 2) \
    ROW(dq_path, 1, compile, "dQ is added up 0: from registers, 1: from shared memory, 2: from there in order", 0, 1, 2) \
    ROW(dq_buffers, 1, compile, "tiles of dQ that wait in shared memory", 1, 2) \
    ROW(swap_dq, 1, compile, "1: dQ is computed transposed", 0, 1) \
    ROW(early_dv, 1, compile, "1: dV's product begins before dP is there; 2: in halves of the queries, as dK's", 0, 1, 2) \
    ROW(tile_order, 1, launch, "tiles of keys of a head 0: first keys first, 1: last keys first", 0, 1) \
    ROW(walk, 1, launch, "a tile's queries 0: first ones first, 1: last ones first", 0, 1) \
    ROW(l2_group_mib, 1, launch, "heads whose queries have that size are worked on together; 0: each alone", 0, 16, 32) \
    ROW(pdl, 1, launch, "1: programmatic dependent launch: blocks start while the kernel before ends", 0, 1)
// clang-format on

struct ResolvedConfig {
    AUTOTUNE_RESOLVED_CONFIG(ATTENTION_BWD_ONE_PASS_PARAMETERS)

    int64_t k_rows() const { return 64 * groups; }
    // Bytes of dQ of a tile of queries in f32, and how it is divided among the groups.
    int64_t dq_bytes(const View& view) const { return block_q * padded(view.d) * 4; }
    int64_t m_blocks(const View& view) const { return (swap_dq != 0 ? padded(view.d) : block_q) / 64; }
    int64_t dq_columns(const View& view) const {
        const int64_t blocks = m_blocks(view);
        return blocks == 0 ? 0 : (swap_dq != 0 ? block_q : padded(view.d)) / std::max<int64_t>(groups / blocks, 1);
    }
    bool divides_dq(const View& view) const {
        const int64_t rows = swap_dq != 0 ? padded(view.d) : block_q, blocks = m_blocks(view), columns = dq_columns(view);
        if (rows % 64 != 0 || groups % blocks != 0 || columns % (swap_dq != 0 ? 16 : 32) != 0) return false;
        const int64_t ds_span = block_q % 64 == 0 ? 64 : block_q % 32 == 0 ? 32 : 16;
        const int64_t span = swap_dq != 0 ? ds_span : span_of(view.d);
        return columns * (groups / blocks) == (swap_dq != 0 ? block_q : padded(view.d)) &&
               (columns % span == 0 || span % columns == 0);
    }
    // Whether the workspace ends with the last existing row instead of a whole tile.
    bool ends_with_rows(const View& view) const {
        return dq_path != kFromRegisters && swap_dq != 0 && groups == 2 && m_blocks(view) == 2 && block_q % 64 != 0;
    }
    int64_t smem_bytes(const View& view) const {
        const int64_t columns = padded(view.d) + padded(view.dv);
        const int64_t staged = dq_path == kFromRegisters ? 0 : dq_buffers * dq_bytes(view);
        const int64_t used = (k_rows() + stages * block_q) * columns * 2 + ds_buffers * k_rows() * block_q * 2 + staged +
                             stages * block_q * 8 + (2 * stages + 1 + 2 * dq_buffers) * 8 + 8;
        return used + 1024 + kTicketBytes > kMostShared ? used : used + 1024;
    }
    // The registers of dK and dV, of scores and their gradients (in which P and dS are packed unless dV's product begins
    // earlier), and of dQ. The constant is what ptxas needed besides these when it compiled such kernels.
    int64_t register_need(const View& view) const {
        const int64_t kept = (padded(view.d) + padded(view.dv)) / 2, scores = block_q / 2;
        const int64_t early = early_dv == 1 ? scores / 2 : early_dv == 2 ? scores / 4 : 0, dq = dq_columns(view) / 2;
        return kept + 2 * scores + early + std::max<int64_t>(dq - scores, 0) + 20;
    }
};

int64_t query_tiles(const View& view, const ResolvedConfig& s) {
    return ceil_div(view.q_len, s.block_q);
}
int64_t sums_bytes(const View& view, const ResolvedConfig& s) {
    if (s.ends_with_rows(view)) return view.b * view.q_heads * round_up(view.q_len, 8) * padded(view.d) * 4;
    return view.b * view.q_heads * query_tiles(view, s) * s.dq_bytes(view);
}
int64_t counter_bytes(const View& view, const ResolvedConfig& s) {
    return s.dq_path == kOrdered ? round_up((kTicketInts + view.b * view.q_heads * query_tiles(view, s) * kAdders) * 4, 16) : 0;
}

constexpr auto rule = rules_by<ResolvedConfig>();

bool grows(const View& view) {
    return view.band.has_high && !view.band.has_low;
}

// The bytes of the two vectors of rows and of the counters. They lie in dQ if it is large enough, else at the start of the
// workspace, before the sums.
int64_t scratch_bytes(const View& view, const ResolvedConfig& s) {
    return 2 * vector_bytes(view) + counter_bytes(view, s);
}
Scratch scratch_of(const View& view, const ResolvedConfig& s) {
    return attention_bwd::dq_holds(view, scratch_bytes(view, s)) ? Scratch::dq : Scratch::workspace;
}
int64_t sums_offset(const View& view, const ResolvedConfig& s) {
    return scratch_of(view, s) == Scratch::dq ? 0 : scratch_bytes(view, s);
}

LaunchStep main_step(const Problem& problem, const View& view, const ResolvedConfig& s) {
    const int64_t tiles = ceil_div(view.kv_len, s.k_rows()), all = tiles * view.kv_heads * view.b;
    LaunchStep step;
    step.grid = {narrow<std::uint32_t>(all), 1, 1};
    step.block = {narrow<std::uint32_t>(128 * (s.groups + 1)), 1, 1};
    step.dynamic_smem_bytes = static_cast<std::size_t>(s.smem_bytes(view));
    step.arguments = attention_bwd::pass_arguments(problem, view, scratch_of(view, s), s.block_q, s.k_rows());
    step.arguments.push_back(WorkspaceArg{static_cast<std::size_t>(sums_offset(view, s))});
    step.arguments.push_back(address_in(scratch_of(view, s), 2 * vector_bytes(view)));
    add_key_arguments(step.arguments, view);
    for (const int64_t value : {tiles, all, heads_at_once(view, s.l2_group_mib, view.q_len, view.kv_heads), s.tile_order, s.walk})
        step.arguments.push_back(i32(value));
    return step;
}

LaunchStep finish_step(const View& view, const ResolvedConfig& s) {
    LaunchStep step;
    step.entry = "_finish";
    step.grid = {narrow<std::uint32_t>(view.b * view.q_heads * query_tiles(view, s)), 1, 1};
    step.block = {narrow<std::uint32_t>(128 * s.groups), 1, 1};
    step.arguments = {WorkspaceArg{static_cast<std::size_t>(sums_offset(view, s))},
                      TensorArg{attention_bwd::kDq},
                      ScalarArg{attention::kScale},
                      i32(view.q_heads),
                      i32(view.q_len),
                      i32(view.kv_len),
                      i32(view.band.low),
                      i32(view.band.high)};
    add_strides(step.arguments, view.dq_strides);
    step.arguments.push_back(i32(query_tiles(view, s)));
    return step;
}

class AttentionBwdOnePass final : public StructuredFamily {
  public:
    std::string_view name() const override { return "attention_bwd/one_pass"; }
    std::string_view about() const override {
        return "one pass of wgmma over tiles of keys, dQ added up in f32 in the workspace, in order if asked for, sm_90a alone";
    }
    int complexity_order() const override { return 50; }

    std::optional<std::string> refuses(const Problem& problem, const Device& device) const override {
        const View view(problem);
        if (auto reason = attention_bwd::refuses_wgmma(view, device)) return reason;
        if (padded(view.d) + padded(view.dv) > 256) return "dK and dV of so many columns exceed the registers of a warpgroup";
        if (padded(view.d) != 64 && padded(view.d) != 128) return "it divides dQ of 64 or 128 columns among warpgroups";
        return std::nullopt;
    }

    std::vector<Parameter> parameters() const override { return ResolvedConfig::parameters(); }

    std::vector<Constraint> constraints(const Problem& problem, const Device& device) const override {
        const View view(problem);
        const int64_t smem = device.limits.smem_per_block_bytes;
        return {
            {"dQ is added in no fixed order although the problem is deterministic",
             {"dq_path"},
             rule([=](const ResolvedConfig& s) { return !view.is_deterministic || s.dq_path == kOrdered; })},
            // Such a tile is allowed with a single group, and with 128 columns, because a single group cannot hold dQ of 128
            // columns.
            {"a tile has twice the keys that there are", {"groups"}, rule([=](const ResolvedConfig& s) {
                 return s.groups == 1 || s.k_rows() < 2 * view.kv_len || padded(view.d) == 128;
             })},
            {"more than one dQ buffer although dQ does not go through shared memory",
             {"dq_path", "dq_buffers"},
             rule([](const ResolvedConfig& s) { return s.dq_path != kFromRegisters || s.dq_buffers == 1; })},
            {"tile_order or walk without a mask: all tiles take equally long",
             {"tile_order", "walk"},
             rule([=](const ResolvedConfig& s) {
                 return view.band.has_low || view.band.has_high || (s.tile_order == 0 && s.walk == 0);
             })},
            {"early_dv 2 although half of the queries is no multiple of 16",
             {"block_q", "early_dv"},
             rule([](const ResolvedConfig& s) { return s.early_dv != 2 || s.block_q % 32 == 0; })},
            {"dQ cannot be divided among the warpgroups", {"groups", "block_q", "swap_dq"}, rule([=](const ResolvedConfig& s) {
                 return s.divides_dq(view);
             })},
            {"dK, dV, scores, their gradients and dQ exceed the registers that setmaxnreg can give",
             {"groups", "block_q", "swap_dq", "early_dv"},
             rule([=](const ResolvedConfig& s) { return s.register_need(view) <= registers_of(s.groups); })},
            {"tiles exceed shared memory",
             {"groups", "block_q", "stages", "ds_buffers", "dq_path", "dq_buffers"},
             rule([=](const ResolvedConfig& s) { return s.smem_bytes(view) <= smem; })},
        };
    }

    Config usual_config(const SearchSpace& rules, const Problem& problem, const Device&) const override {
        const View view(problem);
        ResolvedConfig s;
        s.pdl = 1, s.stages = 2, s.dq_path = view.is_deterministic ? kOrdered : kBulk, s.dq_buffers = 1;
        s.tile_order = 0, s.walk = view.band.has_high ? 1 : 0, s.l2_group_mib = 16;
        for (const int64_t groups : {2, 1})
            for (const int64_t block_q : {128, 64, 32})
                for (const int64_t ds_buffers : {2, 1}) {
                    s.groups = groups, s.block_q = block_q, s.ds_buffers = ds_buffers;
                    s.swap_dq = padded(view.d) == 128 ? 1 : 0, s.early_dv = s.swap_dq;
                    if (rules.contains(config_from(s))) return config_from(s);
                }
        const std::vector<Config> first = rules.enumerate({}, 1);
        return first.empty() ? Config{} : first.front();
    }

    std::vector<NamedConfig> named_configs(const Problem& problem, const Device& device) const override {
        const SearchSpace all = rules(problem, device);
        const Config usual = usual_config(all, problem, device);
        std::vector<NamedConfig> named = {{"one_pass_wgmma", usual}};
        const auto add = [&](const char* name, std::initializer_list<std::pair<const char*, int64_t>> changes) {
            Config config = usual;
            for (const auto& [parameter, value] : changes) config.set(parameter, value);
            if (all.contains(config)) named.push_back({name, config});
        };
        add("one_pass_wgmma_red", {{"dq_path", kFromRegisters}});
        add("one_pass_wgmma_ordered", {{"dq_path", kOrdered}});
        add("one_pass_wgmma_swapped", {{"swap_dq", 1}});
        add("one_pass_wgmma_not_swapped", {{"swap_dq", 0}});
        add("one_pass_wgmma_early_dv", {{"block_q", 64}, {"early_dv", 1}});
        add("one_pass_wgmma_halves", {{"early_dv", 2}});
        add("one_pass_wgmma_two_tiles", {{"dq_buffers", 2}});
        add("one_pass_wgmma_plain", {{"early_dv", 0}, {"ds_buffers", 1}});
        return named;
    }

    std::vector<Binding> facts(const Problem& problem) const override { return attention_bwd::wgmma_facts(problem); }

    LaunchPlan plan(const Problem& problem, const Config& config, const Device&) const override {
        const View view(problem);
        LaunchPlan plan;
        if (view.rows() == 0 || view.kv_len == 0) return plan;
        const auto s = resolve<ResolvedConfig>(config);
        const bool is_ordered = s.dq_path == kOrdered;
        plan.deterministic = is_ordered;
        plan.workspace_bytes = static_cast<std::size_t>(sums_offset(view, s) + sums_bytes(view, s));
        LaunchStep prepare = attention_bwd::prepare_step(view, scratch_of(view, s));
        prepare.arguments.push_back(is_ordered ? address_in(scratch_of(view, s), 2 * vector_bytes(view))
                                               : WorkspaceArg{static_cast<std::size_t>(sums_offset(view, s))});
        prepare.arguments.push_back(I64Arg{(is_ordered ? counter_bytes(view, s) : sums_bytes(view, s)) / 16});
        plan.steps = {prepare, main_step(problem, view, s), finish_step(view, s)};
        for (LaunchStep& step : plan.steps) step.programmatic_dependent = s.pdl != 0;
        return plan;
    }

    Predictor predictor(const Problem& problem, const Device& device) const override;
};

// Tiles that the diagonal crosses are computed as a whole, but partly during waits, so 0.6 of the surplus counts.
double computed_pairs(const View& view, const ResolvedConfig& s) {
    const auto diagonal = static_cast<double>(view.b * view.q_heads * std::min(view.q_len, view.kv_len));
    return view.visible_pairs() + (grows(view) ? 0.3 * diagonal * static_cast<double>(s.k_rows() + s.block_q) : 0.0);
}

// Microseconds, for ranking: products at a rate that grows with the tiles, a block's time before and after them, a share of the
// longest tile at the end, and the bytes of the other kernels. Fitted to 291 finalists of sweeps on an H200: within 6 %.
double predict(const View& view, const ResolvedConfig& s, const Device& device) {
    const double sms = std::max(device.identity.sm_count, 1);
    const bool is_ordered = s.dq_path == kOrdered;
    const auto columns = static_cast<double>(padded(view.d) + padded(view.dv));
    const double pairs = computed_pairs(view, s), macs = pairs * (2 * columns + static_cast<double>(padded(view.d)));
    double rate = (s.groups == 1 ? 0.42 : 0.67) * static_cast<double>(s.block_q) / (static_cast<double>(s.block_q) + 17.0);
    if (s.early_dv != 0) rate *= s.early_dv == 2 ? 1.03 : 1.022;
    if (s.swap_dq != 0 && padded(view.d) == 128) rate *= 1.015;
    if (is_ordered) rate *= 0.935;
    if (s.dq_path == kFromRegisters) rate *= 0.98;
    if (grows(view) && !is_ordered) rate *= s.walk == 1 && s.tile_order == 0 ? 1.03 : s.walk == 1 ? 1.0 : 0.97;
    if (s.ds_buffers == 1) rate *= 0.97;
    if (s.dq_buffers == 2) rate *= is_ordered ? 1.01 : 0.995;
    if (s.l2_group_mib == 0) rate *= is_ordered ? 0.87 : 0.99;
    double us = macs / (rate * 2048.0 * sms * std::max(device.clock_mhz, 1.0));
    // In order, the next tile of keys may add only 2.6 us after the previous one.
    if (is_ordered) us = std::max(us, 2.6 / sms * pairs / static_cast<double>(s.k_rows() * s.block_q));
    const auto tiles = static_cast<double>(ceil_div(view.kv_len, s.k_rows()) * view.b * view.kv_heads);
    const double waves = tiles / sms;
    // Under a causal mask the longest tile takes almost twice the mean of all.
    const double tail = grows(view) ? us * std::max(1 + 0.5 / std::max(waves, 0.5), 1.78 / waves) : us * std::max(1.0, 1 / waves);
    const double moved = static_cast<double>(sums_bytes(view, s)) * (is_ordered ? 4.15 : 4.95);
    return tail + 3.8 * std::max(waves, 1.0) + moved / 4.0e6 - (s.pdl != 0 ? 1.0 : 0.0);
}

Predictor AttentionBwdOnePass::predictor(const Problem& problem, const Device& device) const {
    return
        [view = View(problem), device](const Config& config) { return predict(view, resolve<ResolvedConfig>(config), device); };
}

}  // namespace

const Family& family_attention_bwd_one_pass() {
    static const Immortal<AttentionBwdOnePass> family;
    return *family;
}

}  // namespace autotune
