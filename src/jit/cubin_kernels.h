#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace autotune::jit {

// Facts of a kernel that its cubin holds.
struct CubinKernel {
    std::vector<std::size_t> parameter_bytes;  // in order
    std::string code;                          // machine code and what it is launched with: equal for kernels that do the same
};

// By symbol. Empty for bytes that are no cubin, or one of a form that is not known.
std::map<std::string, CubinKernel> kernels_of_cubin(std::span<const std::byte> cubin);

}  // namespace autotune::jit
