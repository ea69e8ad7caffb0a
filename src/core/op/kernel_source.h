#pragma once

#include <string>
#include <vector>

namespace autotune {

// A text with the name that messages and #include lines give it.
struct KernelText {
    std::string name;
    std::string text;
    bool operator==(const KernelText&) const = default;
};

// The parts of a user's kernel that the compiler is given.
struct KernelSource {
    std::vector<KernelText> files = {};    // one translation unit, in this order
    std::vector<KernelText> headers = {};  // the user's own, by their names in #include "..."
    std::string standard = "c++17";
    std::vector<std::string> options = {};  // from the allow-list of src/kernel_files
    bool only_marked_functions = false;     // functions without __device__ are the host's, as nvcc has them
    std::vector<std::string> toolkit_folders =
        {};                            // for <...> headers of CUDA's toolkit; where they lie is no part of an identity
    std::string toolkit_version = {};  // "13.0"; empty: no header of a toolkit is included

    bool uses_fast_math() const;
};

}  // namespace autotune
