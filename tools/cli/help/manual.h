#pragma once

#include <string>
#include <vector>

#include "src/core/op/op.h"
#include "tools/cli/command.h"

namespace autotune::cli {

// The manual page autotune(1) as roff text, from the same data as the help: commands, flags, options of `ops`, exit codes and
// environment variables.
std::string manual_page(const std::vector<Command>& commands, const std::vector<const Op*>& ops, const std::string& version);

}  // namespace autotune::cli
