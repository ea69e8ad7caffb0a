#include "tuner/replay/simulate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <span>
#include <unordered_set>

#include "src/core/error.h"
#include "src/core/statistics/statistics.h"
#include "tuner/search/search.h"
#include "tuner/search/search_domain.h"

namespace autotune::tuner {
namespace {

constexpr std::array<double, 4> kWithinPercent{10, 5, 1, 2};
constexpr std::array<std::size_t, 3> kAfterEvaluations{50, 100, 220};
constexpr std::size_t kCurvePoints = 1'000;

// One run of one strategy: the evaluations at which the best time improved, and the number of instances compiled by then.
struct Step {
    std::size_t evaluations = 0;
    std::size_t instances = 0;
    double best_us = 0;
};
struct Run {
    std::vector<Step> steps;
    double ask_ms_worst = 0;

    // The best time after this many evaluations; infinity if nothing worked by then.
    double best_after_us(std::size_t evaluations) const {
        double best_us = std::numeric_limits<double>::infinity();
        for (const Step& step : steps) {
            if (step.evaluations <= evaluations) best_us = step.best_us;
        }
        return best_us;
    }
    const Step* first_within(double limit_us) const {
        for (const Step& step : steps) {
            if (step.best_us <= limit_us) return &step;
        }
        return nullptr;
    }
};

class Replay {
  public:
    Replay(const RecordedSpace& space, const Domain& domain, double enough_us)
        : space_(space), domain_(domain), enough_us_(enough_us) {}

    // Ends when a time of `enough_us` is found. If that is the optimum, no later report can change the result.
    Run run(std::string_view strategy_name, std::uint64_t seed, std::size_t most, std::size_t batch) const {
        const std::unique_ptr<Strategy> strategy = make_strategy(strategy_name, domain_, seed);
        Run run;
        std::unordered_set<std::size_t> instances;
        std::size_t evaluations = 0;
        double found_us = std::numeric_limits<double>::infinity();
        while (evaluations < most && !strategy->exhausted() && found_us > enough_us_) {
            const auto start = std::chrono::steady_clock::now();
            const std::vector<std::size_t> points = strategy->ask(std::min(batch, most - evaluations));
            const std::chrono::duration<double, std::milli> taken = std::chrono::steady_clock::now() - start;
            run.ask_ms_worst = std::max(run.ask_ms_worst, taken.count());
            check(!points.empty(), "a strategy with points left asks for none while nothing is pending");
            for (const std::size_t point : points) {
                ++evaluations;
                instances.insert(domain_.instance(point));
                const std::optional<double> time_us = space_.rows[point].time_us;
                if (time_us && *time_us < found_us) {
                    found_us = *time_us;
                    run.steps.push_back({.evaluations = evaluations, .instances = instances.size(), .best_us = found_us});
                }
            }
            for (const std::size_t point : points) strategy->report(point, space_.rows[point].time_us);
        }
        return run;
    }

  private:
    const RecordedSpace& space_;
    const Domain& domain_;
    double enough_us_;
};

SimulatedStrategy::Reach reach(const std::vector<Run>& runs, double percent, double best_us, std::size_t most) {
    SimulatedStrategy::Reach result{.percent = percent};
    std::vector<double> evaluations, instances;
    for (const Run& run : runs) {
        const Step* step = run.first_within(best_us * (1 + percent / 100));
        result.runs_solved += step ? 1 : 0;
        evaluations.push_back(static_cast<double>(step ? step->evaluations : most));
        instances.push_back(static_cast<double>(step ? step->instances : most));
    }
    result.median_evaluations = stats::median(evaluations);
    const stats::Interval interval = stats::median_interval(evaluations);
    result.median_low = interval.low;
    result.median_high = interval.high;
    result.p90_evaluations = stats::quantile(evaluations, 0.9);
    result.most_evaluations = *std::max_element(evaluations.begin(), evaluations.end());
    result.median_instances = stats::median(instances);
    return result;
}

std::vector<double> percents_after(const std::vector<Run>& runs, std::size_t evaluations, double best_us) {
    std::vector<double> percents;
    for (const Run& run : runs) percents.push_back(100 * best_us / run.best_after_us(evaluations));
    return percents;
}

std::vector<SimulatedStrategy::After> afters(const std::vector<Run>& runs, double best_us) {
    std::vector<SimulatedStrategy::After> result;
    for (const std::size_t evaluations : kAfterEvaluations) {
        const std::vector<double> percents = percents_after(runs, evaluations, best_us);
        result.push_back({.evaluations = evaluations,
                          .median_percent = stats::median(percents),
                          .worst_percent = *std::min_element(percents.begin(), percents.end())});
    }
    return result;
}

std::vector<double> curve(const std::vector<Run>& runs, std::size_t most, double best_us) {
    std::vector<double> percents;
    for (std::size_t n = 1; n <= std::min(most, kCurvePoints); ++n) {
        percents.push_back(stats::median(percents_after(runs, n, best_us)));
    }
    return percents;
}

// Leaves out the figures that are unknown because runs ended within `until_percent`.
SimulatedStrategy summarize(std::string name, const std::vector<Run>& runs, const Simulation& space, double until_percent) {
    SimulatedStrategy result{
        .name = std::move(name), .runs = static_cast<int>(runs.size()), .within = {}, .after = {}, .curve_percent = {}};
    for (const double percent : kWithinPercent) {
        if (percent >= until_percent) result.within.push_back(reach(runs, percent, space.best_us, space.most_evaluations));
    }
    for (const Run& run : runs) result.ask_ms_worst = std::max(result.ask_ms_worst, run.ask_ms_worst);
    if (until_percent > 0) return result;
    result.after = afters(runs, space.best_us);
    result.curve_percent = curve(runs, space.most_evaluations, space.best_us);
    return result;
}

Simulation describe(const RecordedSpace& space, const Domain& domain) {
    const std::optional<double> best_us = space.best_us();
    if (!best_us) throw Error(ErrorCode::usage, "every point of the recorded space '" + space.name + "' failed: nothing to find");
    Simulation result;
    result.space = space.name;
    result.points = space.rows.size();
    result.instances = count_instances(domain);
    result.best_us = *best_us;
    for (const RecordedSpace::Row& row : space.rows) {
        if (!row.time_us) ++result.failed_points;
        for (std::size_t i = 0; i < kWithinPercent.size(); ++i) {
            if (row.time_us && *row.time_us <= *best_us * (1 + kWithinPercent[i] / 100)) ++result.points_within[i];
        }
    }
    return result;
}

}  // namespace

std::vector<BestOther> against_best_other(const Simulation& simulation) {
    std::vector<BestOther> result;
    if (simulation.strategies.empty()) return result;
    const SimulatedStrategy& first = simulation.strategies.front();
    for (std::size_t i = 0; i < first.within.size(); ++i) {
        const SimulatedStrategy* best = nullptr;
        for (const SimulatedStrategy& other : std::span(simulation.strategies).subspan(1)) {
            // Left out: the number of evaluations of this strategy depends only on the position of a good point in the file.
            if (other.name == "exhaustive") continue;
            if (2 * other.within[i].runs_solved < other.runs) continue;
            if (!best || other.within[i].median_evaluations < best->within[i].median_evaluations) best = &other;
        }
        if (!best) continue;
        const double ratio = first.within[i].median_evaluations / best->within[i].median_evaluations;
        result.push_back({.percent = first.within[i].percent, .name = best->name, .ratio = ratio});
    }
    return result;
}

Simulation simulate(const RecordedSpace& space, const SimulateOptions& options) {
    check(options.runs > 0 && options.batch > 0, "a simulation without runs");
    const Domain domain = make_domain(space);
    Simulation result = describe(space, domain);
    result.most_evaluations =
        options.most_evaluations == 0 ? space.rows.size() : std::min(options.most_evaluations, space.rows.size());
    const Replay replay(space, domain, result.best_us * (1 + options.until_percent / 100));
    const std::vector<std::string> names = options.strategy == "all" ? strategy_names() : std::vector{options.strategy};
    for (const std::string& name : names) {
        std::vector<Run> runs;
        for (int r = 0; r < options.runs; ++r) {
            runs.push_back(
                replay.run(name, options.seed + static_cast<std::uint64_t>(r), result.most_evaluations, options.batch));
        }
        result.strategies.push_back(summarize(name, runs, result, options.until_percent));
    }
    return result;
}

}  // namespace autotune::tuner
