#pragma once

#include <string>
#include <vector>

namespace autotune {

// A text with the name by which messages and #include lines refer to it.
struct KernelText {
    std::string name;
    std::string text;
    bool operator==(const KernelText&) const = default;
};

// The parts of a user's kernel that are passed to the compiler.
struct KernelSource {
    std::vector<KernelText> files = {};    // the files of one translation unit, in this order
    std::vector<KernelText> headers = {};  // the user's own headers, by their names in #include "..."
    std::string standard = "c++17";
    std::vector<std::string> options = {};  // compiler options, from the allow-list of src/kernel_files
    bool only_marked_functions = false;     // functions without __device__ are host functions, as with nvcc
    std::vector<std::string> toolkit_folders =
        {};                            // folders for <...> headers of CUDA's toolkit; their paths are not part of an identity
    std::string toolkit_version = {};  // "13.0"; empty: no header of a toolkit is included

    bool uses_fast_math() const;
};

}  // namespace autotune
