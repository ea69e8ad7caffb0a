#pragma once

#include <string>

#include "src/catalogue/catalogue.h"
#include "tools/cli/input/arguments.h"

namespace autotune::cli {

// Commands that messages tell people to run. They are complete, so that they can be copied.

// A word for the shell, quoted if necessary.
std::string shell_word(const std::string& word);

// The flags that describe the problem, in the fewest words: "--op bgemm --shape 64x64x64 --layout nt". If several names of the op
// need equally few words, the one on the command line is preferred, then the op's own.
std::string problem_flags_text(const Catalogue& catalogue, const Problem& problem, const Arguments& arguments);

// The flags of the current command line that other commands accept too and that say where to work: --db, --device, --templates.
// Begins with a space, or is empty.
std::string shared_flags_text(const Arguments& arguments);
// The named flags as they were given, each after a space.
std::string given_flags_text(const Arguments& arguments, const std::vector<std::string>& names);

}  // namespace autotune::cli
