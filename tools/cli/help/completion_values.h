#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/cli/help/completion.h"

namespace autotune::cli {

// Values of the flags before the cursor, by flag name; a flag that was given twice has its last value.
using GivenFlags = std::map<std::string, std::string>;

// Completions of a flag's value. `typed`: the part typed so far.
Completions value_completions(const Flag& flag, const std::string& typed, const GivenFlags& given, const Catalogue& catalogue);

// Names of families and of ops that `autotune families` accepts.
std::vector<Completion> name_completions(const Catalogue& catalogue);

// The words of `all` that begin with `typed`.
std::vector<Completion> beginning_with(const std::string& typed, const std::vector<Completion>& all);

}  // namespace autotune::cli
