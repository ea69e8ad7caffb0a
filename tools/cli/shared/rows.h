#pragma once

#include <functional>
#include <string>
#include <vector>

#include "db/text/transfer.h"
#include "db/winner_store.h"
#include "src/dispatch/rules/stored_winner.h"
#include "tools/cli/session.h"

namespace autotune::cli {

// Selects the stored winners that a command works on: --op, --shape with the op's options, --shapes, --device-key.
struct RowFilter {
    std::string op;
    std::string device_key;
    std::vector<Problem> problems;  // empty: any of the op
    bool matches_all() const { return op.empty() && device_key.empty(); }
};
RowFilter row_filter_of(Session& session);

struct MatchingRows {
    std::vector<db::Winner> winners;  // at most the requested number
    std::uint64_t total = 0;
};
// Passes matching rows one by one in bounded memory, `limit` at most and as long as `use` returns true. Returns how many match.
std::uint64_t scan_rows(const db::WinnerStore& store, const RowFilter& filter, std::size_t limit,
                        const std::function<bool(const db::Winner&)>& use);
MatchingRows matching_rows(const db::WinnerStore& store, const RowFilter& filter, std::size_t limit);

// "database PATH has rows that are passed over: 3 (row 7: WHY); ...". REQUIRES: the file has such rows, and is not damaged.
std::string passed_over_text(const std::string& path, const db::FileHealth& health);

// The row with all its evidence, which a listing leaves out; the row itself if its problem cannot be rebuilt.
db::Winner with_evidence(const db::WinnerStore& store, const Catalogue& catalogue, const db::Winner& row);

std::string shape_of(const db::Winner& winner);

// Whether this version can use a stored row: one rule for all commands that read rows. Called once per row.
struct RowWorth {
    std::string why_not{};  // why it is not served, as a clause; empty if it is served
    bool is_old = false;    // it belongs to another version of its family; a build with that version may use it
    // `import` refuses it in every version: its family does not have its config, or its evidence is impossible
    bool is_refused = false;
};
RowWorth worth_of(TemplateIdentities& identities, const db::Winner& winner);
// Announces how long worth_of() takes for this many rows, if that is long.
void announce_checks(Session& session, std::uint64_t rows);

// The check of each row that an import or a merge offers: whether this catalogue can use it.
db::TakeOptions take_options(Session& session);
// Runs `take` on the database. A missing one is created only once a row was accepted.
void take_rows(Session& session, const std::function<void(db::WinnerStore&)>& take);
// Reports the outcome for the rows offered from each file, refusals as warnings. Exit 7 if a row was refused. Throws
// Error{interrupted} after that if the user stopped the run.
ExitCode report_taken(Session& session, const std::vector<std::pair<std::string, db::TakeReport>>& taken);

}  // namespace autotune::cli
