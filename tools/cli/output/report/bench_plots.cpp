#include "tools/cli/output/report/bench_plots.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "tools/cli/output/report/roofline.h"
#include "tools/cli/output/text/problem_words.h"
#include "tools/cli/output/text/text_format.h"
#include "tools/cli/plot/charts.h"

namespace autotune::cli {
namespace {

using plot::Mark;
using plot::Sample;
using plot::Series;
using plot::Svg;
using plot::XyChart;

constexpr double kPlot_px = 900;  // the width of a plot that has a file of its own

std::string speed_title(const Op& op) {
    return "speed (" + rate_title(op) + ")";
}

std::string problem_title(const std::vector<Benched>& benched) {
    return "problem (" + dimensions_text(benched.front().problem) + ")";
}

bool is_rival(const tuner::BenchRow& row) {
    return !row.candidate;
}

// The group of a row: its family, "winner" or its rival. Rows of one group have the same colour.
std::string group_of(const tuner::BenchRow& row) {
    return row.name == "winner" || is_rival(row) ? row.name : row.candidate->family;
}

template <typename T>
std::size_t place_in(std::vector<T>& list, const T& value) {
    const auto found = std::find(list.begin(), list.end(), value);
    if (found != list.end()) return static_cast<std::size_t>(found - list.begin());
    list.push_back(value);
    return list.size() - 1;
}

std::string subtitle_text(std::span<const Benched> benched, const Device& device) {
    const auto by_rounds = [](const Benched& a, const Benched& b) { return a.result.rounds < b.result.rounds; };
    const auto [least, most] = std::minmax_element(benched.begin(), benched.end(), by_rounds);
    const int fewest = least->result.rounds, all = most->result.rounds;
    return fmt::format("{}, {} interleaved rounds{}", device_text(device.identity),
                       fewest == all ? std::to_string(all) : fmt::format("{} to {}", fewest, all),
                       benched.front().result.sustained ? ", sustained" : ", burst") +
           (benched.front().result.surveyed > 0 ? "; * timed alone in the survey before them" : "");
}

plot::Bar bar_of(const tuner::BenchRow& row, const Benched& benched, const Op& op) {
    plot::Bar bar{.label = row.name};
    if (!row.timing) {
        bar.text = bench_status_text(row);
        bar.title = row.detail;
        return bar;
    }
    bar.value = rate(op, benched.problem, row.timing->median_us);
    bar.text = rate_text(op, benched.problem, row.timing->median_us) + (row.interleaved ? "" : " *");
    bar.title = fmt::format("{}: {} us{}{}", row.name, us_text(row.timing->median_us), row.candidate ? ", " : "",
                            row.candidate ? row.candidate->to_string() : "");
    return bar;
}

// The words that all problems share, shown once instead of with each shape.
std::string shared_class(const std::vector<Benched>& benched) {
    const std::string first = benched.front().problem.class_key();
    const bool alike =
        std::all_of(benched.begin(), benched.end(), [&](const Benched& one) { return one.problem.class_key() == first; });
    return alike ? first : benched.front().problem.op + ", several classes";
}

// Our row comes first, then the rivals in their order. Ratios refer to a problem's first row.
std::vector<std::string> contenders_of(const std::vector<Benched>& benched) {
    std::vector<std::string> names = {"autotune"};
    for (const Benched& one : benched) {
        for (const tuner::BenchRow& row : one.result.rows) {
            if (is_rival(row)) place_in(names, row.name);
        }
    }
    return names;
}

const tuner::BenchRow* row_for(const Benched& benched, const std::string& contender) {
    const tuner::BenchResult& result = benched.result;
    if (contender == "autotune") {
        const bool ours = result.first && !is_rival(result.rows[*result.first]);
        return ours && result.rows[*result.first].timing ? &result.rows[*result.first] : nullptr;
    }
    const auto found = std::find_if(result.rows.begin(), result.rows.end(), [&](const tuner::BenchRow& row) {
        return row.name == contender && row.timing && is_rival(row);
    });
    return found == result.rows.end() ? nullptr : &*found;
}

Sample rate_sample(const Benched& benched, const tuner::BenchRow& row, const Op& op, double x) {
    const Timing& timing = *row.timing;
    return {.x = x,
            .y = rate(op, benched.problem, timing.median_us),
            .low = rate(op, benched.problem, timing.high_us),
            .high = rate(op, benched.problem, timing.low_us),
            .title = fmt::format("{} {}: {} {}", benched.problem.shape(), row.name,
                                 rate_text(op, benched.problem, timing.median_us), rate_title(op))};
}

// Plots rates against FLOP per byte. If the rate is in bytes, it plots against bytes, because all such problems have the same
// intensity.
Svg roofline_chart(const std::vector<Benched>& benched, const Device& device, const Op& op, double width) {
    const bool by_bytes = op.rate_unit() == "gb_per_s";
    const Roofline roofline = roofline_of(device);
    const auto x_of = [&](const Benched& one) { return by_bytes ? op.bytes(one.problem) : intensity(op, one.problem); };
    XyChart chart{.heading = {fmt::format("{} under the roofline", rate_title(op)), roofline_text(device)},
                  .x_title = by_bytes ? "bytes that must be moved" : "FLOP per byte that must be moved",
                  .y_title = speed_title(op),
                  .x_logarithmic = true,
                  .y_logarithmic = true,
                  .width = width};
    double least = INFINITY, most = 0;
    for (const Benched& one : benched) {
        least = std::min(least, x_of(one));
        most = std::max(most, x_of(one));
    }
    for (const std::string& name : contenders_of(benched)) {
        Series series{.name = name};
        for (const Benched& one : benched) {
            const tuner::BenchRow* row = row_for(one, name);
            if (row != nullptr) series.samples.push_back(rate_sample(one, *row, op, x_of(one)));
        }
        chart.series.push_back(std::move(series));
    }
    Series limit{.name = "ceiling", .mark = Mark::limit};
    constexpr int kSteps = 64;
    for (int step = 0; step <= kSteps; ++step) {
        const double x = least / 1.5 * std::pow(most / least * 2.25, static_cast<double>(step) / kSteps);
        const double fed = by_bytes ? roofline.memory_gb_per_s : roofline.memory_gb_per_s * x * 1e-3;
        limit.samples.push_back({.x = x, .y = by_bytes ? fed : std::min(fed, roofline.peak_tflops)});
    }
    chart.series.push_back(std::move(limit));
    return plot::draw(chart);
}

// Puts the bars of a problem next to each other.
double offset_of(std::size_t contender, std::size_t contenders) {
    return (static_cast<double>(contender) - static_cast<double>(contenders - 1) / 2) * 0.14;
}

std::vector<std::string> names_of(const std::vector<Benched>& benched) {
    std::vector<Problem> problems;
    for (const Benched& one : benched) problems.push_back(one.problem);
    return short_names(problems);
}

Svg rates_chart(const std::vector<Benched>& benched, const Device& device, const Op& op, double width) {
    const Roofline roofline = roofline_of(device);
    XyChart chart{.heading = {"Every problem", "bars: 95 % intervals of the median"},
                  .x_title = problem_title(benched),
                  .y_title = speed_title(op),
                  .categories = names_of(benched),
                  .y_low = 0,
                  .width = width};
    const std::vector<std::string> contenders = contenders_of(benched);
    for (std::size_t which = 0; which < contenders.size(); ++which) {
        Series series{.name = contenders[which]};
        for (std::size_t i = 0; i < benched.size(); ++i) {
            const tuner::BenchRow* row = row_for(benched[i], contenders[which]);
            const double x = static_cast<double>(i) + offset_of(which, contenders.size());
            if (row != nullptr) series.samples.push_back(rate_sample(benched[i], *row, op, x));
        }
        chart.series.push_back(std::move(series));
    }
    Series limit{.name = "ceiling", .mark = Mark::limit};
    for (std::size_t i = 0; i < benched.size(); ++i)
        limit.samples.push_back({.x = static_cast<double>(i), .y = ceiling(roofline, op, benched[i].problem)});
    chart.series.push_back(std::move(limit));
    return plot::draw(chart);
}

double geometric_mean(const std::vector<Sample>& samples) {
    double sum = 0;
    for (const Sample& sample : samples) sum += std::log(sample.y);
    return samples.empty() ? 1 : std::exp(sum / static_cast<double>(samples.size()));
}

// Draws a rival's time / ours, paired in one interleaved run. Above 1 we are faster.
Svg ratios_chart(const std::vector<Benched>& benched, double width) {
    XyChart chart{.heading = {"A rival's time over ours",
                              "above 1 autotune is faster; paired medians of interleaved rounds, 95 % intervals"},
                  .x_title = problem_title(benched),
                  .y_title = "rival's time / ours",
                  .categories = names_of(benched),
                  .width = width};
    const std::vector<std::string> contenders = contenders_of(benched);
    for (std::size_t which = 1; which < contenders.size(); ++which) {
        Series series{.name = "", .colour = which};
        for (std::size_t i = 0; i < benched.size(); ++i) {
            const tuner::BenchRow* row = row_for(benched[i], contenders[which]);
            if (row == nullptr || !row->interleaved || row_for(benched[i], "autotune") == nullptr) continue;
            series.samples.push_back({.x = static_cast<double>(i) + offset_of(which, contenders.size()),
                                      .y = row->ratio_to_first,
                                      .low = row->ratio_low,
                                      .high = row->ratio_high,
                                      .title = fmt::format("{}: {:.3f}", benched[i].problem.shape(), row->ratio_to_first)});
        }
        series.name = fmt::format("{} (geometric mean {:.3f})", contenders[which], geometric_mean(series.samples));
        chart.series.push_back(std::move(series));
    }
    chart.series.push_back({.name = "equal",
                            .mark = Mark::limit,
                            .samples = {{.x = -0.6, .y = 1}, {.x = static_cast<double>(benched.size()) - 0.4, .y = 1}}});
    return plot::draw(chart);
}

}  // namespace

std::string ladder_svg(const Benched& benched, const Device& device, const Op& op) {
    plot::BarChart chart{.heading = {problem_text(benched.problem), subtitle_text({&benched, 1}, device)},
                         .value_title = rate_title(op),
                         .bars = {}};
    for (const tuner::BenchRow& row : benched.result.rows) {
        plot::Bar bar = bar_of(row, benched, op);
        bar.series = place_in(chart.series, group_of(row));
        chart.bars.push_back(std::move(bar));
    }
    return plot::draw(chart).document();
}

std::vector<Svg> problem_charts(const std::vector<Benched>& benched, const Device& device, const Op& op, double width) {
    std::vector<Svg> charts = {roofline_chart(benched, device, op, width), rates_chart(benched, device, op, width)};
    if (contenders_of(benched).size() > 1) charts.push_back(ratios_chart(benched, width));
    return charts;
}

std::string problems_svg(const std::vector<Benched>& benched, const Device& device, const Op& op) {
    Svg heading(kPlot_px, 56);
    heading.text({16, 24}, shared_class(benched), "words title");
    heading.text({16, 44}, subtitle_text(benched, device), "muted");
    std::vector<Svg> panels = problem_charts(benched, device, op, kPlot_px);
    panels.insert(panels.begin(), heading);
    return plot::stacked(panels).document();
}

}  // namespace autotune::cli
