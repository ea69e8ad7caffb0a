#pragma once

#include <cstdint>
#include <string>

#include "db/sqlite/sqlite_handle.h"

namespace autotune::db {

// Rows that refer to missing rows. Our own connections cannot make them; other programs, which leave foreign keys off, make them
// by deleting rows.
struct Orphans {
    std::int64_t count = 0;
    std::string table{};  // of the first
};
Orphans count_orphans(Connection& connection);

// REQUIRES: in a transaction. Returns how many rows it deleted.
std::int64_t remove_orphans(Connection& connection);

}  // namespace autotune::db
