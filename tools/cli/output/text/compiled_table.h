#pragma once

#include <string>
#include <vector>

#include "tuner/session/tune.h"

namespace autotune::cli {

// The table of ranked and compiled candidates, with a status column if not all of them are usable. Unless `full`, words that all
// rows share are printed once, above the table.
std::string compiled_table(const std::vector<tuner::CompiledRow>& rows, bool full);
// How many candidates did not compile or were rejected, and how many for each cause; empty if all are usable.
std::string compile_troubles_text(const std::vector<tuner::CompiledRow>& rows);

}  // namespace autotune::cli
