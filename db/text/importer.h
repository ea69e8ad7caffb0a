#pragma once

#include <set>
#include <string>
#include <vector>

#include "db/text/transfer.h"
#include "db/winner_store.h"

namespace autotune::db {

// Decides for each offered row whether the store takes it, and writes rows in batches: with one durable transaction per row,
// 100,000 rows would take minutes.
class Importer {
  public:
    Importer(WinnerStore& store, const TakeOptions& options) : store_(store), options_(options) {}

    // `where` names the row in a refusal: "line 12".
    void offer(Winner winner, const std::string& where);
    // REQUIRES: the verdict is a refusal.
    void refuse(const std::string& where, const RowVerdict& verdict);
    // Asks options.stopped.
    bool is_stopped();
    // Writes the remaining rows.
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
