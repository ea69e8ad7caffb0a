#pragma once

#include <cstdint>

#include "db/portfolio.h"
#include "db/sqlite/sqlite_handle.h"
#include "db/winner_store.h"
#include "src/core/former_templates.h"

namespace autotune::db {

// Rows of earlier versions as this version would have stored them. A row under an identity that `former` does not know stays as
// it is: it is stale, and `show` and `verify` list it.
void bring_up_to_date(Winner& winner, const FormerTemplates& former);
void bring_up_to_date(StoredTrial& trial, const FormerTemplates& former);
void bring_up_to_date(Portfolio& portfolio, const FormerTemplates& former);

bool has_former_rows(Connection& connection, const FormerTemplates& former);

struct UpdatedRows {
    std::int64_t winners = 0, trials = 0;
    // Of these, winners that were deleted: today's text has a winner of the same problem already.
    std::int64_t superseded = 0;
};
// Does the same in the file. REQUIRES: a transaction.
UpdatedRows update_former_rows(Connection& connection, const FormerTemplates& former);

}  // namespace autotune::db
