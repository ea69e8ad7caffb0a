#pragma once

#include <string>
#include <vector>

#include "tools/cli/command.h"

namespace autotune::cli {

// Completion scripts made from the commands: their names, each one's flags, and the values of flags with a known list.
std::string bash_completion(const std::vector<Command>& commands, const std::vector<const Op*>& ops);
std::string zsh_completion(const std::vector<Command>& commands, const std::vector<const Op*>& ops);

}  // namespace autotune::cli
