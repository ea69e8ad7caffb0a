#pragma once

#include <string>
#include <vector>

#include "src/core/problem/problem.h"

namespace autotune::cli {

// The words that distinguish problems of one op besides their extents. Works for any op.

// Element types of the tensors: "f16" if they are equal, else one each: "e4m3,e4m3,bf16".
std::string dtype_text(const Problem& problem);

// Attributes that do not only repeat a tensor's element type, such as layout and accumulator.
std::vector<Attribute> own_attributes(const Problem& problem);

// The own attributes that are equal in all problems. REQUIRES: not empty.
std::vector<Attribute> shared_attributes(const std::vector<Problem>& problems);

// Names of such attributes that differ, in the op's order, except one that always equals the element type.
std::vector<std::string> differing_attributes(const std::vector<Problem>& problems);

// An attribute's value; empty: the problem has none of that name.
std::string attribute_or_nothing(const Problem& problem, const std::string& name);

// Names of the extents in the form of a shape: "m x n x k".
std::string dimensions_text(const Problem& problem);
// "m = 4096, n = 4096, k = 2048"
std::string extents_text(const Problem& problem);

// "layout=nn beta=zero"
std::string attributes_text(const std::vector<Attribute>& attributes);

// Shapes, with the element type and attributes that are not equal in all problems.
std::vector<std::string> short_names(const std::vector<Problem>& problems);

}  // namespace autotune::cli
