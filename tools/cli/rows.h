#pragma once

#include <string>
#include <vector>

#include "db/store.h"
#include "tools/cli/session.h"

namespace autotune::cli {

// Which stored winners a command is about: --op, --shape with the op's options, --device-key.
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
MatchingRows matching_rows(const db::Store& store, const RowFilter& filter, std::size_t limit);

// The row with all its evidence, which a listing leaves out; the row itself if its problem cannot be made again.
db::Winner with_evidence(const db::Store& store, const Catalogue& catalogue, const db::Winner& row);

std::string shape_of(const db::Winner& winner);

// What became of rows that were offered to a database.
struct Absorbed {
    std::uint64_t stored = 0, kept_ours = 0, refused = 0;
    ExitCode exit_code() const { return refused == 0 ? ExitCode::done : ExitCode::some_failed; }
};
// Stores `winner` if it is valid for this catalogue and newer than the row of the same key, or `replace`. A refusal is a warning
// that starts with `where`.
void absorb(Session& session, db::Store& store, const db::Winner& winner, const std::string& where, Absorbed& tally);
// "12 stored, 3 older than ours, 1 refused", or the JSON of it.
void print_absorbed(Session& session, const Absorbed& tally);

}  // namespace autotune::cli
