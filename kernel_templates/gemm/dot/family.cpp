#include <algorithm>
#include <array>

#include "kernel_templates/gemm/dot/geometry.h"
#include "kernel_templates/gemm/op/gemm_problem.h"
#include "kernel_templates/gemm/shared/tile_shapes.h"
#include "kernel_templates/structured_family.h"
#include "src/core/immortal.h"
#include "src/core/integer_math.h"

namespace autotune {
namespace {

using dot::ResolvedConfig;
using dot::Streams;
using gemm::ceil_div;
using gemm::DefaultChoice;
using gemm::Gemm;
using std::int64_t;

// Registers for the loads of a round; with more the compiler issues only few loads at once.
constexpr int64_t kLoadedRegisters = 64;
constexpr int64_t kOtherRegisters = 24;  // registers for addresses; each column takes two more, for its sum and its offset

// ---- the space ----

constexpr auto rule = rules_by<ResolvedConfig>();

std::vector<Constraint> rules_of(const Streams& x, int64_t registers) {
    return {
        {"the operand with fewer lines is divided among the blocks", {"swap_ab"}, rule([=](const ResolvedConfig& s) {
             return (s.swap_ab != 0) == x.swap_ab;
         })},
        {"a block has no threads for so many lanes, or no eight lines where they are neighbours",
         {"threads", "lanes"},
         rule([=](const ResolvedConfig& s) {
             return x.x_along_k ? s.lanes >= 4 && s.lanes <= s.threads : 8 * s.lanes <= s.threads;
         })},
        {"a thread would store more than one element", {"lanes", "columns"}, rule([](const ResolvedConfig& s) {
             return s.columns <= s.lanes;
         })},
        {"fewer columns cover the other operand", {"columns"}, rule([=](const ResolvedConfig& s) {
             return s.columns == 1 || s.columns < 2 * x.columns;
         })},
        {"half as many lanes reach all of K in one access each", {"lanes"}, rule([=](const ResolvedConfig& s) {
             return s.lanes <= 4 || s.lanes / 2 * x.width() < x.k;
         })},
        {"half as many accesses reach all of K", {"lanes", "unroll"}, rule([=](const ResolvedConfig& s) {
             return s.unroll == 1 || s.lanes * x.width() * s.unroll / 2 < x.k;
         })},
        {"a round of loads exceeds the registers", {"threads", "columns", "unroll"}, rule([=](const ResolvedConfig& s) {
             return s.loaded_registers(x) <= std::min(kLoadedRegisters, registers / s.threads - kOtherRegisters - 2 * s.columns);
         })},
    };
}

ResolvedConfig point(const Streams& x, int64_t threads, int64_t lanes, int64_t columns, int64_t unroll) {
    return {.swap_ab = x.swap_ab ? 1 : 0, .threads = threads, .lanes = lanes, .columns = columns, .unroll = unroll};
}

Config choose_default(const SearchSpace& space, const Streams& x, const Device& device) {
    DefaultChoice choice(space);
    for (const int64_t threads : {64, 128, 256, 512, 1024}) {
        for (int64_t lanes = 2; lanes <= std::min<int64_t>(threads, 256); lanes *= 2) {
            for (const int64_t columns : {1, 2, 4, 8}) {
                for (const int64_t unroll : {32, 16, 8, 4, 2, 1}) {
                    const ResolvedConfig s = point(x, threads, lanes, columns, unroll);
                    const double us = dot::predict(x, s, device);
                    if (choice.wants(us)) choice.offer(config_from(s), us);
                }
            }
        }
    }
    return choice.choose();
}

// ---- the family ----

class Dot final : public StructuredFamily {
  public:
    std::string_view name() const override { return "gemm/dot"; }
    std::string_view about() const override {
        return "small products of few rows or columns: dot products in few instructions, any layout and alignment";
    }
    int complexity_order() const override { return 4; }
    std::optional<std::string> refuses(const Problem& problem, const Device& device) const override;
    std::vector<Binding> facts(const Problem& problem) const override;
    LaunchPlan plan(const Problem& problem, const Config& config, const Device& device) const override;
    Predictor predictor(const Problem& problem, const Device& device) const override {
        return [g = Gemm(problem), device](const Config& config) {
            const auto s = resolve<ResolvedConfig>(config);
            return dot::predict(Streams(g, s.swap_ab != 0), s, device);
        };
    }

  protected:
    std::vector<Parameter> parameters() const override { return ResolvedConfig::parameters(); }
    std::vector<Constraint> constraints(const Problem& problem, const Device& device) const override {
        return rules_of(Streams(Gemm(problem)), device.limits.registers_per_sm);
    }
    Config usual_config(const SearchSpace& rules, const Problem& problem, const Device& device) const override {
        return choose_default(rules, Streams(Gemm(problem)), device);
    }
    std::vector<NamedConfig> named_configs(const Problem& problem, const Device&) const override {
        const Streams x{Gemm(problem)};
        return {{"warp_a_line", config_from(point(x, 128, 32, 1, 4))},
                {"block_a_line", config_from(point(x, 256, 256, 1, 4))},
                {"four_warps_along_k", config_from(point(x, 128, 4, 1, 8))}};
    }
};

std::optional<std::string> Dot::refuses(const Problem& problem, const Device& device) const {
    if (device.identity.cc() < 80) return "bf16 in its loads and stores needs sm_80 or later";
    return gemm::refuses_streams(problem);
}

std::vector<Binding> Dot::facts(const Problem& problem) const {
    std::vector<Binding> all = gemm::stream_facts(problem);
    all.push_back({"reads_c", int64_t{Gemm(problem).reads_c}});
    return all;
}

LaunchPlan Dot::plan(const Problem& problem, const Config& config, const Device& device) const {
    const Gemm g(problem);
    LaunchPlan plan;
    if (g.m == 0 || g.n == 0 || g.batch == 0) return plan;
    const auto s = resolve<ResolvedConfig>(config);
    const Streams x(g, s.swap_ab != 0);
    LaunchStep step;
    step.grid = {narrow<std::uint32_t>(ceil_div(x.lines, s.block_lines())), narrow<std::uint32_t>(ceil_div(x.columns, s.columns)),
                 narrow<std::uint32_t>(g.batch)};
    step.block = gemm::one_dimension(s.threads);
    step.programmatic_dependent = device.identity.cc_major >= 9;
    step.arguments = gemm::arguments(problem);
    step.arguments.pop_back();  // no workspace
    plan.steps.push_back(std::move(step));
    return plan;
}

}  // namespace

const Family& family_gemm_dot() {
    static const Immortal<Dot> family;
    return *family;
}

}  // namespace autotune
