#include "src/runtime/api/settings.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "src/core/system/private_folder.h"
#include "src/dispatch/stored/label_file.h"
#include "src/gpu/library_folders.h"
#include "src/runtime/api/status.h"
#include "src/runtime/api/versions.h"

namespace autotune::runtime {
namespace {

std::string variable(const Environment& environment, const char* name) {
    const char* value = environment(name);
    return value == nullptr ? "" : value;
}

// An XDG folder, or "" if HOME cannot be used. Relative folders are ignored, as the XDG specification requires.
std::string user_folder(const Environment& environment, const char* name, const std::string& below_home) {
    const std::string given = variable(environment, name);
    if (given.starts_with('/')) return given + "/autotune";
    const Home home = usable_home(variable(environment, "HOME"));
    return home.trouble.empty() ? home.path + below_home + "/autotune" : "";
}

// The folder that the command uses, too: the user's own, or a private one under /tmp if nothing can be created there. Empty if
// there is neither. `why` receives the reason for the one under /tmp.
std::string folder_or_stand_in(const Environment& environment, const char* name, const std::string& below_home,
                               std::string& why) {
    const std::string usual = user_folder(environment, name, below_home);
    std::error_code error;
    // An existing folder is used even if nothing can be added to it.
    if (!usual.empty() && std::filesystem::is_directory(usual, error)) return usual;
    why = usual.empty() ? usable_home(variable(environment, "HOME")).trouble : why_folder_not_makeable(usual);
    if (why.empty()) return usual;
    return make_fallback_home().empty() ? fallback_home() + below_home + "/autotune" : "";
}

autotune_log_level level_of(const std::string& word) {
    if (word == "debug") return AUTOTUNE_LOG_DEBUG;
    return word == "warning" || word == "warn" ? AUTOTUNE_LOG_WARNING : AUTOTUNE_LOG_INFO;
}

// An option overrides the variable, even if it is given as "", and the variable overrides the command's default.
void fill(std::string& setting, const char* option, const std::string& from_variable, const std::string& standard) {
    if (option != nullptr) {
        setting = option;
    } else {
        setting = from_variable.empty() ? standard : from_variable;
    }
}

// Makes a path absolute now: a program that changes its folder later would create a second database there. If the working folder
// is gone, the path stays relative.
void make_absolute(std::string& path) {
    if (path.empty() || path.front() == '/' || path == ":memory:") return;
    std::error_code error;
    const std::filesystem::path whole = std::filesystem::absolute(path, error);
    if (!error) path = whole.lexically_normal().string();
}

void check_options(const autotune_options& options) {
    const int on_miss = static_cast<int>(options.on_miss);
    if (on_miss < AUTOTUNE_ON_MISS_COMPILE || on_miss > AUTOTUNE_ON_MISS_BACKGROUND)
        throw Failure(AUTOTUNE_INVALID_ARGUMENT,
                      "options.on_miss is " + std::to_string(on_miss) + ", no value of autotune_on_miss");
}

autotune_options standard_options() {
    autotune_options options = {};
    options.struct_size = sizeof(options);
    options.read_environment = 1;
    return options;
}

// If the environment is not read, there is no home folder, and no other folder replaces it.
void fill_user_places(Settings& settings, const autotune_options& options, const Environment& environment) {
    const std::string database = variable(environment, "AUTOTUNE_DB"), cache = variable(environment, "AUTOTUNE_CACHE_DIR");
    const bool asks = options.read_environment != 0;
    std::string why_no_data, why_no_cache, data_folder, cache_folder;
    if (asks && options.database == nullptr && database.empty())
        data_folder = folder_or_stand_in(environment, "XDG_DATA_HOME", "/.local/share", why_no_data);
    if (asks && options.cache_folder == nullptr && cache.empty())
        cache_folder = folder_or_stand_in(environment, "XDG_CACHE_HOME", "/.cache", why_no_cache);
    fill(settings.database, options.database, database, data_folder.empty() ? "" : data_folder + "/autotune.db");
    fill(settings.cache_folder, options.cache_folder, cache, cache_folder);
    const std::string& why = why_no_cache.empty() ? why_no_data : why_no_cache;
    if (why.empty()) return;
    const bool is_nowhere = why_no_cache.empty() ? data_folder.empty() : cache_folder.empty();
    settings.warning =
        why + ": " +
        (is_nowhere ? "kernels are compiled in every process" : fallback_home() + " is used instead, which a restart may empty") +
        "; set HOME, or AUTOTUNE_DB and AUTOTUNE_CACHE_DIR";
}

// Processes that must agree cannot use whatever is loaded, so these policies are replaced by stricter ones.
autotune_on_miss agreed(autotune_on_miss policy) {
    if (policy == AUTOTUNE_ON_MISS_BACKGROUND) return AUTOTUNE_ON_MISS_COMPILE;
    return policy == AUTOTUNE_ON_MISS_LOADED_ONLY ? AUTOTUNE_ON_MISS_NOT_PLANNED : policy;
}

// A name stands for a file in the folder of labels. Links are followed now, so that a channel that moves on changes nothing here.
void fill_label(Settings& settings, const autotune_options& options, const Environment& environment) {
    fill(settings.label, options.label, variable(environment, "AUTOTUNE_LABEL"), "");
    if (settings.label.empty()) return;
    settings.on_miss = agreed(settings.on_miss);
    if (settings.label.find('/') == std::string::npos) {
        std::string why_no_data, folder = variable(environment, "AUTOTUNE_FLEET");
        if (folder.empty()) folder = folder_or_stand_in(environment, "XDG_DATA_HOME", "/.local/share", why_no_data) + "/fleet";
        // A text that cannot be a label's name names no file.
        settings.label = dispatch::is_label_name(settings.label) ? dispatch::label_path(folder, settings.label) : folder + "/";
    }
    make_absolute(settings.label);
    std::error_code error;
    const std::filesystem::path real = std::filesystem::weakly_canonical(settings.label, error);
    if (!error && settings.label.back() != '/') settings.label = real.string();
}

}  // namespace

Settings settings_of(const autotune_options* given, const Environment& environment) {
    autotune_options options = standard_options();
    if (given != nullptr) {
        if (!copy_versioned(options, given))
            throw Failure(AUTOTUNE_INVALID_ARGUMENT, "options.struct_size must be sizeof(autotune_options), here " +
                                                         std::to_string(sizeof(options)) + " bytes");
    }
    check_options(options);
    const bool reads = options.read_environment != 0;
    const Environment asked = reads ? environment : [](const char*) -> const char* { return nullptr; };
    Settings settings;
    fill_user_places(settings, options, asked);
    fill(settings.shipped, options.shipped, variable(asked, "AUTOTUNE_SHIPPED"), folder_beside_library("share/autotune/winners"));
    fill(settings.nvrtc, options.nvrtc, variable(asked, "AUTOTUNE_NVRTC"), "");
    // The compiler that was installed with this library is searched first.
    if (std::string own = folder_beside_library("lib/autotune"); !own.empty()) settings.library_folders.push_back(std::move(own));
    for (std::string& folder : gpu::library_folders(asked)) settings.library_folders.push_back(std::move(folder));
    for (const char* name : {"CUDA_PATH", "CUDA_HOME"})
        if (std::string root = variable(asked, name); !root.empty()) settings.toolkit_roots.push_back(std::move(root));
    settings.toolkit_roots.emplace_back("/usr/local/cuda");
    fill(settings.pin, options.pin, variable(asked, "AUTOTUNE_PIN"), "");
    for (std::string* path : {&settings.database, &settings.cache_folder, &settings.shipped}) make_absolute(*path);
    if (settings.nvrtc.find('/') != std::string::npos) make_absolute(settings.nvrtc);  // the loader searches for a bare name
    settings.on_miss = options.on_miss;
    fill_label(settings, options, asked);
    settings.record_misses = options.record_misses != 0;
    // tests use a shorter interval than a minute
    if (const int given_ms = std::atoi(variable(asked, "AUTOTUNE_TEST_LOOK_MS").c_str()); given_ms > 0)
        settings.look_interval = std::chrono::milliseconds(given_ms);
    settings.log_level = level_of(variable(asked, "AUTOTUNE_LOG"));
    settings.log = options.log;
    settings.log_user = options.log_user;
    return settings;
}

std::string folder_beside_library(const std::string& below_prefix) {
    Dl_info info = {};
    if (::dladdr(reinterpret_cast<const void*>(&folder_beside_library), &info) == 0 || info.dli_fname == nullptr) return "";
    std::error_code error;
    const auto library = std::filesystem::weakly_canonical(info.dli_fname, error);
    if (error) return "";
    // lib/libautotune.so, lib/x86_64-linux-gnu/libautotune.so and bin/autotune all have their prefix one or two folders up.
    for (auto folder = library.parent_path().parent_path(); folder.has_relative_path(); folder = folder.parent_path()) {
        const auto wanted = folder / below_prefix;
        if (std::filesystem::is_directory(wanted, error)) return wanted.string();
        if (folder == library.parent_path().parent_path().parent_path()) break;
    }
    return "";
}

}  // namespace autotune::runtime
