#pragma once

#include <vector>

#include "src/kernel_files/kernel_file.h"
#include "tools/cli/session.h"

namespace autotune::cli {

// Checks of a kernel file that need a compiler: whether source and reference compile, whether arguments have the sizes that the
// kernels take, which parameters change nothing in the machine code, and whether the reference depends on one. On the first
// example, for one device. REQUIRES: the file is whole. Throws Error{no_compiler}.
std::vector<kernel_files::Finding> compile_check(Session& session, const kernel_files::KernelFile& file, const Device& device);

}  // namespace autotune::cli
