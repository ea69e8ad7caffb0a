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
    // Machine code alone. Sections of shared memory appear beside a kernel that uses none when another kernel of the unit does.
    std::string code;
};

// By symbol. Empty for bytes that are no cubin, or one of a form that is not known.
std::map<std::string, CubinKernel> kernels_of_cubin(std::span<const std::byte> cubin);

}  // namespace autotune::jit
