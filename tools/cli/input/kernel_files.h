#pragma once

#include <string>
#include <vector>

#include "src/kernel_files/kernel_file.h"
#include "tools/cli/environment.h"
#include "tools/cli/services.h"

namespace autotune::cli {

// Files that `--kernel` names on a line of words. They are read before the words are: a file brings options of its own.
std::vector<std::string> kernel_paths_in(const std::vector<std::string>& words);

// Names that a user's op cannot have, and where headers of CUDA's toolkit lie.
kernel_files::LoadOptions kernel_load_options(const Environment& environment, Services& services);

}  // namespace autotune::cli
