#include <algorithm>
#include <array>

#include "kernel_templates/gemm/dot_windows/geometry.h"
#include "kernel_templates/gemm/op/gemm_problem.h"
#include "kernel_templates/gemm/shared/tile_shapes.h"
#include "kernel_templates/structured_family.h"
#include "src/core/immortal.h"
#include "src/core/integer_math.h"

namespace autotune {
namespace {

using dot_windows::kWindow;
using dot_windows::ResolvedConfig;
using dot_windows::window_k;
using gemm::DefaultChoice;
using gemm::Gemm;
using gemm::Streams;
using std::int64_t;

constexpr int64_t kOtherRegisters = 40;     // addresses, and elements of Y
constexpr int64_t kStaticSmem = 48 * 1024;  // shared memory that a kernel may use without opting in to more

// ---- the space ----

bool has_clusters(const Device& device) {
    return device.identity.cc_major >= 9;
}

constexpr auto rule = rules_by<ResolvedConfig>();

std::vector<Constraint> rules_of(const Streams& x, const Device& device) {
    const int64_t registers = device.limits.registers_per_sm;
    const bool may_be_clusters = has_clusters(device);
    return {
        {"the operand with fewer lines is divided among the blocks", {"swap_ab"}, rule([=](const ResolvedConfig& s) {
             return (s.swap_ab != 0) == x.swap_ab;
         })},
        {"a block has too few threads for one line, or for two windows where lines are neighbours",
         {"threads", "lanes"},
         rule([=](const ResolvedConfig& s) { return x.x_along_k ? s.lanes <= s.threads : 2 * s.lanes <= s.threads; })},
        {"more than one window a thread where lines are neighbours", {"rows"}, rule([=](const ResolvedConfig& s) {
             return x.x_along_k || s.rows == 1;
         })},
        {"a thread would store more than one element", {"lanes", "rows", "columns"}, rule([=](const ResolvedConfig& s) {
             return (x.x_along_k ? s.rows : kWindow) * s.columns <= s.lanes;
         })},
        {"fewer columns cover the other operand", {"columns"}, rule([=](const ResolvedConfig& s) {
             return s.columns == 1 || s.columns < 2 * x.columns;
         })},
        {"half as many lanes reach all of K in one window each", {"lanes", "cluster_k"}, rule([=](const ResolvedConfig& s) {
             return s.all_lanes() <= 8 || s.all_lanes() / 2 * window_k(x) < x.k;
         })},
        {"half as many windows reach all of K", {"lanes", "unroll", "cluster_k"}, rule([=](const ResolvedConfig& s) {
             return s.unroll == 1 || s.all_lanes() * window_k(x) * s.unroll / 2 < x.k;
         })},
        {"a cluster before sm_90", {"cluster_k"}, rule([=](const ResolvedConfig& s) {
             return s.cluster_k == 1 || may_be_clusters;
         })},
        {"windows and sums exceed the registers", {"threads", "rows", "columns", "unroll"}, rule([=](const ResolvedConfig& s) {
             return s.held_registers(x) + kOtherRegisters <= std::min<int64_t>(registers / s.threads, 168);
         })},
        {"sums that meet exceed 48 KiB of shared memory",
         {"threads", "lanes", "rows", "columns", "cluster_k"},
         rule([=](const ResolvedConfig& s) { return s.smem_bytes(x) <= kStaticSmem; })},
    };
}

ResolvedConfig point(const Streams& x, int64_t threads, int64_t lanes, int64_t rows, int64_t columns, int64_t unroll,
                     int64_t cluster_k) {
    return {.swap_ab = x.swap_ab ? 1 : 0,
            .threads = threads,
            .lanes = lanes,
            .rows = rows,
            .columns = columns,
            .unroll = unroll,
            .cluster_k = cluster_k};
}

// Chooses by prediction. It leaves out configs with the widest blocks and those that the rules refuse.
Config choose_default(const SearchSpace& space, const Streams& x, const Device& device) {
    DefaultChoice choice(space);
    const int64_t most_rows = x.x_along_k ? 4 : 1;
    for (const int64_t threads : {128, 256, 512}) {
        for (int64_t lanes = 8; lanes <= threads / (x.x_along_k ? 1 : 2); lanes *= 2) {
            for (const int64_t cluster_k : {1, 2, 4, 8}) {
                if (cluster_k > 1 && (!has_clusters(device) || lanes < 16)) break;
                if (lanes * cluster_k > 8 && lanes * cluster_k / 2 * window_k(x) >= x.k) break;
                for (int64_t rows = 1; rows <= most_rows; rows *= 2) {
                    for (int64_t columns = 1; columns <= 8 && columns < 2 * x.columns; columns *= 2) {
                        for (const int64_t unroll : {8, 4, 2, 1}) {
                            const ResolvedConfig s = point(x, threads, lanes, rows, columns, unroll, cluster_k);
                            const double us = dot_windows::predict(x, s, device);
                            if (choice.wants(us)) choice.offer(config_from(s), us);
                        }
                    }
                }
            }
        }
    }
    return choice.choose();
}

// ---- the family ----

class DotWindows final : public StructuredFamily {
  public:
    std::string_view name() const override { return "gemm/dot_windows"; }
    std::string_view about() const override {
        return "few rows or columns, rows of the large operand not aligned: dot products, 16 bytes a load wherever rows begin";
    }
    int complexity_order() const override { return 4; }
    std::optional<std::string> refuses(const Problem& problem, const Device& device) const override;
    std::vector<Binding> facts(const Problem& problem) const override;
    LaunchPlan plan(const Problem& problem, const Config& config, const Device& device) const override;
    Predictor predictor(const Problem& problem, const Device& device) const override {
        return [g = Gemm(problem), device](const Config& config) {
            const auto s = resolve<ResolvedConfig>(config);
            return dot_windows::predict(Streams(g, s.swap_ab != 0), s, device);
        };
    }

  protected:
    std::vector<Parameter> parameters() const override { return ResolvedConfig::parameters(); }
    std::vector<Constraint> constraints(const Problem& problem, const Device& device) const override {
        return rules_of(Streams(Gemm(problem)), device);
    }
    Config usual_config(const SearchSpace& rules, const Problem& problem, const Device& device) const override {
        return choose_default(rules, Streams(Gemm(problem)), device);
    }
    std::vector<NamedConfig> named_configs(const Problem& problem, const Device& device) const override {
        const Streams x{Gemm(problem)};
        std::vector<NamedConfig> named;
        named.push_back({"few_lanes", config_from(x.x_along_k ? point(x, 128, 32, 1, 1, 2, 1) : point(x, 256, 8, 1, 1, 4, 1))});
        named.push_back(
            {"many_lanes", config_from(x.x_along_k ? point(x, 256, 256, 1, 1, 2, 1) : point(x, 512, 64, 1, 1, 4, 1))});
        if (has_clusters(device)) named.push_back({"four_blocks_along_k", config_from(point(x, 256, 32, 1, 1, 2, 4))});
        return named;
    }
};

std::optional<std::string> DotWindows::refuses(const Problem& problem, const Device& device) const {
    if (device.identity.cc() < 80) return "bf16 in its loads and stores needs sm_80 or later";
    if (auto reason = gemm::refuses_streams(problem)) return reason;
    const Streams x{Gemm(problem)};
    if (x.align_x >= gemm::kChunkBytes)
        return "rows of the large operand are aligned: gemm/dot and gemm/gemv read them as they are";
    return std::nullopt;
}

std::vector<Binding> DotWindows::facts(const Problem& problem) const {
    std::vector<Binding> all = gemm::stream_facts(problem);
    std::erase_if(all, [](const Binding& each) { return each.name == "align_a" || each.name == "align_b"; });
    all.push_back({"reads_c", int64_t{Gemm(problem).reads_c}});
    return all;
}

LaunchPlan DotWindows::plan(const Problem& problem, const Config& config, const Device& device) const {
    const Gemm g(problem);
    LaunchPlan plan;
    if (g.m == 0 || g.n == 0 || g.batch == 0) return plan;
    const auto s = resolve<ResolvedConfig>(config);
    const Streams x(g, s.swap_ab != 0);
    LaunchStep step;
    step.grid = {narrow<std::uint32_t>(s.clusters(x) * s.cluster_k), narrow<std::uint32_t>(gemm::ceil_div(x.columns, s.columns)),
                 narrow<std::uint32_t>(g.batch)};
    step.block = gemm::one_dimension(s.threads);
    step.cluster = gemm::one_dimension(s.cluster_k);
    step.programmatic_dependent = device.identity.cc_major >= 9;
    step.arguments = gemm::arguments(problem);
    step.arguments.pop_back();  // no workspace
    plan.steps.push_back(std::move(step));
    plan.deterministic = !x.x_along_k;  // otherwise the address of X decides which thread adds which k
    return plan;
}

}  // namespace

const Family& family_gemm_dot_windows() {
    static const Immortal<DotWindows> family;
    return *family;
}

}  // namespace autotune
