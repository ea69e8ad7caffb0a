#pragma once

#include <string>

#include "db/sqlite_handle.h"

namespace autotune::db {

// "SQLite 3.40.1, schema 2, journal delete, 1234 winners, 45 KiB": for doctor.
std::string describe_database(Connection& connection);

// What SQLite's quick_check finds first; empty if nothing.
std::string quick_check_of(Connection& connection);

// SQLite's quick_check, foreign keys, and every winner through the validators; what is wrong in one line, empty if nothing is.
std::string integrity_of(Connection& connection);

}  // namespace autotune::db
