#pragma once

#include <string>

#include "src/catalogue/catalogue.h"
#include "tools/cli/input/arguments.h"

namespace autotune::cli {

// Commands that messages tell people to run. They stand whole, to be copied.

// A word for the shell: quoted where it is not plain.
std::string shell_word(const std::string& word);

// The flags that name the problem, in the fewest words: "--op bgemm --shape 64x64x64 --layout nt". Of names of the op that take
// as many words the one on the command line goes first, then the op's own.
std::string problem_flags_text(const Catalogue& catalogue, const Problem& problem, const Arguments& arguments);

// Flags of the command line in hand that say where a command works, as another one takes them too: --db, --device, --templates.
// Begins with a blank, or is empty.
std::string shared_flags_text(const Arguments& arguments);
// The named flags as they were given, each after a blank.
std::string given_flags_text(const Arguments& arguments, const std::vector<std::string>& names);

}  // namespace autotune::cli
