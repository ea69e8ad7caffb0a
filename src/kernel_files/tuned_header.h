#pragma once

#include <string>
#include <vector>

#include "src/core/family/family_definition.h"
#include "src/core/problem/device.h"
#include "src/core/problem/problem.h"

namespace autotune::kernel_files {

// A header for a compiler of its own, such as nvcc, with one config of a user's kernel: its parameters and the constants of its
// source, as constexpr, or as macros where the source has them in `#if` or where they are words. Then it shows how the kernel is
// launched. `about`: lines for the comment at the top. REQUIRES: the config is legal.
std::string tuned_header(const FamilyDefinition& definition, const Problem& problem, const Config& config, const Device& device,
                         const std::vector<std::string>& about);

}  // namespace autotune::kernel_files
