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
    // The suffix of each kernel that is named by an expression, and the expression with the values of names in it.
    std::vector<std::pair<std::string, std::string>> expressions = {};
};

// `name_of` gives a kernel's expression the values of the names in it.
UserUnit user_unit(std::vector<std::pair<std::string, std::string>> macros, const std::vector<StepDefinition>& steps,
                   const std::function<std::string(const std::string& kernel)>& name_of);
// The names of template kernels as NVRTC gets them, for a unit whose kernels begin with `symbol`.
std::vector<std::pair<std::string, std::string>> kernel_names(const UserUnit& unit, const std::string& symbol);

// One translation unit: the <...> includes at the top of the first file, then the macros, then the rest, so that other people's
// headers never see the macros. The user's line numbers and file names are kept. Kernels are renamed by macros, so that profilers
// and drivers can tell instances apart.
std::string user_source(const KernelSource& source, const UserUnit& unit, const std::string& symbol);

}  // namespace autotune::jit
