#include "tools/cli/environment.h"

#include <sys/auxv.h>
#include <unistd.h>

namespace autotune::cli {
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
    return {{"AUTOTUNE_DB", "database of winners; default $XDG_DATA_HOME/autotune/autotune.db. The flag --db goes first."},
            {"AUTOTUNE_CACHE_DIR", "folder of compiled kernels; default $XDG_CACHE_HOME/autotune."},
            {"AUTOTUNE_LOCK_DIR", "folder of the GPU locks that all users of a host share; default /run/lock/autotune."},
            {"AUTOTUNE_SHIPPED",
             "file or folder of winners that come with the product; default share/autotune/winners of the "
             "installation."},
            {"AUTOTUNE_JOBS",
             "how many compilers run at once; default: what processors, memory and limits allow. The flag --jobs goes first."},
            {"AUTOTUNE_NVRTC", "path of the libnvrtc to load; default: the newest one found that the driver can use."},
            {"AUTOTUNE_PIN", "library: a candidate such as gemm/mma block_m=128, for every problem of its operation."},
            {"CUDA_PATH", "a CUDA toolkit; its library folders are searched for libnvrtc, cuBLAS and cuBLASLt."},
            {"CUDA_HOME", "the same, after CUDA_PATH."},
            {"VIRTUAL_ENV", "a Python environment; its pip packages are searched for those libraries."},
            {"CONDA_PREFIX", "a Conda environment, searched likewise."},
            {"PATH", "pip packages of its first python3 are searched likewise."},
            {"AUTOTUNE_STORE", "address of the fleet's store, as PostgreSQL's libpq takes it. The flag --store goes first."},
            {"AUTOTUNE_FLEET", "folder of the labels that sync brings; default $XDG_DATA_HOME/autotune/fleet."},
            {"AUTOTUNE_LABEL", "library: the label, or channel, from which winners are taken. sync: the one that is brought."},
            {"AUTOTUNE_LOG", "info: each trial on standard error."},
            {"AUTOTUNE_PROFILED", "set: the GPU worker keeps the environment by which a profiler follows into it."},
            {"NO_COLOR", "set: no bold text on a terminal."},
            {"XDG_DATA_HOME", "folder of the database; default ~/.local/share."},
            {"XDG_CACHE_HOME", "folder of compiled kernels; default ~/.cache."},
            {"XDG_STATE_HOME", "folder of locks and journals; default ~/.local/state."},
            {"HOME",
             "where the three folders above lie. Where one of them cannot be used, a private folder /tmp/autotune-UID stands in "
             "for it, "
             "with a warning."}};
}

}  // namespace autotune::cli
