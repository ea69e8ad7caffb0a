#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/core/problem/tensor.h"

namespace autotune {

// A file of numpy's format .npy, versions 1 to 3. Only regular files are read, and no link at the end of a path is followed.

// Why the file cannot be a dense tensor's content: it cannot be read, has another type, another shape or Fortran's order. Empty
// if it can. Reads the header alone.
std::string npy_mismatch(const std::string& path, const Tensor& tensor);
// The elements in the tensor's order. Throws Error{usage} with what npy_mismatch() says.
std::vector<std::byte> read_npy(const std::string& path, const Tensor& tensor);

}  // namespace autotune
