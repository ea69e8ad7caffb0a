#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "db/store/rows.h"

namespace autotune::db {

struct NearRow {
    std::int64_t id = 0;
    double distance = 0;  // log_distance() to the subject
};

// About `count` winners of the same class and device with other extents, nearest first; of equally distant ones the newest first.
// Walks the index of extents outwards from the subject's own, so that it reads some hundred entries however many there are. They
// are the nearest of all unless thousands of values of one extent are nearer than those; then they are the nearest of those that
// were met.
// Of cards like the subject's own, winners of its own extents count as well: they are the nearest.
std::vector<NearRow> nearest_rows(Connection& connection, const ProblemKey& problem_key, std::size_t count,
                                  Cards cards = Cards::this_card);

}  // namespace autotune::db
