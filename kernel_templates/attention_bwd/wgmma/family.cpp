#include "src/core/family/family.h"

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
using attention_bwd::add_key_arguments;
using attention_bwd::add_strides;
using attention_bwd::ceil_div;
using attention_bwd::heads_at_once;
using attention_bwd::padded_rows;
using attention_bwd::pass_arguments;
using attention_bwd::registers_of;
using attention_bwd::Scratch;
using attention_bwd::vector_bytes;
using attention_bwd::View;
using gemm::i32;
using std::int64_t;

// clang-format off
#define ATTENTION_BWD_WGMMA_PARAMETERS(ROW) \
    ROW(q_warpgroups, 1, compile, "pass of dQ: warpgroups of 64 queries each", 1, 2, 3) \
    ROW(q_block_k, 1, compile, "pass of dQ: keys of a tile", 32, 48, 64, 80, 96, 112, 128) \
    ROW(q_stages, 1, compile, "pass of dQ: tiles of keys and values in shared memory", 2, 3, 4) \
    ROW(k_warpgroups, 1, compile, "pass of dK and dV: warpgroups of 64 keys each", 1, 2, 3) \
    ROW(k_block_q, 1, compile, "pass of dK and dV: queries of a tile", 32, 48, 64, 80, 96, 112, 128) \
    ROW(k_stages, 1, compile, "pass of dK and dV: tiles of queries in shared memory", 2, 3, 4) \
    ROW(tile_order, 1, launch, "tiles of a head 0: first rows first, 1: those that meet most of the other side first", 0, 1) \
    ROW(l2_group_mib, 1, launch, "heads whose other side has that size are worked on together; 0: each alone", 0, 16, 32) \
    ROW(pdl, 1, launch, "1: programmatic dependent launch: blocks start while the kernel before ends", 0, 1)
// clang-format on

struct ResolvedConfig {
    AUTOTUNE_RESOLVED_CONFIG(ATTENTION_BWD_WGMMA_PARAMETERS)

    int64_t q_rows() const { return 64 * q_warpgroups; }
    int64_t k_rows() const { return 64 * k_warpgroups; }
    // Dynamic shared memory for the alignment, the rows that the block owns, the ring and the barriers.
    int64_t q_smem_bytes(const View& view) const {
        return 1024 + (q_rows() + q_stages * q_block_k) * columns(view) * 2 + (2 * q_stages + 1) * 8;
    }
    int64_t k_smem_bytes(const View& view) const {
        return 1024 + (k_rows() + k_stages * k_block_q) * columns(view) * 2 + k_stages * k_block_q * 8 + (2 * k_stages + 1) * 8;
    }
    static int64_t columns(const View& view) { return padded(view.d) + padded(view.dv); }
};

// The registers that ptxas needs for wide sums besides the sums themselves, as found in compiled kernels.
int64_t beside(int64_t columns) {
    return std::max<int64_t>(columns - 128, 0) / 4;
}
// The registers of dQ, scores, their gradients, and the gradients as an operand.
int64_t q_registers(const View& view, int64_t block_k) {
    return padded(view.d) / 2 + block_k + block_k / 4 + 32 + beside(padded(view.d));
}
// Whether a block of the pass of dK and dV computes only one of them (kernel.cuh).
bool splits_sums(const View& view) {
    return ResolvedConfig::columns(view) > 344;
}
// The registers of dK, dV, scores, their gradients, and an operand.
int64_t k_registers(const View& view, int64_t block_q) {
    const int64_t widest = std::max(padded(view.d), padded(view.dv));
    const int64_t kept = splits_sums(view) ? widest / 2 + beside(widest) : ResolvedConfig::columns(view) / 2;
    return kept + block_q + block_q / 4 + 28;
}

constexpr auto rule = rules_by<ResolvedConfig>();

std::vector<Constraint> constraints(const View& view, const Device& device) {
    const int64_t smem = device.limits.smem_per_block_bytes;
    const bool grows = view.band.has_high && !view.band.has_low;
    return {
        {"a tile has twice the queries that there are", {"q_warpgroups"}, rule([=](const ResolvedConfig& s) {
             return s.q_warpgroups == 1 || s.q_rows() < 2 * view.q_len;
         })},
        {"a tile has twice the keys that there are", {"k_warpgroups"}, rule([=](const ResolvedConfig& s) {
             return s.k_warpgroups == 1 || s.k_rows() < 2 * view.kv_len;
         })},
        {"dQ, scores and their gradients exceed the registers that setmaxnreg can give",
         {"q_warpgroups", "q_block_k"},
         rule([=](const ResolvedConfig& s) {
             // A thread of a single group may have 255 registers, which suffices for both bounds of a window next to wide sums.
             const int64_t bounds = view.band.has_low && s.q_warpgroups > 1 ? beside(padded(view.d)) / 2 : 0;
             return q_registers(view, s.q_block_k) + bounds <= registers_of(s.q_warpgroups);
         })},
        {"dK, dV, scores and their gradients exceed the registers that setmaxnreg can give",
         {"k_warpgroups", "k_block_q"},
         rule([=](const ResolvedConfig& s) { return k_registers(view, s.k_block_q) <= registers_of(s.k_warpgroups); })},
        {"tiles of the pass of dQ exceed shared memory",
         {"q_warpgroups", "q_block_k", "q_stages"},
         rule([=](const ResolvedConfig& s) { return s.q_smem_bytes(view) <= smem; })},
        {"tiles of the pass of dK and dV exceed shared memory",
         {"k_warpgroups", "k_block_q", "k_stages"},
         rule([=](const ResolvedConfig& s) { return s.k_smem_bytes(view) <= smem; })},
        {"tile_order 1 without a mask that ends at the diagonal: all tiles of a head take equally long",
         {"tile_order"},
         rule([=](const ResolvedConfig& s) { return s.tile_order == 0 || grows; })},
        {"l2_group_mib although the longest tiles do not come first",
         {"tile_order", "l2_group_mib"},
         rule([](const ResolvedConfig& s) { return s.l2_group_mib == 0 || s.tile_order == 1; })},
    };
}

// The largest value of the domain that fits into the registers.
int64_t widest(const View& view, int64_t groups, int64_t most, int64_t (*registers)(const View&, int64_t)) {
    for (int64_t length = most; length > 32; length -= 16)
        if (registers(view, length) <= registers_of(groups)) return length;
    return 32;
}

Config usual_config(const View& view, const SearchSpace& space) {
    const bool grows = view.band.has_high && !view.band.has_low;
    ResolvedConfig s;
    s.tile_order = grows ? 1 : 0, s.l2_group_mib = grows ? 32 : 0, s.pdl = 1;
    for (const int64_t groups : {2, 1}) {
        s.q_warpgroups = 64 * groups < 2 * view.q_len ? groups : 1;
        s.k_warpgroups = 64 * groups < 2 * view.kv_len ? groups : 1;
        for (s.q_block_k = widest(view, groups, 80, q_registers); s.q_block_k >= 32; s.q_block_k -= 16) {
            s.k_block_q = widest(view, groups, 64, k_registers);
            for (const auto& [q_stages, k_stages] : {std::pair<int64_t, int64_t>{3, 4}, {3, 3}, {2, 3}, {2, 2}}) {
                s.q_stages = q_stages, s.k_stages = k_stages;
                if (space.contains(config_from(s))) return config_from(s);
            }
        }
    }
    const std::vector<Config> first = space.enumerate({}, 1);
    return first.empty() ? Config{} : first.front();
}

// ---- the launch ----

LaunchStep query_step(const Problem& problem, const View& view, const ResolvedConfig& s) {
    const int64_t tiles = ceil_div(view.q_len, s.q_rows()), all = tiles * view.q_heads * view.b;
    LaunchStep step;
    step.grid = {narrow<std::uint32_t>(all), 1, 1};
    step.block = {narrow<std::uint32_t>(128 * (s.q_warpgroups + 1)), 1, 1};
    step.dynamic_smem_bytes = static_cast<std::size_t>(s.q_smem_bytes(view));
    step.arguments = pass_arguments(problem, view, Scratch::workspace, s.q_rows(), s.q_block_k);
    const std::vector<Argument> rest = {TensorArg{attention_bwd::kDq},
                                        ScalarArg{attention::kScale},
                                        i32(view.q_heads),
                                        i32(view.group()),
                                        i32(view.q_len),
                                        i32(view.kv_len),
                                        i32(padded_rows(view)),
                                        i32(view.band.low),
                                        i32(view.band.high)};
    step.arguments.insert(step.arguments.end(), rest.begin(), rest.end());
    add_strides(step.arguments, view.dq_strides);
    const int64_t at_once =
        std::min(heads_at_once(view, s.l2_group_mib, view.kv_len, view.kv_heads) * view.group(), view.b * view.q_heads);
    for (const int64_t value : {tiles, all, s.l2_group_mib == 0 ? 1 : at_once, s.tile_order})
        step.arguments.push_back(i32(value));
    return step;
}

LaunchStep key_step(const Problem& problem, const View& view, const ResolvedConfig& s) {
    const int64_t tiles = ceil_div(view.kv_len, s.k_rows()), all = tiles * view.kv_heads * view.b;
    LaunchStep step;
    step.entry = "_keys";
    step.grid = {narrow<std::uint32_t>(splits_sums(view) ? 2 * all : all), 1, 1};
    step.block = {narrow<std::uint32_t>(128 * (s.k_warpgroups + 1)), 1, 1};
    step.dynamic_smem_bytes = static_cast<std::size_t>(s.k_smem_bytes(view));
    step.arguments = pass_arguments(problem, view, Scratch::workspace, s.k_block_q, s.k_rows());
    add_key_arguments(step.arguments, view);
    // Most queries see the first keys, so the first keys come first in each of these orders.
    for (const int64_t value : {tiles, all, heads_at_once(view, s.l2_group_mib, view.q_len, view.kv_heads), int64_t{0}})
        step.arguments.push_back(i32(value));
    return step;
}

// Microseconds, for ranking: products at a rate that grows with the tiles, and a share of the longest tile at the end. Fitted
// like that of one_pass.
double predict(const View& view, const ResolvedConfig& s, const Device& device) {
    const double sms = std::max(device.identity.sm_count, 1);
    const auto columns = static_cast<double>(ResolvedConfig::columns(view));
    const auto rate = [](int64_t groups, int64_t length) {
        return 1900.0 *
               (groups == 1   ? 0.6
                : groups == 2 ? 0.9
                              : 0.95) *
               static_cast<double>(length) / (static_cast<double>(length) + 30.0);
    };
    const bool grows = view.band.has_high && !view.band.has_low;
    const int64_t heads = view.b * view.q_heads;
    // Pairs of tiles that the diagonal crosses are computed as a whole, but partly during waits.
    const auto pairs = [&](int64_t owned, int64_t walked) {
        const auto diagonal = static_cast<double>(heads * std::min(view.q_len, view.kv_len));
        return view.visible_pairs() + (grows ? 0.3 * diagonal * static_cast<double>(owned + walked) : 0.0);
    };
    const double q_macs = pairs(s.q_rows(), s.q_block_k) * (columns + static_cast<double>(padded(view.d)));
    const double k_macs =
        pairs(s.k_rows(), s.k_block_q) * (2 * columns + (splits_sums(view) ? static_cast<double>(padded(view.d)) : 0.0));
    const double scale = 1980.0 / std::max(device.clock_mhz, 1.0) / (sms * 2048.0);
    const double q_us = q_macs * scale / rate(s.q_warpgroups, s.q_block_k),
                 k_us = k_macs * scale / rate(s.k_warpgroups, s.k_block_q);
    // This includes a block's time before and after its products.
    const auto tail = [&](double us, int64_t tiles) {
        const double waves = static_cast<double>(tiles) / sms, blocks_us = 5.7 * std::max(waves, 1.0);
        if (!grows) return blocks_us + us * std::max(1.0, 1 / waves);
        return blocks_us +
               us * std::max(1 + (s.tile_order == 1 ? 0.1 : 0.8) / waves, 1.78 / waves);  // the longest tile takes twice the mean
    };
    return tail(q_us, ceil_div(view.q_len, s.q_rows()) * heads) +
           tail(k_us, ceil_div(view.kv_len, s.k_rows()) * view.b * view.kv_heads * (splits_sums(view) ? 2 : 1)) -
           (s.q_stages + s.k_stages > 4 ? 0.5 : 0.0) - (s.pdl != 0 ? 1.0 : 0.0);
}

class AttentionBwdWgmma final : public StructuredFamily {
  public:
    std::string_view name() const override { return "attention_bwd/wgmma"; }
    std::string_view about() const override {
        return "two passes of wgmma fed by TMA, one for dQ, one for dK and dV, no atomics, sm_90a alone";
    }
    int complexity_order() const override { return 40; }

    std::optional<std::string> refuses(const Problem& problem, const Device& device) const override {
        const View view(problem);
        if (auto reason = attention_bwd::refuses_wgmma(view, device)) return reason;
        return std::nullopt;
    }

    std::vector<Binding> facts(const Problem& problem) const override { return attention_bwd::wgmma_facts(problem); }

    LaunchPlan plan(const Problem& problem, const Config& config, const Device&) const override {
        const View view(problem);
        LaunchPlan plan;
        if (view.rows() == 0 || view.kv_len == 0) return plan;
        const auto s = resolve<ResolvedConfig>(config);
        plan.workspace_bytes = static_cast<std::size_t>(2 * vector_bytes(view));
        plan.steps = {attention_bwd::prepare_step(view, Scratch::workspace), query_step(problem, view, s),
                      key_step(problem, view, s)};
        for (LaunchStep& step : plan.steps) step.programmatic_dependent = s.pdl != 0;
        return plan;
    }

    Predictor predictor(const Problem& problem, const Device& device) const override {
        return [view = View(problem), device](const Config& config) {
            return predict(view, resolve<ResolvedConfig>(config), device);
        };
    }

  protected:
    std::vector<Parameter> parameters() const override { return ResolvedConfig::parameters(); }
    std::vector<Constraint> constraints(const Problem& problem, const Device& device) const override {
        return autotune::constraints(View(problem), device);
    }
    Config usual_config(const SearchSpace& rules, const Problem& problem, const Device&) const override {
        return autotune::usual_config(View(problem), rules);
    }
    std::vector<NamedConfig> named_configs(const Problem& problem, const Device& device) const override {
        const Config usual = autotune::usual_config(View(problem), rules(problem, device));
        std::vector<NamedConfig> named = {{"two_pass_wgmma", usual}};
        const auto add = [&](const char* name, std::initializer_list<std::pair<const char*, int64_t>> changes) {
            Config config = usual;
            for (const auto& [parameter, value] : changes) config.set(parameter, value);
            named.push_back({name, config});
        };
        add("two_pass_wgmma_k64", {{"q_block_k", 64}, {"k_block_q", 48}});
        add("two_pass_wgmma_k96_stage2", {{"q_block_k", 96}, {"q_stages", 2}, {"k_stages", 2}});
        add("two_pass_wgmma_groups3", {{"q_warpgroups", 3}, {"q_block_k", 64}, {"k_warpgroups", 3}, {"k_block_q", 48}});
        add("two_pass_wgmma_groups1", {{"q_warpgroups", 1}, {"k_warpgroups", 1}});
        return named;
    }
};

}  // namespace

const Family& family_attention_bwd_wgmma() {
    static const Immortal<AttentionBwdWgmma> family;
    return *family;
}

}  // namespace autotune
