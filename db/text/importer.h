#pragma once

#include <set>
#include <string>
#include <vector>

#include "db/text/transfer.h"
#include "db/winner_store.h"

namespace autotune::db {

// Decides row by row what a store takes from elsewhere, and writes what it takes in batches: one durable transaction for each row
// would make 100,000 rows take minutes.
class Importer {
  public:
    Importer(WinnerStore& store, const TakeOptions& options) : store_(store), options_(options) {}

    // `where` names the row in a refusal: "line 12".
    void offer(Winner winner, const std::string& where);
    // REQUIRES: the verdict is a refusal.
    void refuse(const std::string& where, const RowVerdict& verdict);
    // Asks options.stopped.
    bool is_stopped();
    // Writes what is left.
    TakeReport finish();

  private:
    RowVerdict verdict_on(const Winner& winner) const;
    void write();

    WinnerStore& store_;
    const TakeOptions& options_;
    TakeReport report_;
    std::vector<Winner> batch_;
    std::set<std::string> keys_;  // of the batch
};

}  // namespace autotune::db
