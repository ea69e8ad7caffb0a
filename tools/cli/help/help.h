#pragma once

#include <string>
#include <vector>

#include "tools/cli/command.h"

namespace autotune::cli {

// Help of the program: commands, the first two examples, exit codes.
std::string program_help(const std::vector<Command>& commands);
// Help of one command: what it does, examples, flags.
std::string command_help(const Command& command, const std::vector<const Op*>& ops);
// The help for one op, under the name that was given.
std::string command_help(const Command& command, const Op& op, const std::string& name);

}  // namespace autotune::cli
