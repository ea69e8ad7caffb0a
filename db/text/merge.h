#pragma once

#include <functional>
#include <string>

#include "db/text/transfer.h"
#include "db/winner_store.h"

namespace autotune::db {

// Offers every winner of another database file to the store, row by row through the validators. The other file is opened
// read-only, must pass SQLite's quick_check and have exactly our tables. Trials and misses are not merged. Throws
// Error{database}.
TakeReport merge(WinnerStore& into, const std::string& from_path, const TakeOptions& options);

// The two steps of merge(), for a caller who checks several files before anything is written. The check reads the whole file;
// false: it was stopped.
bool check_source(const std::string& from_path, const std::function<bool()>& stopped);
// REQUIRES: check_source() found nothing wrong.
TakeReport take_from(WinnerStore& into, const std::string& from_path, const TakeOptions& options);

}  // namespace autotune::db
