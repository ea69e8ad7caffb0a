#include "src/runtime/settings.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "src/gpu/library_folders.h"
#include "src/runtime/status.h"
#include "src/runtime/versions.h"

namespace autotune::runtime {
namespace {

std::string variable(const Environment& environment, const char* name) {
    const char* value = environment(name);
    return value == nullptr ? "" : value;
}

// Whether a folder is another user's. One that does not exist is nobody's.
bool belongs_to_another(const std::string& folder) {
    struct stat info = {};
    return ::stat(folder.c_str(), &info) == 0 && info.st_uid != ::geteuid();
}

// An XDG folder: relative ones are ignored, as their specification asks; without HOME there is none.
std::string user_folder(const Environment& environment, const char* name, const std::string& below_home) {
    const std::string given = variable(environment, name);
    if (given.starts_with('/')) return given;
    const std::string home = variable(environment, "HOME");
    return home.starts_with('/') ? home + below_home : "";
}

std::string beneath(const std::string& folder, const std::string& name) {
    return folder.empty() ? "" : folder + name;
}

// The default cache folder, none where it would be made in the HOME of another user, as `sudo` and `su` leave it: files of this
// user there would keep that user out of a cache of his own.
std::string cache_below_home(const Environment& environment, Settings& settings) {
    const std::string folder = beneath(user_folder(environment, "XDG_CACHE_HOME", "/.cache"), "/autotune");
    const std::string home = variable(environment, "HOME");
    const bool is_below_home = folder.starts_with(home + "/");
    if (home.empty() || !is_below_home || !belongs_to_another(home)) return folder;
    settings.warning = "HOME (" + home +
                       ") belongs to another user: no cache of compiled kernels is made there, they are "
                       "compiled in every process; name a folder in AUTOTUNE_CACHE_DIR or options.cache_folder";
    return "";
}

autotune_log_level level_of(const std::string& word) {
    if (word == "debug") return AUTOTUNE_LOG_DEBUG;
    return word == "warning" || word == "warn" ? AUTOTUNE_LOG_WARNING : AUTOTUNE_LOG_INFO;
}

// An option that was given stands, even as ""; then the variable; then the default of the command.
void fill(std::string& setting, const char* option, const std::string& from_variable, const std::string& standard) {
    if (option != nullptr) {
        setting = option;
    } else {
        setting = from_variable.empty() ? standard : from_variable;
    }
}

// Where a relative path leads now: a program that changes its folder later would make a second database there. A folder of work
// that is gone leaves it as it is.
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
    fill(settings.database, options.database, variable(asked, "AUTOTUNE_DB"),
         beneath(user_folder(asked, "XDG_DATA_HOME", "/.local/share"), "/autotune/autotune.db"));
    fill(settings.cache_folder, options.cache_folder, variable(asked, "AUTOTUNE_CACHE_DIR"), cache_below_home(asked, settings));
    if (!settings.cache_folder.empty() || options.cache_folder != nullptr) settings.warning.clear();
    fill(settings.shipped, options.shipped, variable(asked, "AUTOTUNE_SHIPPED"), folder_beside_library("share/autotune/winners"));
    fill(settings.nvrtc, options.nvrtc, variable(asked, "AUTOTUNE_NVRTC"), "");
    // The compiler that was installed with us comes first.
    if (std::string own = folder_beside_library("lib/autotune"); !own.empty()) settings.library_folders.push_back(std::move(own));
    for (std::string& folder : gpu::library_folders(asked)) settings.library_folders.push_back(std::move(folder));
    fill(settings.pin, options.pin, variable(asked, "AUTOTUNE_PIN"), "");
    for (std::string* path : {&settings.database, &settings.cache_folder, &settings.shipped}) make_absolute(*path);
    if (settings.nvrtc.find('/') != std::string::npos) make_absolute(settings.nvrtc);  // a bare name is searched by the loader
    settings.on_miss = options.on_miss;
    settings.record_misses = options.record_misses != 0;
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
