#pragma once

#include <string>
#include <string_view>

#include "db/database_error.h"

namespace autotune::db {

// SQLite's report about a failure with a file.
struct Failure {
    std::string path;
    int code = 0;          // extended result code
    int system_errno = 0;  // 0: none
    int lock_errno = 0;    // why a lock could not be taken at all, which SQLite reports as busy; 0: no such reason
    std::string detail;    // SQLite's own words
    int busy_timeout_ms = 0;
};

// Makes one sentence with the path, the fault and the remedy.
DatabaseError database_error(const Failure& failure);
// Makes such a sentence for a fault that we find ourselves: "database PATH WRONG; REMEDY".
DatabaseError database_error(std::string_view path, std::string_view wrong, std::string_view remedy,
                             DatabaseFault fault = DatabaseFault::other);

// The fault for the errno of a file that could not be created or written.
DatabaseFault fault_of_errno(int code);

// The remedy for a file that should not be used but may hold something worth keeping.
inline constexpr std::string_view kChooseAnother = "choose another file with --db or AUTOTUNE_DB";
inline constexpr std::string_view kMoveAway = "move it away and a new one is made, or restore a backup";

}  // namespace autotune::db
