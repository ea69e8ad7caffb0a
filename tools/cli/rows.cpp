#include "tools/cli/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "src/core/error.h"
#include "tools/cli/json_forms.h"
#include "tools/cli/messages.h"
#include "tools/cli/requests.h"
#include "tools/cli/text_forms.h"

namespace autotune::cli {
namespace {

// Same problem, device, template and layer.
bool same_row(const db::Winner& a, const db::Winner& b) {
    return a.shipped == b.shipped && a.template_identity == b.template_identity && a.device.key() == b.device.key() &&
           a.candidate.family == b.candidate.family;
}

}  // namespace

RowFilter row_filter_of(Session& session) {
    const Arguments& arguments = session.arguments();
    RowFilter filter{.op = "", .device_key = arguments.text("device-key"), .problems = {}};
    if (arguments.has("shape") || arguments.has("shapes")) {
        filter.problems = sweep_problems_of(session);
        if (!are_of_one_op(filter.problems))
            throw Error(ErrorCode::usage, "--shapes names problems of several ops; stored rows are asked for by op");
        filter.op = filter.problems.front().op;
    } else if (arguments.has("op")) {
        filter.op = op_named(session, arguments.text("op")).name();
    }
    return filter;
}

MatchingRows matching_rows(const db::Store& store, const RowFilter& filter, std::size_t limit) {
    MatchingRows rows;
    if (filter.problems.empty()) {
        // The whole table is counted by the database and not read: 100,000 rows are listed in the time of fifty.
        rows.winners = store.list({.op = filter.op, .class_key = "", .device_key = filter.device_key, .limit = limit});
        rows.total = static_cast<std::uint64_t>(
            store.count({.op = filter.op, .class_key = "", .device_key = filter.device_key, .limit = SIZE_MAX}));
        return rows;
    }
    std::set<std::string> seen;  // a list of shapes may name one twice
    for (const Problem& problem : filter.problems) {
        if (!seen.insert(problem.key()).second) continue;
        for (db::Winner& winner : store.list({.op = filter.op,
                                  .class_key = problem.class_key(),
                                  .device_key = filter.device_key,
                                  .extents = problem.extents})) {
            ++rows.total;
            if (rows.winners.size() < limit) rows.winners.push_back(std::move(winner));
        }
    }
    return rows;
}

db::Winner with_evidence(const db::Store& store, const Catalogue& catalogue, const db::Winner& row) {
    if (const auto problem = problem_of(catalogue, row)) {
        for (db::Winner& full : store.find(*problem, row.device)) {
            if (same_row(full, row)) return std::move(full);
        }
    }
    return row;
}

std::string shape_of(const db::Winner& winner) {
    Problem bare;
    bare.extents = winner.extents;
    return bare.shape();
}

db::TakeOptions take_options(Session& session) {
    const Catalogue& catalogue = session.catalogue();
    return {.check = [&catalogue](const db::Winner& winner) -> std::optional<std::string> {
                const std::string reason = why_unusable(catalogue, winner);
                return reason.empty() ? std::nullopt : std::optional(reason);
            },
            .dry_run = session.arguments().has("dry-run"),
            .stopped = [&session] { return session.stopped(); }};
}

ExitCode report_taken(Session& session, const std::vector<std::pair<std::string, db::TakeReport>>& taken) {
    std::int64_t refused = 0;
    Json files = Json::array();
    for (const auto& [file, report] : taken) {
        refused += report.refused;
        for (const std::string& refusal : report.refusals) session.warn(file + ": " + refusal);
        files.push_back({{"file", file},
                         {"added", report.added},
                         {"replaced", report.replaced},
                         {"kept", report.kept},
                         {"refused", report.refused}});
        if (session.json()) continue;
        session.out() << fmt::format("{}: {} added, {} replaced, {} kept as they were, {} refused\n", printable(file),
                                     report.added, report.replaced, report.kept, report.refused);
    }
    if (session.json()) print_json(session, {{"dry_run", session.arguments().has("dry-run")}, {"files", files}});
    if (session.stopped()) throw Error(ErrorCode::interrupted, "interrupted; the rows taken so far are kept");
    return refused == 0 ? ExitCode::done : ExitCode::some_failed;
}

}  // namespace autotune::cli
