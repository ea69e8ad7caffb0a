#pragma once

#include <autotune/autotune.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace autotune::runtime {

// What a handle works with: the caller's options with what the environment fills in.
struct Settings {
    std::string database;      // empty: none
    std::string cache_folder;  // empty: none
    std::string shipped;       // empty: none
    std::string nvrtc;         // empty: searched
    std::string pin;           // empty: none
    autotune_on_miss on_miss = AUTOTUNE_ON_MISS_COMPILE;
    bool record_misses = false;
    std::chrono::milliseconds look_interval{60'000};  // with record_misses: between two looks for new winners
    autotune_log_level log_level = AUTOTUNE_LOG_INFO;
    autotune_log_function log = nullptr;
    void* log_user = nullptr;
    std::string warning;  // of how the settings were found; empty: none
    // Where NVRTC is searched after the loader's own path.
    std::vector<std::string> library_folders{};
};

// A variable's value, or nullptr.
using Environment = std::function<const char*(const char* name)>;

// Throws Failure{invalid argument} for options that cannot be meant. `environment` is asked only where the options allow it.
Settings settings_of(const autotune_options* options, const Environment& environment);

// A folder below the prefix that the shared library is installed in (or the program, where the library is linked in); empty if it
// is not there.
std::string folder_beside_library(const std::string& below_prefix);

}  // namespace autotune::runtime
