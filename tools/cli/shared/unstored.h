#pragma once

#include <string>

#include "db/winner_store.h"
#include "tools/cli/output/data/json_format.h"
#include "tools/cli/session.h"

namespace autotune::cli {

// What became of a winner that the database could not take.
struct Unstored {
    std::string because;  // in the database's words; empty: nothing of the kind, the winner is stored
    std::string file;     // holds the winner as a line that `autotune import` takes; empty: no folder could be written either
    std::string line;     // that line

    bool is_stored() const { return because.empty(); }
};

// Why the winner of a tune is stored nowhere; empty: it is, or there is nothing to store.
std::string why_unstored(const Session& session, const tuner::TuneResult& result);

// Writes the winner to a file of its own kind, appended to those of earlier runs: in the state folder, else the cache folder,
// else a private folder under /tmp. `because` empty: does nothing. Never throws for a file that cannot be written.
Unstored save_unstored_winner(Session& session, const db::Winner& winner, const std::string& because);

// Tells on standard error that the winner is not stored, and which command stores it.
void report_unstored(Session& session, const Unstored& unstored);

// Adds `stored` and, where it is false, `not_stored_because` and `import_file`.
void add_unstored(Json& json, const Unstored& unstored);

}  // namespace autotune::cli
