#pragma once

#include <cstdint>
#include <vector>

#include "db/store/rows.h"

namespace autotune::db {

// Row numbers of winners, newest first, read from indices only.
std::vector<std::int64_t> ids_of(Connection& connection, const ProblemKey& problem_key);
std::vector<std::int64_t> ids_of(Connection& connection, const Filter& filter);
std::int64_t count_of(Connection& connection, const Filter& filter);

// REQUIRES: in a transaction. Deletes matching winners and the trials of their problems; returns how many winners.
std::int64_t remove_matching(Connection& connection, const Filter& filter);

}  // namespace autotune::db
