#include "tools/cli/environment.h"

#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "src/core/error.h"

namespace autotune::cli {
namespace {

// An XDG folder: the variable if absolute, else `beneath_home` under HOME or its stand-in.
std::string xdg_folder(const Environment& environment, std::string_view variable, const std::string& beneath_home) {
    const auto folder = environment.get(variable);
    if (folder && folder->front() == '/') return *folder;
    const auto home = environment.get("HOME");
    return (home && home->front() == '/' ? *home : temporary_home()) + beneath_home;
}

bool make_one(const std::string& folder) {
    return mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST;
}

}  // namespace

// Never getpwuid: containers run under ids that no user has.
std::string temporary_home() {
    return "/tmp/autotune-" + std::to_string(geteuid());
}

Environment Environment::of_process() {
    Environment environment;
    if (::getauxval(AT_SECURE) != 0) return environment;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string_view text(*entry);
        const std::size_t equals = text.find('=');
        if (equals != std::string_view::npos) environment.variables_.emplace(text.substr(0, equals), text.substr(equals + 1));
    }
    return environment;
}

std::optional<std::string> Environment::get(std::string_view name) const {
    const auto found = variables_.find(name);
    if (found == variables_.end() || found->second.empty()) return std::nullopt;
    return found->second;
}

std::vector<EnvironmentVariable> environment_variables() {
    return {
        {"AUTOTUNE_DB", "database of winners; default $XDG_DATA_HOME/autotune/autotune.db. The flag --db goes first."},
        {"AUTOTUNE_CACHE_DIR", "folder of compiled kernels; default $XDG_CACHE_HOME/autotune."},
        {"AUTOTUNE_SHIPPED",
         "file or folder of winners that come with the product; default share/autotune/winners of the "
         "installation."},
        {"AUTOTUNE_NVRTC", "path of the libnvrtc to load; default: the newest one found that the driver can use."},
        {"AUTOTUNE_PIN", "library: a candidate such as gemm/mma block_m=128, for every problem of its operation."},
        {"CUDA_PATH", "a CUDA toolkit; its library folders are searched for libnvrtc, cuBLAS and cuBLASLt."},
        {"CUDA_HOME", "the same, after CUDA_PATH."},
        {"VIRTUAL_ENV", "a Python environment; its pip packages are searched for those libraries."},
        {"CONDA_PREFIX", "a Conda environment, searched likewise."},
        {"PATH", "pip packages of its first python3 are searched likewise."},
        {"AUTOTUNE_LOG", "info: each trial on standard error."},
        {"AUTOTUNE_PROFILED", "set: the GPU worker keeps the environment by which a profiler follows into it."},
        {"NO_COLOR", "set: no bold text on a terminal."},
        {"XDG_DATA_HOME", "folder of the database; default ~/.local/share."},
        {"XDG_CACHE_HOME", "folder of compiled kernels; default ~/.cache."},
        {"XDG_STATE_HOME", "folder of locks and journals; default ~/.local/state."},
        {"HOME", "where the three folders above lie; without it a private folder /tmp/autotune-UID is used, with a warning."}};
}

Paths default_paths(const Environment& environment) {
    Paths paths;
    paths.database = xdg_folder(environment, "XDG_DATA_HOME", "/.local/share") + "/autotune/autotune.db";
    paths.cache_folder = xdg_folder(environment, "XDG_CACHE_HOME", "/.cache") + "/autotune";
    paths.state_folder = xdg_folder(environment, "XDG_STATE_HOME", "/.local/state") + "/autotune";
    if (const auto database = environment.get("AUTOTUNE_DB")) paths.database = *database;
    if (const auto cache = environment.get("AUTOTUNE_CACHE_DIR")) paths.cache_folder = *cache;
    for (const std::string* path : {&paths.database, &paths.cache_folder, &paths.state_folder}) {
        if (path->compare(0, temporary_home().size() + 1, temporary_home() + "/") == 0) {
            paths.fallback_reason =
                "HOME is not set, so " + temporary_home() + " is used; set HOME, or AUTOTUNE_DB and AUTOTUNE_CACHE_DIR";
        }
    }
    return paths;
}

void make_private_folder(const std::string& folder) {
    if (folder.compare(0, temporary_home().size(), temporary_home()) == 0) make_private_temporary_folder(temporary_home());
    std::string path;
    for (const auto& part : std::filesystem::path(folder)) {
        path = path.empty() ? part.string() : (std::filesystem::path(path) / part).string();
        if (!make_one(path)) {
            throw Error(ErrorCode::database, "cannot make the folder " + path + ": " + std::strerror(errno) +
                                                 "; choose another place with --db, AUTOTUNE_DB or AUTOTUNE_CACHE_DIR");
        }
    }
}

void make_private_temporary_folder(const std::string& folder) {
    struct stat facts = {};
    if (!make_one(folder) || lstat(folder.c_str(), &facts) != 0) {
        throw Error(ErrorCode::database, "cannot make the folder " + folder + ": " + std::strerror(errno) + "; set HOME or --db");
    }
    if (!S_ISDIR(facts.st_mode) || facts.st_uid != geteuid() || (facts.st_mode & 077) != 0) {
        throw Error(ErrorCode::database, folder + " is not a private folder of this user; set HOME or --db");
    }
}

}  // namespace autotune::cli
