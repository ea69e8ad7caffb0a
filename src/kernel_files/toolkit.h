#pragma once

#include <string>
#include <vector>

namespace autotune::kernel_files {

// The headers of a CUDA toolkit. Empty if none was found.
struct Toolkit {
    std::vector<std::string> folders;  // for -I
    std::string version;               // of the toolkit and of its C++ libraries: "13000/3000001"
};

// The headers of the first place that has some. `roots`: folders of toolkits, such as CUDA_PATH. `library_folders`: folders of
// CUDA's libraries; headers lie beside them, in toolkits and in pip's packages.
Toolkit find_toolkit(const std::vector<std::string>& roots, const std::vector<std::string>& library_folders);

}  // namespace autotune::kernel_files
