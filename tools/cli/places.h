#pragma once

#include <optional>
#include <string>

#include "src/core/system/private_folder.h"
#include "tools/cli/environment.h"

namespace autotune::cli {

// Where a command keeps something. None of these places is needed for its work: where the usual one cannot be used, a private
// folder of this user under /tmp stands in for it.
struct Place {
    std::string path;     // empty: nowhere
    std::string warning;  // why it is not where it was to be, what is used instead and how to name another; empty: it is there
};

// Finds the places of one run, each when it is first asked for. Whether a place can be used is found by using it.
class Places {
  public:
    explicit Places(const Environment& environment) : environment_(environment) {}

    // Folder of compiled kernels: AUTOTUNE_CACHE_DIR, or XDG_CACHE_HOME/autotune. What jit::CubinCache says of it counts, for
    // every command alike.
    const Place& cache();
    // Folder of GPU locks and journals: XDG_STATE_HOME/autotune.
    const Place& state();
    // Folder of the GPU locks that all users of this host share: AUTOTUNE_LOCK_DIR, or /run/lock/autotune. Whoever takes a lock
    // finds out whether it can be used.
    std::string host_locks() const;
    // File of the database: AUTOTUNE_DB, which is taken as it is, or XDG_DATA_HOME/autotune/autotune.db.
    const Place& database_to_read();   // makes nothing
    const Place& database_to_write();  // makes its folder

    // Where the state would be kept if its folder were in order: for messages.
    std::string usual_state_folder() const;

  private:
    Home home() const;
    std::string xdg_folder(const char* variable, const char* beneath_home) const;
    std::string default_database() const;

    const Environment& environment_;
    std::optional<Place> cache_, state_, read_, written_;
};

}  // namespace autotune::cli
