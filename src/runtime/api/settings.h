#pragma once

#include <autotune/autotune.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace autotune::runtime {

// The settings of a handle: the caller's options, completed from the environment.
struct Settings {
    std::string database;      // empty: none
    std::string cache_folder;  // empty: none
    std::string shipped;       // empty: none
    std::string nvrtc;         // empty: searched
    std::string pin;           // empty: none
    // The path of a label's file: winners come from it and from shipped files alone, and every process with the same files makes
    // the same choices. Empty: none.
    std::string label{};
    autotune_on_miss on_miss = AUTOTUNE_ON_MISS_COMPILE;
    bool record_misses = false;
    std::chrono::milliseconds look_interval{60'000};  // with record_misses: time between two checks for new winners
    autotune_log_level log_level = AUTOTUNE_LOG_INFO;
    autotune_log_function log = nullptr;
    void* log_user = nullptr;
    std::string warning;  // about how the settings were found; empty: none
    // Folders to search for NVRTC after the loader's own path.
    std::vector<std::string> library_folders{};
    // Folders of CUDA toolkits, for headers that users' kernels include.
    std::vector<std::string> toolkit_roots{};
};

// A variable's value, or nullptr.
using Environment = std::function<const char*(const char* name)>;

// Throws Failure{invalid argument} for invalid options. `environment` is only read if the options allow it.
Settings settings_of(const autotune_options* options, const Environment& environment);

// A folder below the prefix of the installed shared library (or of the program, if the library is linked into it); empty if it
// does not exist.
std::string folder_beside_library(const std::string& below_prefix);

}  // namespace autotune::runtime
