#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "db/store/rows.h"

namespace autotune::db {

struct NearRow {
    std::int64_t id = 0;
    double distance = 0;  // log_distance() to the requested problem
};

// About `count` winners of the same class and device with other extents, nearest first; of equally distant ones the newest first.
// Walks the index of extents outwards from the requested extents, so that it reads some hundred entries however many there are.
// The result is exact unless thousands of values of one extent are nearer; then it is the nearest of the entries that were read.
// For cards like this one, winners of exactly these extents count too, as the nearest.
std::vector<NearRow> nearest_rows(Connection& connection, const ProblemKey& problem_key, std::size_t count,
                                  Cards cards = Cards::this_card);

}  // namespace autotune::db
