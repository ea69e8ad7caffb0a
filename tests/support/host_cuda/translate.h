#pragma once

#include <string>
#include <vector>

namespace autotune::test::host_cuda {

// Converts preprocessed device text to C++: inline PTX becomes calls of device/ptx.h, shared memory becomes static. Throws
// Error{usage} for text that it does not understand.
std::string translated(const std::string& text);

// One asm statement's text, such as "cvt.rn.f16.f32 %0, %1;", as calls; `operands` are C++ expressions.
std::string translated_ptx(const std::string& ptx, const std::vector<std::string>& operands);

}  // namespace autotune::test::host_cuda
