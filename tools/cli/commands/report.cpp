#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "src/core/error.h"
#include "src/dispatch/rules/stored_winner.h"
#include "tools/cli/command.h"
#include "tools/cli/output/data/json_format.h"
#include "tools/cli/output/report/bench_plots.h"
#include "tools/cli/output/report/report_page.h"
#include "tools/cli/output/terminal/output_file.h"
#include "tools/cli/output/text/command_line.h"
#include "tools/cli/output/text/evidence_text.h"
#include "tools/cli/output/text/text_format.h"
#include "tools/cli/shared/rows.h"
#include "tuner/session/race/dates.h"

namespace autotune::cli {
namespace {

constexpr std::int64_t kProblemsByDefault = 40;
// Only this many of the newest winners are considered, because reading a winner's rivals takes a look-up each.
constexpr std::size_t kConsidered = 1000;

// The present GPU if it can be queried. A report can be made without a GPU.
std::optional<Gpu> gpu_if_any(Session& session) {
    try {
        std::optional<Gpu> gpu = session.find_gpu();
        if (gpu) session.learn_versions(*gpu);
        return gpu;
    } catch (const Error& error) {
        session.warn(error.what());
        return std::nullopt;
    }
}

// The device of a winner. Clock and bandwidth are not stored, so they are those of the present GPU if it is the same, else of the
// architecture's well-known card.
Device device_of(const db::Winner& winner, const std::optional<Gpu>& gpu) {
    if (gpu && gpu->device.identity.key() == winner.device.key()) return gpu->device;
    Device device = reference_device(arch_or_empty(winner.device)).value_or(Device{});
    device.identity = winner.device;
    return device;
}

std::optional<ReportedProblem> reported(Session& session, const db::WinnerStore& store, const db::Winner& row,
                                        const std::optional<Gpu>& gpu) {
    const auto problem = problem_of(session.catalogue(), row);
    if (!problem) {
        session.warn("left out: " + row.class_key + " " + shape_of(row) + " is not a problem of an op here");
        return std::nullopt;
    }
    const bool compared = gpu && gpu->device.identity.key() == row.device.key();
    const auto today = compared ? std::optional(gpu->provenance) : std::nullopt;
    ReportedProblem one{.problem = *problem, .winner = row};
    one.trials = store.trials(*problem, row.device);
    one.freshness = freshness_of(session.catalogue(), one.winner, *problem, today, session.arguments());
    one.compared = compared;
    one.device = device_of(row, gpu);
    return one;
}

std::size_t limit_of(const Arguments& arguments) {
    if (arguments.has("all") && arguments.has("limit"))
        throw Error(ErrorCode::usage, "--all and --limit exclude each other; give one of them");
    const std::int64_t limit = arguments.has("all") ? 0 : arguments.integer("limit", kProblemsByDefault);
    return limit == 0 ? SIZE_MAX : static_cast<std::size_t>(limit);
}

// At most `limit` winners that match the filter. First come those that were raced against a rival, then the newest.
MatchingRows rows_to_report(Session& session, const db::WinnerStore& store, const RowFilter& filter, std::size_t limit) {
    MatchingRows rows = matching_rows(store, filter, std::max(limit, kConsidered));
    for (db::Winner& row : rows.winners) row = with_evidence(store, session.catalogue(), row);
    std::stable_sort(rows.winners.begin(), rows.winners.end(), [](const db::Winner& a, const db::Winner& b) {
        const bool a_raced = fastest_rival(a.evidence) != nullptr, b_raced = fastest_rival(b.evidence) != nullptr;
        return a_raced != b_raced ? a_raced : a.provenance.date > b.provenance.date;
    });
    if (rows.winners.size() > limit) rows.winners.resize(limit);
    return rows;
}

Report report_of(Session& session, const db::WinnerStore& store, const RowFilter& filter, const std::optional<Gpu>& gpu) {
    const MatchingRows rows = rows_to_report(session, store, filter, limit_of(session.arguments()));
    Report report{.database = store.path(),
                  .version = session.program().version,
                  .date = tuner::now_utc_iso8601(),
                  .winners = rows.total,
                  .problems = {}};
    for (const db::Winner& row : rows.winners) {
        if (auto one = reported(session, store, row, gpu)) report.problems.push_back(std::move(*one));
    }
    return report;
}

// The filter of a plot, which has one op and one device. Without flags they are those of the newest winner.
RowFilter filter_of_plot(const db::WinnerStore& store, RowFilter filter) {
    std::optional<db::Winner> newest;
    scan_rows(store, filter, SIZE_MAX, [&](const db::Winner& row) {
        if (!newest || row.provenance.date > newest->provenance.date) newest = row;
        return true;
    });
    if (!newest) throw Error(ErrorCode::usage, "--plot: no winner matches, so there is nothing to draw");
    filter.op = newest->op;
    filter.device_key = newest->device.key();
    return filter;
}

// One winner of each problem. If a shipped winner and one tuned here exist, it is the one tuned here.
std::vector<const ReportedProblem*> one_each(const Report& report) {
    std::vector<const ReportedProblem*> chosen;
    std::map<std::string, std::size_t> places;  // index in `chosen`, by problem
    for (const ReportedProblem& one : report.problems) {
        const auto [known, is_new] = places.emplace(one.problem.key(), chosen.size());
        if (is_new) {
            chosen.push_back(&one);
        } else if (chosen[known->second]->winner.shipped && !one.winner.shipped) {
            chosen[known->second] = &one;
        }
    }
    return chosen;
}

// Draws all shown problems under one roofline.
std::string overview_svg(const Report& report, const Catalogue& catalogue) {
    if (report.problems.empty()) throw Error(ErrorCode::usage, "--plot: no winner matches, so there is nothing to draw");
    const ReportedProblem& first = report.problems.front();
    std::vector<Benched> benched;
    for (const ReportedProblem* one : one_each(report)) benched.push_back(benched_of(one->problem, one->winner));
    return problems_svg(benched, first.device, catalogue.op_of(first.problem));
}

ExitCode run_report(Session& session, const Arguments& arguments) {
    const std::vector<std::string> kinds = {"html", "plot"};
    if (arguments.has("html") && arguments.text("html") == arguments.text("plot")) {
        throw Error(ErrorCode::usage, "--html and --plot name the same file, " + arguments.text("html") + "; give two");
    }
    std::vector<std::string> files;
    for (const std::string& kind : kinds) {
        if (!arguments.has(kind)) continue;
        require_writable(arguments.text(kind), kind);
        files.push_back(arguments.text(kind));
    }
    if (files.empty())
        throw Error(ErrorCode::usage, "--html or --plot is missing: where to write, for example --html report.html");
    const RowFilter filter = row_filter_of(session);
    limit_of(arguments);
    const db::WinnerStore& store = session.open_store_to_read();
    const std::optional<Gpu> gpu = gpu_if_any(session);
    Json shown = Json::array();
    const auto written = [&](const std::string& kind, const Report& report, const std::string& text, const std::string& of) {
        const std::string file = arguments.text(kind);
        write_output(file, text, kind);
        shown.push_back({{"file", file}, {"shown", report.problems.size()}, {"winners", report.winners}});
        if (!session.json())
            session.out() << fmt::format("{}: {} of {} winners{}\n", file, report.problems.size(), count_text(report.winners),
                                         of);
    };
    if (arguments.has("plot")) {
        const Report report = report_of(session, store, filter_of_plot(store, filter), gpu);
        const std::string svg = overview_svg(report, session.catalogue());
        const ReportedProblem& first = report.problems.front();
        const bool is_chosen = !filter.op.empty() && !filter.device_key.empty();
        written("plot", report, svg,
                " of " + first.problem.op + " on " + device_text(first.winner.device) +
                    (is_chosen ? "" : ", the newest; --op and --device-key choose others"));
    }
    if (arguments.has("html")) {
        const Report report = report_of(session, store, filter, gpu);
        written("html", report, report_html(report, session.catalogue()), "");
    }
    if (session.json()) {
        const Json& page = shown.back();
        print_json(session, {{"file", files.front()},
                             {"files", files},
                             {"shown", page["shown"]},
                             {"winners", page["winners"]},
                             {"written", shown}});
    }
    return ExitCode::done;
}

}  // namespace

Command report_command() {
    return {
        .name = "report",
        .about = "one self-contained page of winners, rivals and searches",
        .examples = {"autotune report --html report.html", "autotune report --op hgemm --shape 4096x4096x2048 --html report.html",
                     "autotune report --shapes benchmarks/sets/classic.txt --all --plot classic.svg"},
        .flags = std::vector<Flag>{{"html", "FILE", "where to write the page", false, {}},
                                   {"plot", "FILE", "SVG: winners and their rivals under the roofline", false, {}}} +
                 problem_flags() +
                 std::vector<Flag>{shapes_flag(),
                                   {"device-key", "KEY", "only winners of this device, as show --json names it", false, {}},
                                   {"limit",
                                    "N",
                                    "winners at most, those with rivals first, then the newest; 0: all; default 40",
                                    false,
                                    {},
                                    integer_value({.least = 0})},
                                   {"all", "", "every winner: the same as --limit 0", false, {}}} +
                 device_flags() + store_flags() + output_flags() + std::vector<Flag>{kernel_flag()},
        .takes_op_options = true,
        .words = "",
        .min_positional = 0,
        .run = run_report};
}

}  // namespace autotune::cli
