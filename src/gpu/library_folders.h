#pragma once

#include <functional>
#include <string>
#include <vector>

namespace autotune::gpu {

// The value of an environment variable, or nullptr if it is unset or must not be read.
using EnvironmentVariable = std::function<const char*(const char* name)>;

// Existing folders that may hold NVRTC and cuBLAS, in search order: folders named by variables ($CUDA_PATH, $CUDA_HOME,
// $VIRTUAL_ENV, $CONDA_PREFIX), the system's toolkit (/usr/local/cuda, /opt/cuda), pip's packages for the python3 on $PATH, below
// $HOME/.local and in the system's folders. A pip package lies in nvidia/cu13/lib, nvidia/cuda_nvrtc/lib, ... of a site-packages
// or dist-packages. Lists folders, executes nothing. $HOME is used only if it belongs to the effective user. `root` is prepended
// to the system's paths.
std::vector<std::string> library_folders(const EnvironmentVariable& variable, const std::string& root = "");

}  // namespace autotune::gpu
