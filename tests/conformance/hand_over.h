#pragma once

#include "src/core/problem/problem.h"

namespace autotune::test {

// The tensor that one launch of a chain writes and the next one reads. Both are the same if the problem accumulates. It is -1 if
// the problem has no input with the shape, strides and type of its first output. Dimensions of one element do not count, so one
// column of a product can be the scales of the next one's rows.
struct HandOver {
    int read = -1, written = -1;
    explicit operator bool() const { return read >= 0; }
    bool accumulates() const { return read >= 0 && read == written; }
};
HandOver hand_over(const Problem& problem);

}  // namespace autotune::test
