#pragma once

#include <string>
#include <vector>

#include "tuner/session/tune.h"

namespace autotune::cli {

// The table of ranked and compiled candidates; with a status column where not all of them are usable. What all rows share stands
// once above the table, unless `full`.
std::string compiled_table(const std::vector<tuner::CompiledRow>& rows, bool full);
// How many candidates did not compile or were rejected, and how many met each cause; empty if all are usable.
std::string compile_troubles_text(const std::vector<tuner::CompiledRow>& rows);

}  // namespace autotune::cli
