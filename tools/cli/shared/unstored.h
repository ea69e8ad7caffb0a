#pragma once

#include <string>

#include "db/winner_store.h"
#include "tools/cli/output/data/json_format.h"
#include "tools/cli/session.h"

namespace autotune::cli {

// The outcome for a winner that the database could not store.
struct Unstored {
    std::string because;  // the database's reason; empty: the winner is stored
    std::string file;     // contains the winner as a line for `autotune import`; empty: no folder could be written either
    std::string line;     // that line

    bool is_stored() const { return because.empty(); }
};

// Why the winner of a tune is not stored anywhere; empty: it is, or there is nothing to store.
std::string why_unstored(const Session& session, const tuner::TuneResult& result);

// Appends the winner to a file for unstored winners: in the state folder, else the cache folder, else a private folder under
// /tmp. `because` empty: does nothing. Does not throw if the file cannot be written.
Unstored save_unstored_winner(Session& session, const db::Winner& winner, const std::string& because);

// Reports on standard error that the winner is not stored, and which command stores it.
void report_unstored(Session& session, const Unstored& unstored);

// Adds `stored` and, if it is false, `not_stored_because` and `import_file`.
void add_unstored(Json& json, const Unstored& unstored);

}  // namespace autotune::cli
