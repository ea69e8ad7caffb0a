#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tools/cli/command.h"
#include "tools/cli/output/data/csv.h"
#include "tools/cli/output/data/json_format.h"
#include "tools/cli/output/terminal/messages.h"
#include "tools/cli/output/terminal/output_file.h"
#include "tools/cli/output/text/text_format.h"
#include "tools/cli/plot/charts.h"

namespace autotune::cli {
namespace {

std::string percent_name(double percent) {
    return fmt::format("{:g}pct", percent);
}

Json strategy_json(const tuner::SimulatedStrategy& strategy) {
    Json json{{"name", strategy.name}, {"runs", strategy.runs}};
    for (const auto& reach : strategy.within) {
        const std::string name = percent_name(reach.percent);
        json["median_evaluations_to_" + name] = reach.median_evaluations;
        json["median_low_evaluations_to_" + name] = reach.median_low;
        json["median_high_evaluations_to_" + name] = reach.median_high;
        json["p90_evaluations_to_" + name] = reach.p90_evaluations;
        json["most_evaluations_to_" + name] = reach.most_evaluations;
        json["median_instances_to_" + name] = reach.median_instances;
        json["runs_solved_" + name] = reach.runs_solved;
    }
    for (const auto& after : strategy.after) {
        json["median_percent_after_" + std::to_string(after.evaluations)] = after.median_percent;
        json["worst_percent_after_" + std::to_string(after.evaluations)] = after.worst_percent;
    }
    json["ask_ms_worst"] = strategy.ask_ms_worst;
    json["curve_percent"] = strategy.curve_percent;
    return json;
}

// The comparison of the first strategy with the best other one, as a row below the table.
std::vector<std::string> comparison_row(const tuner::Simulation& simulation) {
    const std::vector<tuner::BestOther> others = tuner::against_best_other(simulation);
    if (others.empty()) return {};
    std::vector<std::string> cells = {simulation.strategies.front().name + " / best other", ""};
    for (const auto& reach : simulation.strategies.front().within) {
        const auto of_percent = [&](const tuner::BestOther& other) { return other.percent == reach.percent; };
        const auto found = std::find_if(others.begin(), others.end(), of_percent);
        cells.push_back(found == others.end() ? "-" : fmt::format("{:.2f} {}", found->ratio, found->name));
    }
    cells.resize(cells.size() + simulation.strategies.front().after.size());
    return cells;
}

void print_table(Session& session, const tuner::Simulation& simulation) {
    std::vector<Table::Column> columns = {{"strategy", Table::Align::left}, {"runs"}};
    if (!simulation.strategies.empty()) {
        for (const auto& reach : simulation.strategies.front().within)
            columns.push_back({fmt::format("to {:g} %", reach.percent)});
        for (const auto& after : simulation.strategies.front().after)
            columns.push_back({fmt::format("% after {}", after.evaluations)});
    }
    Table table(std::move(columns));
    for (const auto& strategy : simulation.strategies) {
        std::vector<std::string> cells = {strategy.name, std::to_string(strategy.runs)};
        for (const auto& reach : strategy.within)
            cells.push_back(fmt::format("{:.0f} ({:.0f} .. {:.0f}) {}", reach.median_evaluations, reach.median_low,
                                        reach.median_high, reach.runs_solved));
        for (const auto& after : strategy.after) cells.push_back(fmt::format("{:.1f}", after.median_percent));
        table.add(std::move(cells));
    }
    if (std::vector<std::string> comparison = comparison_row(simulation); !comparison.empty()) table.add(std::move(comparison));
    session.out() << fmt::format("{}: {} points, {} failed, {} instances, best {} us\n\n", printable(simulation.space),
                                 count_text(simulation.points), count_text(simulation.failed_points),
                                 count_text(simulation.instances), us_text(simulation.best_us))
                  << table.to_string()
                  << "\nmedian evaluations (95 % interval) runs that got there; median percent of the optimum's speed\n";
}

// Draws the median percent of the optimum's speed by number of evaluations. The axis is logarithmic, because the first
// evaluations matter most.
plot::Svg curves(const tuner::Simulation& simulation) {
    plot::XyChart chart{
        .heading = {simulation.space, fmt::format("median of {} runs; {} points, best {} us",
                                                  simulation.strategies.empty() ? 0 : simulation.strategies.front().runs,
                                                  count_text(simulation.points), us_text(simulation.best_us))},
        .x_title = "evaluations",
        .y_title = "% of the optimum's speed",
        .x_logarithmic = true,
        .series = {},
        .y_high = 100};
    for (const auto& strategy : simulation.strategies) {
        plot::Series series{.name = strategy.name, .mark = plot::Mark::steps};
        for (std::size_t i = 0; i < strategy.curve_percent.size(); ++i)
            series.samples.push_back({.x = static_cast<double>(i + 1), .y = strategy.curve_percent[i]});
        chart.series.push_back(std::move(series));
    }
    return plot::draw(chart);
}

Json simulation_json(const tuner::Simulation& simulation, const std::string& path) {
    Json strategies = Json::array();
    for (const auto& strategy : simulation.strategies) strategies.push_back(strategy_json(strategy));
    Json others = Json::array();
    for (const auto& other : tuner::against_best_other(simulation))
        others.push_back({{"percent", other.percent}, {"name", other.name}, {"ratio", other.ratio}});
    return {{"space", simulation.space},
            {"file", path},
            {"points", simulation.points},
            {"failed_points", simulation.failed_points},
            {"instances", simulation.instances},
            {"best_us", simulation.best_us},
            {"points_within", simulation.points_within},
            {"most_evaluations", simulation.most_evaluations},
            {"strategies", strategies},
            {"best_other", others}};
}

// Adds one row per strategy. Curves are only plotted.
void add_csv_rows(const tuner::Simulation& simulation, std::vector<Json>& rows) {
    for (const auto& strategy : simulation.strategies) {
        Json row{{"space", simulation.space}};
        row.update(strategy_json(strategy));
        row.erase("curve_percent");
        rows.push_back(std::move(row));
    }
}

ExitCode run_simulate(Session& session, const Arguments& arguments) {
    tuner::SimulateOptions options;
    options.strategy = arguments.text("strategy", "all");
    options.runs = static_cast<int>(arguments.integer("runs", options.runs, {.least = 1, .most = 100'000}));
    options.seed = static_cast<std::uint64_t>(arguments.integer("seed", 1, {.least = 0}));
    options.most_evaluations = static_cast<std::size_t>(arguments.integer("evaluations", 0, {.least = 0}));
    options.until_percent = static_cast<double>(arguments.integer("until", 0, {.least = 0, .most = 10}));
    options.batch = static_cast<std::size_t>(arguments.integer("batch", 1, {.least = 1, .most = 4096}));
    if (arguments.has("plot") && options.until_percent > 0)
        throw Error(ErrorCode::usage, "--plot draws runs to the optimum: leave --until out");
    if (arguments.has("plot")) require_writable(arguments.text("plot"), "plot");
    std::vector<Json> rows;
    std::vector<plot::Svg> plots;
    session.document().expect(arguments.words().size());
    for (const std::string& path : arguments.words()) {
        const tuner::Simulation simulation = session.services().simulate(path, options);
        if (session.plain()) print_table(session, simulation);
        if (session.json()) print_json(session, simulation_json(simulation, path));
        add_csv_rows(simulation, rows);
        plots.push_back(curves(simulation));
    }
    if (session.csv()) session.out() << csv_of(rows);
    if (arguments.has("plot")) write_output(arguments.text("plot"), plot::stacked(plots).document(), "plot");
    return ExitCode::done;
}

}  // namespace

Command simulate_command() {
    std::vector<std::string> strategies = tuner::strategy_names();
    strategies.insert(strategies.begin(), "all");
    return {.name = "simulate",
            .about = "replay a recorded space on search strategies, without a GPU",
            .examples = {"autotune simulate space.json.gz --runs 30 --seed 1 --plot curves.svg"},
            .flags =
                std::vector<Flag>{
                    {"strategy", "NAME", "a strategy; default all", false, strategies},
                    {"runs", "N", "runs of each strategy; default 30", false, {}, integer_value({.least = 1, .most = 100'000})},
                    {"seed", "N", "run r uses seed + r", false, {}, seed_value()},
                    {"evaluations", "N", "evaluations of a run at most; 0: all points", false, {}, integer_value({.least = 0})},
                    {"until",
                     "PERCENT",
                     "end a run within this of the optimum: 0 to 10; default 0",
                     false,
                     {},
                     integer_value({.least = 0, .most = 10})},
                    {"batch", "N", "points asked for at a time; default 1", false, {}, integer_value({.least = 1, .most = 4096})},
                    {"plot", "FILE", "SVG: how near the optimum after how many evaluations", false, {}}} +
                table_flags() + std::vector<Flag>{kernel_flag()},
            .takes_op_options = false,
            .words = "FILE...",
            .min_positional = 1,
            .run = run_simulate};
}

}  // namespace autotune::cli
