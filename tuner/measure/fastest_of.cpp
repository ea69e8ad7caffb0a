#include "tuner/measure/fastest_of.h"

#include <algorithm>
#include <limits>

#include "src/core/statistics/statistics.h"
#include "tuner/measure/racing.h"

namespace autotune::tuner {
namespace {

constexpr int kProbes = 3;
constexpr double kWithinReach = 1.25;  // choices slower than this times the best probe are dropped
constexpr double kWarm_s = 0.1;
constexpr double kCannotRun = std::numeric_limits<double>::infinity();

// A refused launch gets a time that cannot win.
double sample_us(Meter& meter, ProblemFixture& fixture, Runnable& choice, const Meter::Wanted& wanted) {
    try {
        return stats::median(meter.sample(fixture, choice, wanted));
    } catch (const gpu::DriverError& error) {
        if (error.severity() == gpu::Severity::sticky || error.severity() == gpu::Severity::lost) throw;
        return kCannotRun;
    }
}

// Alternates between the choices, so that a drift of the clocks affects all alike.
std::vector<double> probe(Meter& meter, ProblemFixture& fixture, std::vector<Runnable>& choices) {
    std::vector<std::vector<double>> seen(choices.size());
    for (int turn = 0; turn < kProbes; ++turn) {
        for (std::size_t i = 0; i < choices.size(); ++i) {
            if (turn > 0 && seen[i].back() == kCannotRun) continue;
            seen[i].push_back(sample_us(meter, fixture, choices[i], {.samples = 1, .most_samples = 1}));
        }
    }
    std::vector<double> medians;
    for (const std::vector<double>& times : seen)
        medians.push_back(times.back() == kCannotRun ? kCannotRun : stats::median(times));
    return medians;
}

std::vector<std::size_t> within_reach(const std::vector<double>& times_us) {
    const double best_us = *std::min_element(times_us.begin(), times_us.end());
    std::vector<std::size_t> kept;
    for (std::size_t i = 0; i < times_us.size(); ++i) {
        if (times_us[i] != kCannotRun && times_us[i] <= kWithinReach * best_us) kept.push_back(i);
    }
    return kept;
}

}  // namespace

std::optional<std::size_t> fastest_of(Meter& meter, ProblemFixture& fixture, std::vector<Runnable>& choices) {
    if (choices.empty()) return std::nullopt;
    const std::vector<std::size_t> kept = within_reach(probe(meter, fixture, choices));
    if (kept.empty()) return std::nullopt;
    std::vector<FinalistInfo> infos;
    for (const std::size_t choice : kept) infos.push_back({.name = std::to_string(choice)});
    FinalRounds rounds(std::move(infos), {.least_rounds = 12, .most_rounds = 20, .eliminate_after = 5});
    // A turn takes a millisecond; with longer turns, this choice would take most of the time of a table.
    const Meter::Wanted turn = {.samples = 1, .most_samples = 1};
    meter.warm(fixture, choices[kept.front()], kWarm_s);
    while (!rounds.done() && kept.size() > 1) {
        std::vector<double> times_us;
        for (const std::size_t lane : rounds.next_round())
            times_us.push_back(stats::median(meter.sample(fixture, choices[kept[lane]], turn)));
        rounds.report_round(times_us);
    }
    if (kept.size() == 1) return kept.front();
    const std::vector<FinalRow> rows = rounds.rows_against(rounds.verdict().winner);
    const auto fastest =
        std::min_element(rows.begin(), rows.end(), [](const FinalRow& a, const FinalRow& b) { return a.ratio < b.ratio; });
    return kept[fastest->finalist];
}

}  // namespace autotune::tuner
