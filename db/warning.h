#pragma once

#include <cstdint>
#include <string>

namespace autotune::db {

enum class WarningKind : std::uint8_t {
    open_to_all,          // every user may write the file
    network_file_system,  // locks may not hold
    missing,              // there is no file yet: only shipped winners are known
    recovered,            // a killed process's unfinished transaction was rolled back
    migrated,             // an older schema was migrated; the text names the backup
    read_only,            // opened for reading although writing was requested
    trials_wait,          // trials could not be written yet
    invalid_row,          // a stored row is not used
    invalid_shipped,      // a shipped file or line is not used
};

// Something that a person should know although the store works. `text` is a sentence or two: what happened and what to do.
struct Warning {
    WarningKind kind = WarningKind::invalid_row;
    std::string text;
    bool operator==(const Warning&) const = default;
};

}  // namespace autotune::db
