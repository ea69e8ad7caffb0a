#pragma once

#include <string>
#include <vector>

#include "src/core/problem.h"

namespace autotune::cli {

// What tells problems of one op apart beside their extents, in words. No op is known here.

// Element types of the operands: "f16" where they agree, else one each: "e4m3,e4m3,bf16".
std::string dtype_text(const Problem& problem);

// Traits that do not only repeat an operand's element type, such as layout and accumulator.
std::vector<Trait> own_traits(const Problem& problem);

// Own traits in which all problems agree. REQUIRES: not empty.
std::vector<Trait> shared_traits(const std::vector<Problem>& problems);

// Names of own traits in which they do not agree, in the op's order, but for one that always equals the element type.
std::vector<std::string> differing_traits(const std::vector<Problem>& problems);

// A trait's value; empty: the problem has none of that name.
std::string trait_or_nothing(const Problem& problem, const std::string& name);

// "layout=nn beta=zero"
std::string traits_text(const std::vector<Trait>& traits);

// Shapes, with element type and values of traits where not all problems agree in them.
std::vector<std::string> short_names(const std::vector<Problem>& problems);

}  // namespace autotune::cli
