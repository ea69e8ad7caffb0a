#pragma once

#include <string>
#include <vector>

#include "tools/cli/command.h"

namespace autotune::cli {

// What a command line asks for.
struct Parsed {
    enum class Kind { run, help, version };
    Kind kind = Kind::run;
    const Command* command = nullptr;  // nullptr: the program itself
    Arguments arguments;
};

// `words` without the program's name. A line that starts with a flag means `tune`. Throws Error{usage} with one sentence that
// names the culprit and the remedy. `commands` must outlive the result.
Parsed parse(const std::vector<Command>& commands, const std::vector<const Op*>& ops, std::vector<std::string> words);

// What is most like `word` among `known` within two edits; empty: nothing is.
std::string nearest(const std::string& word, const std::vector<std::string>& known);

}  // namespace autotune::cli
