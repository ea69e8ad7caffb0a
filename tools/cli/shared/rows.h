#pragma once

#include <functional>
#include <string>
#include <vector>

#include "db/text/transfer.h"
#include "db/winner_store.h"
#include "src/dispatch/rules/stored_winner.h"
#include "tools/cli/session.h"

namespace autotune::cli {

// Which stored winners a command is about: --op, --shape with the op's options, --shapes, --device-key.
struct RowFilter {
    std::string op;
    std::string device_key;
    std::vector<Problem> problems;  // empty: any of the op
    bool matches_all() const { return op.empty() && device_key.empty(); }
};
RowFilter row_filter_of(Session& session);

struct MatchingRows {
    std::vector<db::Winner> winners;  // at most as many as asked for
    std::uint64_t total = 0;
};
// Hands matching rows over one by one in bounded memory, `limit` at most and as long as `use` returns true. Returns how many
// match.
std::uint64_t scan_rows(const db::WinnerStore& store, const RowFilter& filter, std::size_t limit,
                        const std::function<bool(const db::Winner&)>& use);
MatchingRows matching_rows(const db::WinnerStore& store, const RowFilter& filter, std::size_t limit);

// "database PATH has rows that are passed over: 3 (row 7: WHY); ...". REQUIRES: the file is not sound, and not damaged.
std::string passed_over_text(const std::string& path, const db::FileHealth& health);

// The row with all its evidence, which a listing leaves out; the row itself if its problem cannot be made again.
db::Winner with_evidence(const db::WinnerStore& store, const Catalogue& catalogue, const db::Winner& row);

std::string shape_of(const db::Winner& winner);

// What a stored row is worth to this version: the one rule of every command that reads rows. Of each row once.
struct RowWorth {
    std::string why_not{};    // it does not answer, a clause; empty: it does
    bool is_old = false;      // it is of another version of its family: a build that has that version may use it
    bool is_refused = false;  // `import` refuses it, whatever the version: its config is none of its family's, or its evidence
                              // cannot be true
};
RowWorth worth_of(TemplateIdentities& identities, const db::Winner& winner);
// Tells how long worth_of() takes for so many rows, where that is long.
void announce_checks(Session& session, std::uint64_t rows);

// What is asked of each row that an import or a merge offers: that this catalogue can use it.
db::TakeOptions take_options(Session& session);
// Runs `take` on the database. One that is missing is made once a row was taken, and not for refusals alone.
void take_rows(Session& session, const std::function<void(db::WinnerStore&)>& take);
// Says what became of the rows offered from each file, refusals as warnings. Exit 7 if a row was refused. Throws
// Error{interrupted} after that if the user stopped the run.
ExitCode report_taken(Session& session, const std::vector<std::pair<std::string, db::TakeReport>>& taken);

}  // namespace autotune::cli
