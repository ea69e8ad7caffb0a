#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace autotune::jit {

// Facts about a kernel, read from its cubin.
struct CubinKernel {
    std::vector<std::size_t> parameter_bytes;  // in order
    // The machine code only. Other sections depend on the unit's other kernels: one that uses shared memory adds sections for
    // all.
    std::string code;
};

// Bytes of the cubin's variables, by name: arrays in constant and global memory.
std::map<std::string, std::size_t> variables_of_cubin(std::span<const std::byte> cubin);

// The kernels by symbol. Empty for bytes that are not a cubin, or a cubin in an unknown form.
std::map<std::string, CubinKernel> kernels_of_cubin(std::span<const std::byte> cubin);

}  // namespace autotune::jit
