#pragma once

#include <string>
#include <vector>

#include "src/catalogue/catalogue.h"
#include "tools/cli/command.h"

namespace autotune::cli {

// A word that may stand where the cursor is.
struct Completion {
    std::string word{};
    std::string about{};  // one line; may be empty
};

enum class PathKind { none, files, folders };

struct Completions {
    std::vector<Completion> words{};
    PathKind paths = PathKind::none;  // paths may stand there too; the shell knows them
    bool goes_on = false;             // more may follow without a blank: an item of a list, a value after '='
};

// What may stand in place of the last of `words`, which are a command line without the program's name; the last may be empty or
// half typed. Only what begins with it is returned. Never throws for what was typed: a line that cannot be understood has no
// completions.
Completions complete(const std::vector<Command>& commands, const Catalogue& catalogue, const std::vector<std::string>& words);

// For the shells' scripts: "word<TAB>about" lines, then ":files", ":folders" and ":goes_on" where they apply.
std::string completion_lines(const Completions& completions);

// The scripts that tie a shell's completion to `autotune __complete WORD...`.
std::string bash_completion();
std::string zsh_completion();

}  // namespace autotune::cli
