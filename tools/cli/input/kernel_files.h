#pragma once

#include <string>
#include <vector>

#include "src/catalogue/catalogue.h"
#include "src/kernel_files/kernel_file.h"
#include "tools/cli/environment.h"
#include "tools/cli/services.h"

namespace autotune::cli {

// The files that `--kernel` names on a command line. They are read before the other words, because a file adds options of its
// own.
std::vector<std::string> kernel_paths_in(const std::vector<std::string>& words);

// The names that a user's op cannot have, those of `built_in` among them, and the folders of CUDA's toolkit headers.
kernel_files::LoadOptions kernel_load_options(const Catalogue& built_in, const Environment& environment, Services& services);

}  // namespace autotune::cli
