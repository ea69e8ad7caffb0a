#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/core/error.h"
#include "tuner/compile/occupancy.h"
#include "tuner/session/engine/engine.h"
#include "tuner/session/tune.h"
#include "tuner/session/tune/candidates.h"

namespace autotune::tuner {
namespace {

constexpr double kUsualCompile_s = 0.8;  // the time of one compile on one core, assumed until a candidate has been compiled

// Whether a space names the config, so that it is worth compiling before others that are not predicted either.
bool is_named(const SearchSpace& space, const Config& config) {
    return config == space.default_config ||
           std::any_of(space.named.begin(), space.named.end(), [&](const NamedConfig& named) { return named.config == config; });
}

// The best predicted candidates, one for each instance. If nothing is predicted: the default and the named configs, then the
// first ones in enumeration order.
std::vector<std::size_t> ranked(const Candidates& candidates, std::size_t count) {
    constexpr double kUnknown_us = std::numeric_limits<double>::max();
    std::vector<std::pair<double, std::size_t>> order;
    for (std::size_t point = 0; point < candidates.size(); ++point) {
        const std::optional<double> predicted_us = candidates.predict_us(point);
        const bool is_first = !predicted_us && is_named(candidates.part_of(point).space, candidates.at(point).config);
        order.emplace_back(predicted_us.value_or(is_first ? kUnknown_us / 2 : kUnknown_us), point);
    }
    std::stable_sort(order.begin(), order.end());
    std::vector<std::size_t> best;
    std::set<std::pair<const Family*, std::string>> instances;
    for (const auto& [predicted_us, point] : order) {
        if (best.size() == count) break;
        const Candidates::Part& part = candidates.part_of(point);
        const bool is_new =
            instances.emplace(part.family, part.space.compile_part(candidates.at(point).config).to_string()).second;
        if (is_new) best.push_back(point);
    }
    return best;
}

void fill(CompiledRow& row, const CompileOutcome& outcome, const LaunchPlan& plan, const Device& device) {
    row.report = outcome.report;
    if (!outcome.failure.empty()) {
        row.status = TrialStatus::compile_failed;
        row.detail = outcome.failure;
        return;
    }
    if (!outcome.rejected.empty()) {
        row.status = TrialStatus::rejected;
        row.detail = outcome.rejected;
    }
    if (plan.steps.empty()) return;
    row.smem_bytes = static_cast<int>(plan.steps.front().dynamic_smem_bytes) + outcome.report.static_smem_bytes;
    row.occupancy = occupancy(plan.steps.front(), outcome.report, device);
}

}  // namespace

std::vector<CompiledRow> compile_ranked(const Problem& problem, const CompileOptions& options, TuneServices& services) {
    const Candidates candidates(services.catalogue, problem, services.device, options.choice);
    Engine engine(services);
    std::vector<CompiledRow> rows;
    std::size_t missing = 0;
    Progress progress;
    const auto begun = Clock::now();
    const auto tell = [&] {
        progress.waiting = static_cast<int>(missing);
        progress.elapsed_s = seconds_since(begun);
        const double each_s = progress.compiled > 0 ? progress.elapsed_s / progress.compiled
                                                    : kUsualCompile_s / std::max(services.workers.compile_workers, 1);
        progress.eta_s = each_s * static_cast<double>(missing);
        if (services.observer != nullptr) services.observer->on_progress(progress);
    };
    try {
        const jit::Target target = engine.target();
        const std::vector<std::size_t> points = ranked(candidates, static_cast<std::size_t>(std::max(options.count, 1)));
        rows.resize(points.size());
        missing = points.size();
        progress.total = static_cast<int>(missing);
        tell();
        for (std::size_t i = 0; i < points.size(); ++i) {
            const Candidates::Part& part = candidates.part_of(points[i]);
            rows[i].candidate = candidates.at(points[i]);
            rows[i].predicted_us = candidates.predict_us(points[i]);
            const LaunchPlan plan = candidates.plan(points[i]);
            const jit::Rendered rendered =
                jit::render(services.catalogue, *part.family, problem, part.space, rows[i].candidate.config, target);
            engine.pool().submit({rendered, 1, 0, options.keep_folder},
                                 [&rows, &missing, &services, &progress, &tell, i, plan](const CompileOutcome& outcome) {
                                     fill(rows[i], outcome, plan, services.device);
                                     --missing;
                                     ++progress.compiled;
                                     progress.failed += rows[i].status == TrialStatus::compile_failed ? 1 : 0;
                                     tell();
                                 });
        }
        engine.wait_for([&] { return missing == 0; });
    } catch (const Interrupted&) {
        throw Error(ErrorCode::interrupted, "stopped; what was compiled is in the cubin cache");
    }
    return rows;
}

}  // namespace autotune::tuner
