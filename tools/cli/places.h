#pragma once

#include <optional>
#include <string>

#include "src/core/system/private_folder.h"
#include "tools/cli/environment.h"

namespace autotune::cli {

// A folder or file in which a command stores something. No command depends on these: if the usual place cannot be used, a private
// folder of this user under /tmp replaces it.
struct Place {
    std::string path;  // empty: nowhere
    // why the usual place is not used, what replaces it, and how to choose another; empty: the usual place is used
    std::string warning;
};

// Finds the places of one run, each at its first use. Whether a place can be used is found by using it.
class Places {
  public:
    explicit Places(const Environment& environment) : environment_(environment) {}

    // Folder of compiled kernels: AUTOTUNE_CACHE_DIR, or XDG_CACHE_HOME/autotune. jit::CubinCache decides for every command
    // whether it can be used.
    const Place& cache();
    // Folder of GPU locks and journals: XDG_STATE_HOME/autotune.
    const Place& state();
    // Folder of the GPU locks that all users of this host share: AUTOTUNE_LOCK_DIR, or /run/lock/autotune. Taking a lock shows
    // whether it can be used.
    std::string host_locks() const;
    // File of the database: AUTOTUNE_DB, which is used unchanged, or XDG_DATA_HOME/autotune/autotune.db.
    const Place& database_to_read();   // makes nothing
    const Place& database_to_write();  // makes its folder

    // Folder of labels: AUTOTUNE_FLEET, or XDG_DATA_HOME/autotune/fleet.
    std::string labels() const;

    // The usual folder of the state, even if it cannot be used: for messages.
    std::string usual_state_folder() const;

  private:
    Home home() const;
    std::string xdg_folder(const char* variable, const char* beneath_home) const;
    std::string default_database() const;

    const Environment& environment_;
    std::optional<Place> cache_, state_, read_, written_;
};

}  // namespace autotune::cli
