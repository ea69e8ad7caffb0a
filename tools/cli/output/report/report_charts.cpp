#include "tools/cli/output/report/report_charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "src/core/statistics/statistics.h"
#include "tools/cli/output/text/text_format.h"

namespace autotune::cli {
namespace {

using plot::Mark;
using plot::Sample;
using plot::Series;
using plot::XyChart;

constexpr double kChart_px = 460;  // This width fits into a narrow window, and a wide window has room for three charts in a row.
constexpr double kWide = 20;       // an axis is logarithmic if slowest / fastest is at least this

std::vector<const db::StoredTrial*> timed(const std::vector<db::StoredTrial>& trials) {
    std::vector<const db::StoredTrial*> with_time;
    for (const db::StoredTrial& stored : trials) {
        if (stored.trial.timing) with_time.push_back(&stored);
    }
    return with_time;
}

double time_us(const db::StoredTrial* stored) {
    return stored->trial.timing->median_us;
}

bool spreads_wide(const std::vector<const db::StoredTrial*>& trials) {
    const auto [least, most] =
        std::minmax_element(trials.begin(), trials.end(), [](const auto* a, const auto* b) { return time_us(a) < time_us(b); });
    return time_us(*most) > kWide * time_us(*least);
}

// The series with this name, made at its first use.
Series& series_of(XyChart& chart, const std::string& name) {
    for (Series& series : chart.series) {
        if (series.name == name) return series;
    }
    chart.series.push_back({.name = name});
    return chart.series.back();
}

std::string tip(const db::StoredTrial* stored) {
    return us_text(time_us(stored)) + " us  " + stored->trial.candidate.to_string();
}

// Times of the trials, by value of a parameter.
std::map<std::int64_t, std::vector<double>> times_by_value(const std::vector<const db::StoredTrial*>& trials,
                                                           const std::string& family, const std::string& parameter) {
    std::map<std::int64_t, std::vector<double>> times;
    for (const db::StoredTrial* stored : trials) {
        const Candidate& candidate = stored->trial.candidate;
        const auto value = candidate.family == family ? candidate.config.find(parameter) : std::nullopt;
        if (value) times[*value].push_back(time_us(stored));
    }
    return times;
}

plot::Svg parameter_chart(const std::string& name, std::int64_t won, const std::map<std::int64_t, std::vector<double>>& times) {
    XyChart chart{.heading = {name, fmt::format("{} won", won)},
                  .x_title = name,
                  .y_title = "time (us)",
                  .categories = {},
                  .series = {{.name = "best"}, {.name = "middle half"}},
                  .width = 300,
                  .height = 250};
    for (const auto& [value, samples] : times) {
        const double x = static_cast<double>(chart.categories.size());
        chart.categories.push_back(std::to_string(value));
        const double best = *std::min_element(samples.begin(), samples.end());
        const std::string count = fmt::format("{} = {}: {} timed, best {} us", name, value, samples.size(), us_text(best));
        chart.series[0].samples.push_back({.x = x - 0.08, .y = best, .title = count});
        chart.series[1].samples.push_back({.x = x + 0.08,
                                           .y = stats::median(samples),
                                           .low = stats::quantile(samples, 0.25),
                                           .high = stats::quantile(samples, 0.75),
                                           .title = count});
    }
    return plot::draw(chart);
}

}  // namespace

plot::Svg finalists_chart(const db::Evidence& evidence) {
    XyChart chart{.heading = {"Final rounds", fmt::format("time over the winner's: paired medians of {} rounds, 95 % intervals",
                                                          evidence.rounds)},
                  .x_title = "place in the table",
                  .y_title = "time / the winner's",
                  .categories = {},
                  .series = {{.name = "candidates"}, {.name = "rivals"}, {.name = "", .mark = Mark::limit}},
                  .width = kChart_px,
                  .height = 300};
    for (const db::Finalist& finalist : evidence.finalists) {
        const double x = static_cast<double>(chart.categories.size());
        chart.categories.push_back(finalist.candidate ? std::to_string(chart.categories.size() + 1) : finalist.name);
        chart.series[finalist.candidate ? 0 : 1].samples.push_back(
            {.x = x, .y = finalist.ratio, .low = finalist.ratio_low, .high = finalist.ratio_high, .title = finalist.name});
    }
    const double last = static_cast<double>(chart.categories.size()) - 0.4;
    chart.series[2].samples = {{.x = -0.6, .y = 1}, {.x = last, .y = 1}};
    if (chart.series[1].samples.empty()) chart.series.erase(chart.series.begin() + 1);
    return plot::draw(chart);
}

plot::Svg sorted_times_chart(const std::vector<db::StoredTrial>& trials) {
    std::vector<const db::StoredTrial*> sorted = timed(trials);
    std::stable_sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return time_us(a) < time_us(b); });
    XyChart chart{
        .heading = {"Times, sorted", fmt::format("{} timed candidates; bars: 95 % intervals of the median", sorted.size())},
        .x_title = "candidates, fastest first",
        .y_title = "median time (us)",
        .y_logarithmic = spreads_wide(sorted),
        .series = {},
        .width = kChart_px};
    for (std::size_t i = 0; i < sorted.size(); ++i) {
        const Timing& timing = *sorted[i]->trial.timing;
        series_of(chart, sorted[i]->trial.candidate.family)
            .samples.push_back({.x = static_cast<double>(i + 1),
                                .y = timing.median_us,
                                .low = timing.low_us,
                                .high = timing.high_us,
                                .title = tip(sorted[i])});
    }
    return plot::draw(chart);
}

plot::Svg progress_chart(const std::vector<db::StoredTrial>& trials) {
    const std::string first = trials.front().date, last = trials.back().date;
    XyChart chart{.heading = {"Search progress", fmt::format("{} trials, {} to {}", trials.size(), first, last)},
                  .x_title = "trial, in the order of the search",
                  .y_title = "median time (us)",
                  .y_logarithmic = spreads_wide(timed(trials)),
                  .series = {{.name = "trials"}, {.name = "best so far", .mark = Mark::steps}},
                  .width = kChart_px};
    double best = 0;
    for (std::size_t i = 0; i < trials.size(); ++i) {
        if (!trials[i].trial.timing) continue;
        const double x = static_cast<double>(i + 1), us = time_us(&trials[i]);
        best = best > 0 ? std::min(best, us) : us;
        chart.series[0].samples.push_back({.x = x, .y = us, .title = tip(&trials[i])});
        chart.series[1].samples.push_back({.x = x, .y = best});
    }
    return plot::draw(chart);
}

std::vector<plot::Svg> parameter_charts(const std::vector<db::StoredTrial>& trials, const Candidate& winner) {
    std::vector<plot::Svg> charts;
    const std::vector<const db::StoredTrial*> with_time = timed(trials);
    for (const auto& [name, value] : winner.config.values()) {
        const auto times = times_by_value(with_time, winner.family, name);
        if (times.size() > 1) charts.push_back(parameter_chart(name, value, times));
    }
    return charts;
}

std::vector<FailureClass> failure_classes(const std::vector<db::StoredTrial>& trials) {
    std::map<TrialStatus, FailureClass> classes;
    for (const db::StoredTrial& stored : trials) {
        if (stored.trial.status == TrialStatus::ok) continue;
        FailureClass& one = classes[stored.trial.status];
        one.status = to_string(stored.trial.status);
        if (++one.count == 1) one.example = stored.trial.candidate.to_string() + ": " + stored.trial.detail;
    }
    std::vector<FailureClass> list;
    for (auto& [status, one] : classes) list.push_back(std::move(one));
    return list;
}

}  // namespace autotune::cli
