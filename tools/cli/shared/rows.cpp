#include "tools/cli/shared/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "src/catalogue/former_templates.h"
#include "src/core/error.h"
#include "src/dispatch/rules/stored_winner.h"
#include "tools/cli/input/requests.h"
#include "tools/cli/output/data/json_format.h"
#include "tools/cli/output/terminal/messages.h"
#include "tools/cli/output/text/text_format.h"

namespace autotune::cli {
namespace {

// Whether two rows have the same problem, device, template and layer.
bool same_row(const db::Winner& a, const db::Winner& b) {
    return a.shipped == b.shipped && a.template_identity == b.template_identity && a.device.key() == b.device.key() &&
           a.candidate.family == b.candidate.family;
}

// "2 refused (1 malformed, 1 impossible)".
std::string refused_text(const db::TakeReport& report) {
    std::string reasons;
    for (const auto& [reason, count] : report.refused_for)
        reasons += fmt::format("{}{} {}", reasons.empty() ? "" : ", ", count, db::to_string(reason));
    return fmt::format("{} refused{}", report.refused, reasons.empty() ? "" : " (" + reasons + ")");
}

Json taken_json(const std::string& file, const db::TakeReport& report) {
    Json reasons = Json::object();
    for (const db::Refusal reason : db::kRefusals) {
        const auto found = report.refused_for.find(reason);
        reasons[std::string(db::to_string(reason))] = found == report.refused_for.end() ? 0 : found->second;
    }
    return {{"file", file},
            {"added", report.added},
            {"replaced", report.replaced},
            {"kept", report.kept},
            {"refused", report.refused},
            {"refused_for", reasons},
            {"doubted", report.doubted}};
}

// The reason for rows of a user's op whose kernel file was not given.
constexpr std::string_view kNoKernelFile = "kernel file not here";

bool lacks_its_kernel_file(const Catalogue& catalogue, const db::Winner& winner) {
    return winner.op.starts_with("user_") && catalogue.find_op(winner.op) == nullptr;
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

std::uint64_t scan_rows(const db::WinnerStore& store, const RowFilter& filter, std::size_t limit,
                        const std::function<bool(const db::Winner&)>& use) {
    if (filter.problems.empty()) {
        // If the whole table is listed, the database counts rows instead of reading them, so 100,000 rows take the time of fifty.
        if (limit > 0) store.scan({.op = filter.op, .class_key = "", .device_key = filter.device_key, .limit = limit}, use);
        return static_cast<std::uint64_t>(
            store.count({.op = filter.op, .class_key = "", .device_key = filter.device_key, .limit = SIZE_MAX}));
    }
    std::uint64_t total = 0;
    bool goes_on = true;
    std::set<std::string> seen;  // a list of shapes may name a shape twice
    for (const Problem& problem : filter.problems) {
        if (!seen.insert(problem.key()).second) continue;
        const db::Filter one{
            .op = filter.op, .class_key = problem.class_key(), .device_key = filter.device_key, .extents = problem.extents};
        store.scan(one, [&](const db::Winner& winner) {
            if (++total <= limit && goes_on) goes_on = use(winner);
            return true;
        });
    }
    return total;
}

MatchingRows matching_rows(const db::WinnerStore& store, const RowFilter& filter, std::size_t limit) {
    MatchingRows rows;
    rows.total = scan_rows(store, filter, limit, [&](const db::Winner& winner) {
        rows.winners.push_back(winner);
        return true;
    });
    return rows;
}

db::Winner with_evidence(const db::WinnerStore& store, const Catalogue& catalogue, const db::Winner& row) {
    if (const auto problem = problem_of(catalogue, row)) {
        for (db::Winner& full : store.find(*problem, row.device)) {
            if (same_row(full, row)) return std::move(full);
        }
    }
    return row;
}

std::string passed_over_text(const std::string& path, const db::FileHealth& health) {
    return fmt::format(
        "database {} has rows that are passed over: {} ({}); `autotune doctor --repair` deletes them after a backup", path,
        health.orphans + health.invalid, health.example);
}

std::string shape_of(const db::Winner& winner) {
    Problem bare;
    bare.extents = winner.extents;
    return bare.shape();
}

RowWorth worth_of(TemplateIdentities& identities, const db::Winner& winner) {
    if (lacks_its_kernel_file(identities.catalogue(), winner)) return {.why_not = std::string(kNoKernelFile), .is_refused = true};
    const Family* family = identities.catalogue().find_family(winner.candidate.family);
    if (family == nullptr || identities.of(*family) != winner.template_identity)
        return {.why_not = why_unusable_anywhere(identities, winner).value_or(""), .is_old = true};
    const RowJudgement judged = judge(identities, winner);
    if (judged.verdict == RowJudgement::Verdict::unusable) return {.why_not = judged.why, .is_refused = true};
    if (judged.verdict == RowJudgement::Verdict::impossible)
        return {.why_not = "its evidence is impossible: " + judged.why, .is_refused = true};
    if (const auto why = why_unusable_anywhere(identities, winner)) return {.why_not = *why, .is_refused = winner.doubt.empty()};
    return {};
}

void announce_checks(Session& session, std::uint64_t rows) {
    constexpr std::uint64_t kRowsASecond = 5'000, kMany = 2 * kRowsASecond;
    if (rows < kMany) return;
    session.remark(fmt::format("each of the {} rows is checked against the rules of its kernel, which takes about {} s",
                               count_text(rows), (rows + kRowsASecond - 1) / kRowsASecond));
}

db::TakeOptions take_options(Session& session) {
    const auto identities = std::make_shared<TemplateIdentities>(session.catalogue());
    return {.former = former_templates(session.catalogue()),
            .check = [identities](const db::Winner& winner) -> db::RowVerdict {
                // The row is kept for commands that have the file, and is in doubt until it was raced here.
                if (lacks_its_kernel_file(identities->catalogue(), winner)) return {std::nullopt, std::string(kNoKernelFile)};
                const RowJudgement judged = judge(*identities, winner);
                if (judged.verdict == RowJudgement::Verdict::unusable) return {db::Refusal::unusable, judged.why};
                if (judged.verdict == RowJudgement::Verdict::impossible)
                    return {db::Refusal::impossible, "its evidence is impossible: " + judged.why};
                return {std::nullopt, judged.why};
            },
            .dry_run = session.arguments().has("dry-run"),
            .stopped = [&session] { return session.stopped(); }};
}

void take_rows(Session& session, const std::function<void(db::WinnerStore&)>& take) {
    if (session.arguments().has("dry-run") || !session.is_database_missing()) return take(session.open_store_to_take());
    const std::unique_ptr<db::WinnerStore> taken = db::open_store({.path = ":memory:"});
    take(*taken);
    constexpr std::size_t kBatchRows = 512;
    std::vector<db::Winner> rows;
    db::WinnerStore* store = nullptr;
    const auto write = [&] {
        if (rows.empty()) return;
        if (store == nullptr) store = &session.open_store_to_take();
        // Another process may have created the database in the meantime.
        std::erase_if(rows, [&](const db::Winner& row) {
            const auto ours = store->same_key(row);
            return ours && !db::takes_over(row, *ours);
        });
        store->put_all(rows);
        rows.clear();
    };
    taken->for_each_oldest_first({}, [&](const db::Winner& row) {
        rows.push_back(row);
        if (rows.size() >= kBatchRows) write();
        return true;
    });
    write();
}

ExitCode report_taken(Session& session, const std::vector<std::pair<std::string, db::TakeReport>>& taken) {
    std::int64_t refused = 0;
    Json files = Json::array();
    for (const auto& [file, report] : taken) {
        refused += report.refused;
        for (const std::string& refusal : report.refusals) session.warn(file + ": " + refusal);
        files.push_back(taken_json(file, report));
        if (session.json()) continue;
        session.out() << fmt::format("{}: {} added, {} replaced, {} kept as they were, {}\n", printable(file), report.added,
                                     report.replaced, report.kept, refused_text(report));
        if (report.doubted > 0) {
            session.out() << fmt::format(
                "{}: {} of them are in doubt and answer nothing until `autotune verify` has raced them\n", printable(file),
                report.doubted);
        }
    }
    if (session.json()) print_json(session, {{"dry_run", session.arguments().has("dry-run")}, {"files", files}});
    if (session.stopped()) throw Error(ErrorCode::interrupted, "interrupted; the rows taken so far are kept");
    return refused == 0 ? ExitCode::done : ExitCode::some_failed;
}

}  // namespace autotune::cli
