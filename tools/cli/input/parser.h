#pragma once

#include <string>
#include <vector>

#include "tools/cli/command.h"

namespace autotune::cli {

// A command line, read.
struct Parsed {
    enum class Kind { run, help, version };
    Kind kind = Kind::run;
    const Command* command = nullptr;  // nullptr: the program itself
    Arguments arguments;               // for help: only the op, if one is named
};

// `words` without the program's name. A line that starts with a flag means `tune`. Throws Error{usage} with one sentence that
// names the wrong word and the remedy. `commands` must outlive the result.
Parsed parse(const std::vector<Command>& commands, const std::vector<const Op*>& ops, std::vector<std::string> words);

}  // namespace autotune::cli
