#include "src/core/family/family.h"

#include <algorithm>
#include <functional>

#include "kernel_templates/attention/shared/tma_tiles.h"
#include "kernel_templates/attention/wgmma/geometry.h"
#include "kernel_templates/gemm/shared/family_parts.h"
#include "kernel_templates/registry.h"
#include "kernel_templates/structured_family.h"
#include "src/core/immortal.h"
#include "src/core/integer_math.h"

namespace autotune {
namespace {

using attention::map_of;
using attention::padded;
using attention::View;
using attention_wgmma::Grid;
using attention_wgmma::ResolvedConfig;
using gemm::i32;
using std::int64_t;

constexpr int64_t kOtherRegisters = 32;  // registers that a thread needs besides accumulators and weights
constexpr int64_t kOtherOfProduct = 30;  // registers that ptxas needs for one wgmma, besides its accumulators

constexpr auto rule = rules_by<ResolvedConfig>();

void add_tile_rules(std::vector<Constraint>& to, const View& view, const Device& device) {
    to.push_back({"a tile has twice the queries that there are", {"consumer_warpgroups"}, rule([=](const ResolvedConfig& s) {
                      return s.consumer_warpgroups == 1 || s.block_q() < 2 * view.q_len;
                  })});
    to.push_back({"a tile has twice the keys that there are", {"block_k"}, rule([=](const ResolvedConfig& s) {
                      return s.block_k == 32 || s.block_k < 2 * view.kv_len;
                  })});
    to.push_back({"two blocks an SM with more than one warpgroup each, or more than two with a producer",
                  {"consumer_warpgroups", "blocks_per_sm", "producer"},
                  rule([](const ResolvedConfig& s) {
                      return s.blocks_per_sm == 1 || (s.consumer_warpgroups == 1 && (s.blocks_per_sm == 2 || s.producer == 0));
                  })});
    to.push_back({"no producer in a block with more than one warpgroup or more than one tile",
                  {"consumer_warpgroups", "producer", "schedule"},
                  rule([](const ResolvedConfig& s) {
                      return s.producer == 1 || (s.consumer_warpgroups == 1 && s.schedule == attention_wgmma::kBlockPerTile);
                  })});
    to.push_back(
        {"scores, weights and outputs exceed the registers that setmaxnreg can give",
         {"consumer_warpgroups", "block_k", "blocks_per_sm", "producer", "schedule"},
         rule([=](const ResolvedConfig& s) { return s.fragment_registers(view) + kOtherRegisters <= s.math_registers(view); })});
    to.push_back({"the operands of one product exceed the registers with which a block starts",
                  {"consumer_warpgroups", "block_k", "blocks_per_sm", "producer"},
                  rule([=](const ResolvedConfig& s) {
                      return std::max(s.block_k, padded(view.dv)) / 2 + kOtherOfProduct <= s.registers_at_start();
                  })});
    to.push_back({"tiles exceed shared memory",
                  {"consumer_warpgroups", "block_k", "stages", "q_buffers", "blocks_per_sm"},
                  rule([=](const ResolvedConfig& s) {
                      constexpr int64_t kOfBlock = 1024;  // shared memory per block that the hardware reserves
                      return s.smem_bytes(view) <= device.limits.smem_per_block_bytes &&
                             s.blocks_per_sm * (s.smem_bytes(view) + kOfBlock) <= device.limits.smem_per_sm_bytes;
                  })});
}

// Tiles of queries.
int64_t undivided(const ResolvedConfig& s, const View& view) {
    return attention::ceil_div(view.q_len, s.block_q()) * view.b * view.q_heads;
}

void add_schedule_rules(std::vector<Constraint>& to, const View& view, const Device& device) {
    to.push_back({"order_groups with fewer than two warpgroups",
                  {"consumer_warpgroups", "order_groups"},
                  rule([](const ResolvedConfig& s) { return s.order_groups == 0 || s.consumer_warpgroups > 1; })});
    to.push_back(
        {"more than one query buffer in a block with a single tile", {"q_buffers", "schedule"}, rule([](const ResolvedConfig& s) {
             return s.q_buffers == 1 || s.schedule != attention_wgmma::kBlockPerTile;
         })});
    to.push_back({"persistent blocks although all tiles run at once",
                  {"consumer_warpgroups", "blocks_per_sm", "schedule", "split_waves"},
                  rule([=](const ResolvedConfig& s) {
                      return s.schedule == attention_wgmma::kBlockPerTile || s.split_waves > 1 ||
                             undivided(s, view) > device.identity.sm_count * s.blocks_per_sm;
                  })});
    to.push_back(
        {"keys divided although sequences are packed, undivided tiles fill the GPU four times or a part has fewer than two tiles",
         {"consumer_warpgroups", "block_k", "blocks_per_sm", "split_waves"},
         rule([=](const ResolvedConfig& s) {
             if (s.split_waves == 0) return true;
             if (view.is_packed) return false;
             if (undivided(s, view) > 4 * device.identity.sm_count * s.blocks_per_sm) return false;
             return Grid(view, s, device).most_steps >= 2;
         })});
    to.push_back({"tiles from a counter although all take equally long", {"schedule"}, rule([=](const ResolvedConfig& s) {
                      return s.schedule != attention_wgmma::kFromCounter || view.is_masked();
                  })});
    const bool grows = view.band.has_high && !view.band.has_low;
    to.push_back({"tile_order 1 without a mask that ends at the diagonal: all tiles of a head take equally long",
                  {"tile_order"},
                  rule([=](const ResolvedConfig& s) { return s.tile_order == 0 || grows; })});
    to.push_back({"l2_group_mib although the longest tiles do not come first, keys are divided or fewer than two heads fit",
                  {"tile_order", "l2_group_mib", "split_waves"},
                  rule([=](const ResolvedConfig& s) {
                      return s.l2_group_mib == 0 || (s.tile_order == 1 && s.split_waves == 0 &&
                                                     attention_wgmma::heads_at_once(view, s.l2_group_mib) > 1);
                  })});
}

// The simplest config has one tile per block and overlaps nothing.
ResolvedConfig plainest(int64_t consumer_warpgroups, int64_t block_k) {
    ResolvedConfig s;
    s.consumer_warpgroups = consumer_warpgroups, s.block_k = block_k;
    s.stages = 2, s.q_buffers = 1, s.blocks_per_sm = 1, s.producer = 1;
    s.overlap = s.order_groups = s.rescale = s.schedule = s.tile_order = s.l2_group_mib = s.split_waves = s.pdl = 0;
    return s;
}

// Configs from which the default is chosen by predicted time.
std::vector<ResolvedConfig> corners(const View& view) {
    std::vector<ResolvedConfig> all;
    const bool grows = view.band.has_high && !view.band.has_low;
    for (const int64_t groups : {2, 3, 1}) {
        for (const int64_t keys : {176, 128, 112, 96, 80, 64, 48, 32}) {
            ResolvedConfig s = plainest(groups, keys);
            s.overlap = 1;
            s.order_groups = groups == 1 ? 0 : groups == 2 ? 2 : 1;
            s.rescale = groups == 3 ? 1 : 0;
            s.blocks_per_sm = groups == 1 ? 2 : 1;
            s.tile_order = grows ? 1 : 0;
            all.push_back(s);
            s.blocks_per_sm = 1;
            all.push_back(s);
            s.blocks_per_sm = groups == 1 ? 2 : 1;
            s.schedule = view.is_masked() ? attention_wgmma::kFromCounter : attention_wgmma::kDealtOut;
            s.l2_group_mib = grows ? 16 : 0;
            all.push_back(s);
            s.q_buffers = 2;
            all.push_back(s);
            s.l2_group_mib = 0;
            all.push_back(s);
            s.q_buffers = 1;
            all.push_back(s);
            for (s.split_waves = 2; s.split_waves <= 4; ++s.split_waves) all.push_back(s);
        }
    }
    return all;
}

Config choose_default(const SearchSpace& space, const View& view, const Device& device) {
    gemm::DefaultChoice choice(space);
    const auto predict = attention_wgmma::predictor(view, device);
    for (const ResolvedConfig& s : corners(view)) {
        const double time = predict(s);
        if (choice.wants(time)) choice.offer(config_from(s), time);
    }
    return choice.choose();
}

// A series of configs from the simplest kernel to the one with every technique.
std::vector<NamedConfig> named_configs(const View& view, const SearchSpace& space) {
    const int64_t widest = std::max(padded(view.d), padded(view.dv));
    const int64_t keys = widest <= 128 ? 128 : widest <= 192 ? 96 : 64;
    ResolvedConfig s = plainest(2, keys);
    std::vector<NamedConfig> all = {{"wgmma", config_from(s)}};
    const auto add = [&](const char* name) { all.push_back({name, config_from(s)}); };
    s.overlap = 1;
    add("wgmma_overlap");
    s.order_groups = 1;
    add("wgmma_overlap_ordered");
    s.order_groups = 2;
    add("wgmma_overlap_ordered_softmax");
    s.tile_order = attention_wgmma::kLongestFirst;
    add("wgmma_longest_first");
    s.l2_group_mib = 32;
    add("wgmma_longest_first_l2");
    s.schedule = attention_wgmma::kFromCounter;
    add("wgmma_counter");
    s.rescale = 1;
    add("wgmma_counter_lazy");
    s.l2_group_mib = 0;
    s.split_waves = 3;
    add("wgmma_split");
    s = plainest(2, keys);
    s.overlap = 1;
    s.order_groups = 2;
    s.schedule = attention_wgmma::kDealtOut;
    add("wgmma_persistent");
    s.rescale = 1;
    add("wgmma_persistent_lazy");
    s.block_k = 176;
    add("wgmma_persistent_lazy_k176");
    s.split_waves = 3;
    s.block_k = keys;
    add("wgmma_persistent_split");
    s = plainest(3, widest <= 64 ? 128 : 80);
    s.rescale = s.schedule = 1;
    add("wgmma_groups3_lazy");
    s.overlap = s.order_groups = 1;
    add("wgmma_groups3_overlap_ordered");
    s = plainest(1, 80);
    s.overlap = 1;
    s.blocks_per_sm = 2;
    add("wgmma_blocks2");
    s.producer = 0;
    add("wgmma_self_loading");
    s = plainest(1, 64);
    s.overlap = 1;
    s.producer = 0, s.blocks_per_sm = 3;
    add("wgmma_self_loading_blocks3");
    s.block_k = 128;
    add("wgmma_self_loading_blocks3_k128");
    return legal_ones(std::move(all), space);
}

// ---- the launch ----

// Offsets into the workspace: of the counter, and of the stored parts.
struct Workspace {
    std::size_t parts = 0, rows = 0, bytes = 0;
};
Workspace workspace_of(const View& view, const ResolvedConfig& s, const Grid& grid) {
    gemm::WorkspaceLayout layout;
    if (s.schedule == attention_wgmma::kFromCounter) layout.take(4);
    if (grid.most_steps == 0) return {0, 0, layout.bytes()};
    const int64_t rows = grid.all_items() * s.block_q();
    const std::size_t parts = layout.take(rows * padded(view.dv) * 4);
    const std::size_t of_rows = layout.take(rows * 8);
    return {parts, of_rows, layout.bytes()};
}

LaunchStep main_step(const Problem& problem, const ResolvedConfig& s, const Grid& grid, const Workspace& workspace) {
    const View view(problem);
    const attention::Strides& o = view.strides[attention::kO];
    const attention::Band& band = view.is_packed ? view.unaligned : view.band;
    LaunchStep step;
    step.grid = {narrow<std::uint32_t>(grid.blocks), 1, 1};
    step.block = {narrow<std::uint32_t>(s.threads()), 1, 1};
    step.dynamic_smem_bytes = static_cast<std::size_t>(s.smem_bytes(view));
    step.programmatic_dependent = s.pdl != 0;
    step.arguments = {map_of(problem, attention::kQ, s.block_q()),
                      map_of(problem, attention::kK, s.block_k),
                      map_of(problem, attention::kV, s.block_k),
                      TensorArg{attention::kO},
                      TensorArg{attention::kLse},
                      ScalarArg{attention::kScale},
                      i32(view.q_heads),
                      i32(view.group()),
                      i32(view.q_len),
                      i32(view.kv_len),
                      i32(band.low),
                      i32(band.high),
                      I64Arg{o.batch},
                      I64Arg{o.head},
                      I64Arg{o.row},
                      i32(grid.q_tiles),
                      i32(grid.items),
                      i32(grid.all_items()),
                      i32(grid.heads_at_once),
                      i32(s.tile_order),
                      i32(grid.most_steps),
                      WorkspaceArg{0},
                      WorkspaceArg{workspace.parts},
                      WorkspaceArg{workspace.rows}};
    if (view.is_packed)
        for (const Argument& each : attention::packing_arguments(view)) step.arguments.push_back(each);
    return step;
}

// The second kernel adds the parts, eight rows per block.
LaunchStep combine_step(const Problem& problem, const ResolvedConfig& s, const Grid& grid, const Workspace& workspace) {
    const View view(problem);
    const attention::Strides& o = view.strides[attention::kO];
    LaunchStep step;
    step.entry = "_combine";
    step.grid = {narrow<std::uint32_t>(grid.tiles * s.block_q() / 8), 1, 1};
    step.block = {128, 1, 1};
    step.programmatic_dependent = true;
    step.arguments = {TensorArg{attention::kO},
                      TensorArg{attention::kLse},
                      ScalarArg{attention::kScale},
                      i32(view.q_heads),
                      i32(view.group()),
                      i32(view.q_len),
                      i32(view.kv_len),
                      i32(view.band.low),
                      i32(view.band.high),
                      I64Arg{o.batch},
                      I64Arg{o.head},
                      I64Arg{o.row},
                      i32(grid.q_tiles),
                      i32(grid.items),
                      i32(s.tile_order),
                      i32(grid.most_steps),
                      WorkspaceArg{workspace.parts},
                      WorkspaceArg{workspace.rows}};
    return step;
}

class AttentionWgmma final : public StructuredFamily {
  public:
    std::string_view name() const override { return "attention/wgmma"; }
    std::string_view about() const override { return "wgmma fed by TMA, softmax in registers, warp-specialised, sm_90a alone"; }
    int complexity_order() const override { return 40; }

    std::optional<std::string> refuses(const Problem& problem, const Device& device) const override {
        if (device.identity.cc() != 90) return "wgmma exists on compute capability 9.0 alone";
        const View view(problem);
        if (view.type != DType::bf16 && view.type != DType::f16) return "it multiplies bf16 and f16";
        if (std::min({view.align[attention::kQ], view.align[attention::kK], view.align[attention::kV]}) < 16)
            return "TMA reads rows that begin at multiples of 16 bytes";
        // 32 is smaller than any tile, which is needed because the work counter runs past the last item.
        return attention::refuses_grid(view, 32);
    }

    std::vector<Binding> facts(const Problem& problem) const override {
        const View view(problem);
        return {{"element_type", view.type},
                {"d", view.d},
                {"dv", view.dv},
                {"has_low", int64_t{view.band.has_low}},
                {"has_high", int64_t{view.band.has_high}},
                {"align_o", view.align[attention::kO]},
                {"packed", int64_t{view.is_packed}}};
    }

    LaunchPlan plan(const Problem& problem, const Config& config, const Device& device) const override {
        const View view(problem);
        LaunchPlan plan;
        if (view.rows() == 0) return plan;
        const auto s = resolve<ResolvedConfig>(config);
        const Grid grid(view, s, device);
        const Workspace workspace = workspace_of(view, s, grid);
        plan.workspace_bytes = workspace.bytes;
        if (s.schedule == attention_wgmma::kFromCounter) plan.workspace_zero_bytes = 4;
        plan.steps.push_back(main_step(problem, s, grid, workspace));
        if (grid.most_steps > 0) plan.steps.push_back(combine_step(problem, s, grid, workspace));
        return plan;
    }

    Predictor predictor(const Problem& problem, const Device& device) const override {
        return [predict = attention_wgmma::predictor(View(problem), device)](const Config& config) {
            return predict(resolve<ResolvedConfig>(config));
        };
    }

  protected:
    std::vector<Parameter> parameters() const override { return ResolvedConfig::parameters(); }
    std::vector<Constraint> constraints(const Problem& problem, const Device& device) const override {
        const View view(problem);
        std::vector<Constraint> all;
        add_tile_rules(all, view, device);
        add_schedule_rules(all, view, device);
        return all;
    }
    Config usual_config(const SearchSpace& rules, const Problem& problem, const Device& device) const override {
        return choose_default(rules, View(problem), device);
    }
    std::vector<NamedConfig> named_configs(const Problem& problem, const Device& device) const override {
        return autotune::named_configs(View(problem), rules(problem, device));
    }
};

}  // namespace

const Family& family_attention_wgmma() {
    static const Immortal<AttentionWgmma> family;
    return *family;
}

}  // namespace autotune
