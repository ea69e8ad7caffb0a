#pragma once

#include <string>
#include <vector>

#include "src/catalogue/catalogue.h"
#include "tools/cli/command.h"

namespace autotune::cli {

// A word that fits at the cursor.
struct Completion {
    std::string word{};
    std::string about{};  // one line; may be empty
};

enum class PathKind { none, files, folders };

struct Completions {
    std::vector<Completion> words{};
    PathKind paths = PathKind::none;  // whether paths are also allowed; the shell completes them
    bool goes_on = false;             // more may follow without a space: an item of a list, a value after '='
};

// Words that may replace the last of `words`, which are a command line without the program's name; the last may be empty or
// incomplete. Returns only words that begin with it. Never throws: an invalid line has no completions.
Completions complete(const std::vector<Command>& commands, const Catalogue& catalogue, const std::vector<std::string>& words);

// The answer for the shells' scripts: "word<TAB>about" lines, then ":files", ":folders" and ":goes_on" if they apply.
std::string completion_lines(const Completions& completions);

// The scripts that connect a shell's completion to `autotune __complete WORD...`.
std::string bash_completion();
std::string zsh_completion();

}  // namespace autotune::cli
