#pragma once

#include <string>

#include "db/sqlite/sqlite_handle.h"
#include "db/winner_store.h"

namespace autotune::db {

// "SQLite 3.40.1, schema 2, journal delete, 1234 winners, 45 KiB": for doctor.
std::string describe_database(Connection& connection);

// The first fault that SQLite's quick_check finds; empty if none.
std::string quick_check_of(Connection& connection);

// Runs quick_check, then checks every row: orphans, winners that the validators refuse, devices that do not match their keys.
FileHealth health_of(Connection& connection);

// REQUIRES: in a transaction. Deletes the winners that the validators refuse; returns how many.
std::int64_t remove_invalid(Connection& connection);

}  // namespace autotune::db
