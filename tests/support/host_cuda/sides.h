#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "src/jit/render.h"

namespace autotune::test::host_cuda {

// An `if constexpr` or `#if` of a kernel's own text.
struct Branch {
    std::size_t line = 0;
    std::string condition;
};

// The branches in the order of the text.
std::vector<Branch> branches_of(const std::string& text);

// The sides of branches_of() that g++ takes when it reads the rendered text: {number of the branch, value of its condition}.
// Those of a template count if it is instantiated. The text is read and not translated, so instructions that the host has no
// function for do no harm. Throws Error{usage} with g++'s output if it saw no branch of a text that has some.
std::set<std::pair<std::size_t, bool>> sides_taken(const jit::Rendered& rendered);

}  // namespace autotune::test::host_cuda
