#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "src/core/family/step_definition.h"
#include "src/core/op/kernel_source.h"

namespace autotune::jit {

// The additions to a user's source in one rendering.
struct UserUnit {
    std::vector<std::pair<std::string, std::string>> macros;   // parameters and constants
    std::vector<std::pair<std::string, std::string>> entries;  // a kernel's name in the source and its suffix to the symbol
    std::function<std::string(const std::string& symbol)> appended = {};  // text behind the source
};

std::vector<std::pair<std::string, std::string>> entry_names(const std::vector<StepDefinition>& steps);

// One translation unit: the <...> includes at the top of the first file, then the macros, then the rest, so that other people's
// headers never see the macros. The user's line numbers and file names are kept. Kernels are renamed by macros, so that profilers
// and drivers can tell instances apart.
std::string user_source(const KernelSource& source, const UserUnit& unit, const std::string& symbol);

}  // namespace autotune::jit
