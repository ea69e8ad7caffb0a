#include "db/verdicts.h"

#include <cmath>

#include "db/sqlite/open_file.h"
#include "db/sqlite/sqlite_handle.h"
#include "db/store/trials.h"
#include "src/core/error.h"
#include "src/records/validate.h"

namespace autotune::db {
namespace {

constexpr double kMostRatio = 1e6;

bool is_ratio(double value) {
    return std::isfinite(value) && value > 1 / kMostRatio && value < kMostRatio;
}

}  // namespace

std::optional<std::string> why_invalid(const Verdict& verdict) {
    if (verdict.problem.empty() || !records::is_text(verdict.problem, kMaxVerdictProblem))
        return "its problem is empty, longer than " + std::to_string(kMaxVerdictProblem) + " bytes or no text";
    if (verdict.device.empty() || !records::is_text(verdict.device)) return "its device is missing or too long";
    if (verdict.rival.empty() || !records::is_text(verdict.rival)) return "its rival is missing or too long";
    if (!is_ratio(verdict.in_stream) || !is_ratio(verdict.in_graphs)) return "its ratios are not between 1e-6 and 1e6";
    return std::nullopt;
}

void put_verdicts(const OpenOptions& options, std::span<const Verdict> verdicts) {
    for (const Verdict& verdict : verdicts)
        if (const auto why = why_invalid(verdict)) throw Error(ErrorCode::usage, "the verdict is not stored: " + *why);
    WarningLog log(options.on_warning);
    OpenFile file(options, log);
    Connection& connection = file.use();
    Transaction transaction(connection);
    const std::string now = utc_now();
    for (const Verdict& verdict : verdicts) {
        Query query = connection.query(
            "INSERT OR REPLACE INTO verdict(problem, device, rival, in_stream, in_graphs, date) VALUES(?1, ?2, ?3, ?4, ?5, ?6)");
        query.bind_all(verdict.problem, verdict.device, verdict.rival, verdict.in_stream, verdict.in_graphs, now).run();
    }
    connection.query("DELETE FROM verdict WHERE id <= (SELECT max(id) FROM verdict) - ?1").bind(kMostVerdicts).run();
    transaction.commit();
}

std::vector<Verdict> read_verdicts(const OpenOptions& options, const std::string& rival) {
    WarningLog log(options.on_warning);
    OpenFile file(options, log);
    return file.reading([&](Connection& connection) {
        std::vector<Verdict> found;
        Query query = connection.query(
            "SELECT problem, device, rival, in_stream, in_graphs, date FROM verdict WHERE ?1 = '' OR rival = ?1 ORDER BY id");
        query.bind(rival);
        while (query.next()) {
            Verdict one;
            for (std::string* text : {&one.problem, &one.device, &one.rival}) *text = query.text();
            one.in_stream = query.real();
            one.in_graphs = query.real();
            one.date = records::cleaned(query.text());
            if (!why_invalid(one)) found.push_back(std::move(one));
        }
        return found;
    });
}

}  // namespace autotune::db
