#pragma once

#include <cstdint>

#include "db/portfolio.h"
#include "db/sqlite/sqlite_handle.h"
#include "db/winner_store.h"
#include "src/core/former_templates.h"
#include "src/records/former_names.h"

namespace autotune::db {

using autotune::bring_up_to_date;
void bring_up_to_date(Portfolio& portfolio, const FormerTemplates& former);

bool has_former_rows(Connection& connection, const FormerTemplates& former);

struct UpdatedRows {
    std::int64_t winners = 0, trials = 0;
    // Number of winners whose problem already had a winner under today's identity; the better one of the two stayed
    std::int64_t rivals = 0;
};
// Gives the file's rows of earlier versions today's identities and names. REQUIRES: a transaction.
UpdatedRows update_former_rows(Connection& connection, const FormerTemplates& former);

}  // namespace autotune::db
