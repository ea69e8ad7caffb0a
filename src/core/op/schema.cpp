#include "src/core/op/schema.h"

#include <algorithm>

namespace autotune {

std::optional<std::vector<EmptySum>> OpSchema::empty_sums(const Problem& problem) const {
    const bool writes_nothing = std::all_of(problem.tensors.begin(), problem.tensors.end(),
                                            [](const Tensor& tensor) { return !tensor.is_written() || tensor.is_empty(); });
    if (writes_nothing) return std::vector<EmptySum>{};
    return std::nullopt;
}

}  // namespace autotune
