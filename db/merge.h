#pragma once

#include <string>

#include "db/transfer.h"
#include "db/winner_store.h"

namespace autotune::db {

// Offers every winner of another database file to the store, row by row through the validators. The other file is opened
// read-only, must pass SQLite's quick_check and have exactly our tables; trials and misses stay behind. Throws Error{database}.
TakeReport merge(WinnerStore& into, const std::string& from_path, const TakeOptions& options);

}  // namespace autotune::db
