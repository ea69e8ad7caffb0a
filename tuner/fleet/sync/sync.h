#pragma once

#include <functional>
#include <string>

#include "db/winner_store.h"
#include "src/catalogue/catalogue.h"
#include "src/dispatch/stored/label_file.h"
#include "tuner/fleet/store/fleet_store.h"

namespace autotune::fleet {

// The exchange between a host and the store. Nothing here runs in a program that uses the library.

struct PostReport {
    WantReport wanted;
    std::size_t unknown = 0;  // misses whose problem no op of this version knows
    // Why the next run posts the same misses again, which counts them twice. Empty if it posts none of them again.
    std::string not_noted{};
};
// Posts the misses of a local database, as far as their counts grew since the last time; `state_path` remembers what was posted.
PostReport post_misses(FleetStore& store, const db::WinnerStore& misses, const Catalogue& catalogue,
                       const std::string& state_path);

// Posts the verdicts of a local database if they changed since the last time; `state_path` remembers which were posted.
struct VerdictsPosted {
    VerdictReport report;
    std::size_t verdicts = 0;  // in the database
    bool is_unchanged = false;
    std::string not_noted{};
};
VerdictsPosted post_verdicts(FleetStore& store, const std::vector<db::Verdict>& verdicts, const std::string& state_path);

struct Pulled {
    dispatch::Label label;      // without its lines
    std::int64_t verdicts = 0;  // of its rows
    std::string path;
    bool is_new = false;   // false: the folder had it already
    std::string before{};  // the label that the channel showed on this host before
};
// Puts a label, or the label that a channel shows, into the folder. The complete file is checked and then renamed, so that a
// reader sees either the old state or the new one. Throws Error{database}; the folder is then as before.
Pulled pull_label(FleetStore& store, const std::string& name, const std::string& folder);
// The same from a file that pull_label() made on another machine. `channel`: a name under which the label will be shown; empty:
// none.
Pulled take_label(const std::string& file, const std::string& channel, const std::string& folder);

// The line of a result as a label has it: without finalists, except rivals, by which patches of PyTorch decide.
std::string label_line(const db::Winner& winner);

}  // namespace autotune::fleet
