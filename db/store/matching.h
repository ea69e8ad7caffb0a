#pragma once

#include <vector>

#include "db/winner_store.h"

namespace autotune::db {

// Whether two problems name the same extents in the same order.
bool same_names(const std::vector<Extent>& a, const std::vector<Extent>& b);

// Sum over extents of |log(a/b)|: 0.69 for twice one extent. Extents of 0 count as 1. REQUIRES: same length.
double log_distance(const std::vector<Extent>& a, const std::vector<Extent>& b);

bool matches(const Winner& winner, const Filter& filter);

}  // namespace autotune::db
