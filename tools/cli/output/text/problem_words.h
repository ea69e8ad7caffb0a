#pragma once

#include <string>
#include <vector>

#include "src/core/problem/problem.h"

namespace autotune::cli {

// Words that tell problems of one op apart, beside their extents. No op is known here.

// Element types of the tensors: "f16" where they agree, else one each: "e4m3,e4m3,bf16".
std::string dtype_text(const Problem& problem);

// Attributes that do not only repeat a tensor's element type, such as layout and accumulator.
std::vector<Attribute> own_attributes(const Problem& problem);

// Own attributes in which all problems agree. REQUIRES: not empty.
std::vector<Attribute> shared_attributes(const std::vector<Problem>& problems);

// Names of own attributes in which they do not agree, in the op's order, but for one that always equals the element type.
std::vector<std::string> differing_attributes(const std::vector<Problem>& problems);

// An attribute's value; empty: the problem has none of that name.
std::string attribute_or_nothing(const Problem& problem, const std::string& name);

// Names of the extents as a shape has them: "m x n x k".
std::string dimensions_text(const Problem& problem);
// "m = 4096, n = 4096, k = 2048"
std::string extents_text(const Problem& problem);

// "layout=nn beta=zero"
std::string attributes_text(const std::vector<Attribute>& attributes);

// Shapes, with element type and values of attributes where not all problems agree in them.
std::vector<std::string> short_names(const std::vector<Problem>& problems);

}  // namespace autotune::cli
