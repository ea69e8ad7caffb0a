#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "src/core/error.h"
#include "tools/cli/command.h"
#include "tools/cli/json_forms.h"
#include "tools/cli/output_file.h"
#include "tools/cli/report_page.h"
#include "tools/cli/rows.h"
#include "tools/cli/text_forms.h"
#include "tuner/dates.h"

namespace autotune::cli {
namespace {

constexpr std::int64_t kShownByDefault = 40;

// The GPU at hand, if it can be asked; a report needs none.
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

// Clock and bandwidth are not stored: those of the GPU at hand if it is the same, else of the architecture's well-known card.
Device device_of(const db::Winner& winner, const std::optional<Gpu>& gpu) {
    if (gpu && gpu->device.identity.key() == winner.device.key()) return gpu->device;
    Device device = reference_device(arch_or_empty(winner.device)).value_or(Device{});
    device.identity = winner.device;
    return device;
}

std::optional<ReportedProblem> reported(Session& session, const db::Store& store, const db::Winner& row,
                                        const std::optional<Gpu>& gpu) {
    const auto problem = problem_of(session.catalogue(), row);
    if (!problem) {
        session.warn("left out: " + row.class_key + " " + shape_of(row) + " is not a problem of an op here");
        return std::nullopt;
    }
    const bool compared = gpu && gpu->device.identity.key() == row.device.key();
    const auto today = compared ? std::optional(gpu->provenance) : std::nullopt;
    ReportedProblem one{.problem = *problem, .winner = with_evidence(store, session.catalogue(), row)};
    one.trials = store.trials(*problem, row.device);
    one.freshness = freshness_of(session.catalogue(), one.winner, *problem, today);
    one.compared = compared;
    one.device = device_of(row, gpu);
    return one;
}

Report report_of(Session& session, const db::Store& store) {
    const auto limit = session.arguments().integer("limit", kShownByDefault, {.least = 0});
    const MatchingRows rows =
        matching_rows(store, row_filter_of(session), limit == 0 ? SIZE_MAX : static_cast<std::size_t>(limit));
    const std::optional<Gpu> gpu = gpu_if_any(session);
    Report report{.database = store.path(),
                  .version = session.program().version,
                  .date = tuner::today_utc(),
                  .winners = rows.total,
                  .problems = {}};
    for (const db::Winner& row : rows.winners) {
        if (auto one = reported(session, store, row, gpu)) report.problems.push_back(std::move(*one));
    }
    return report;
}

ExitCode run(Session& session, const Arguments& arguments) {
    if (!arguments.has("html"))
        throw Error(ErrorCode::usage, "--html is missing: where to write the page, for example report.html");
    const std::string path = arguments.text("html");
    require_writable(path, "html");
    const db::Store store = session.open_store_to_read();
    const Report report = report_of(session, store);
    write_output(path, report_html(report, session.catalogue()), "html");
    if (session.json()) {
        print_json(session, {{"file", path}, {"shown", report.problems.size()}, {"winners", report.winners}});
    } else {
        session.out() << fmt::format("{}: {} of {} winners\n", path, report.problems.size(), count_text(report.winners));
    }
    return ExitCode::done;
}

}  // namespace

Command report_command() {
    return {.name = "report",
            .about = "one self-contained page of winners, rivals and searches",
            .examples = {"autotune report --html report.html",
                         "autotune report --op hgemm --shape 4096x4096x2048 --html report.html"},
            .flags = std::vector<Flag>{{"html", "FILE", "where to write the page", false, {}}} + problem_flags() +
                     std::vector<Flag>{{"device-key", "KEY", "only winners of this device, as show --json names it", false, {}},
                                       {"limit", "N", "winners at most, newest first; 0: all; default 40", false, {}}} +
                     device_flags() + store_flags() + output_flags(),
            .takes_op_options = true,
            .words = "",
            .fewest_words = 0,
            .run = run};
}

}  // namespace autotune::cli
