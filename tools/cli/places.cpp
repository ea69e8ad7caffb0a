#include "tools/cli/places.h"

#include <sys/stat.h>

#include <cerrno>
#include <functional>

#include "src/core/system/private_folder.h"
#include "src/jit/cubin_cache.h"

namespace autotune::cli {
namespace {

constexpr const char* kCacheBeneathHome = "/.cache";
constexpr const char* kStateBeneathHome = "/.local/state";
constexpr const char* kDataBeneathHome = "/.local/share";
constexpr const char* kDatabaseName = "/autotune.db";

// A kind of place, with its names and the words for messages.
struct PlaceKind {
    std::string beneath_home;  // the path below the folder that replaces HOME
    std::string is_kept;       // "compiled kernels are kept"
    std::string is_not_kept;   // such as "compiled kernels are not kept"
    std::string variable;      // names another place
    std::string file;          // if the place is a file, its path within the folder
};

// Returns why nothing can be stored in a folder, or "".
using FolderCheck = std::function<std::string(const std::string& folder)>;

std::string instead_text(const std::string& why, bool is_homes, const PlaceKind& kind, const std::string& path) {
    if (is_homes)  // If HOME is the cause, it is the same for all places, and so is the remedy.
        return why + ": " + fallback_home() +
               " is used instead, which a restart may empty; set HOME, or AUTOTUNE_DB, AUTOTUNE_CACHE_DIR and XDG_STATE_HOME";
    return why + "; " + kind.is_kept + " in " + path + " instead" + (kind.file.empty() ? "" : ", which a restart may delete") +
           "; " + kind.variable + " names another place";
}

// `folder` is the usual folder, or "" if HOME cannot be used. `makes` says whether to create it; readers create nothing.
Place find_place(const PlaceKind& kind, const std::string& folder, const std::string& trouble, const FolderCheck& check,
                 bool makes = true) {
    const std::string why = folder.empty() ? trouble : check(folder);
    if (why.empty()) return {folder + kind.file, ""};
    const std::string instead = fallback_home() + kind.beneath_home + "/autotune";
    std::string why_nowhere = makes ? make_fallback_home() : why_fallback_home_is_unsafe();
    if (why_nowhere.empty()) why_nowhere = check(instead);
    if (why_nowhere.empty()) return {instead + kind.file, instead_text(why, folder.empty(), kind, instead + kind.file)};
    return {"", why + ", and " + why_nowhere + "; " + kind.is_not_kept + "; " + kind.variable + " names another place"};
}

bool is_there(const std::string& path) {
    struct stat facts = {};
    return ::stat(path.c_str(), &facts) == 0;
}

PlaceKind database_kind() {
    return {kDataBeneathHome, "winners are stored", "winners are printed and not stored", "--db or AUTOTUNE_DB", kDatabaseName};
}

}  // namespace

Home Places::home() const {
    return usable_home(environment_.get("HOME").value_or(""));
}

// The variable if it is absolute, as the XDG specification requires, else a folder below HOME. Empty if that cannot be used.
std::string Places::xdg_folder(const char* variable, const char* beneath_home) const {
    const auto folder = environment_.get(variable);
    if (folder && folder->front() == '/') return *folder + "/autotune";
    const Home found = home();
    return found.trouble.empty() ? found.path + beneath_home + "/autotune" : "";
}

const Place& Places::cache() {
    if (cache_) return *cache_;
    const PlaceKind kind{kCacheBeneathHome, "compiled kernels are kept", "compiled kernels are not kept", "AUTOTUNE_CACHE_DIR",
                         ""};
    const std::string folder = environment_.get("AUTOTUNE_CACHE_DIR").value_or(xdg_folder("XDG_CACHE_HOME", kCacheBeneathHome));
    cache_ =
        find_place(kind, folder, home().trouble, [](const std::string& one) { return jit::CubinCache(one).why_not_usable(); });
    return *cache_;
}

std::string Places::usual_state_folder() const {
    return xdg_folder("XDG_STATE_HOME", kStateBeneathHome);
}

const Place& Places::state() {
    if (state_) return *state_;
    const PlaceKind kind{kStateBeneathHome, "locks and journals are kept", "locks and journals are not kept", "XDG_STATE_HOME",
                         ""};
    state_ = find_place(kind, usual_state_folder(), home().trouble,
                        [](const std::string& one) { return why_folder_not_writable(one); });
    return *state_;
}

std::string Places::host_locks() const {
    return environment_.get("AUTOTUNE_LOCK_DIR").value_or("/run/lock/autotune");
}

// Finds the folder as the library does (src/runtime/api/settings.cpp).
std::string Places::labels() const {
    if (const auto named = environment_.get("AUTOTUNE_FLEET")) return *named;
    const std::string usual = xdg_folder("XDG_DATA_HOME", kDataBeneathHome);
    return (usual.empty() ? fallback_home() + kDataBeneathHome + "/autotune" : usual) + "/fleet";
}

std::string Places::default_database() const {
    const std::string folder = xdg_folder("XDG_DATA_HOME", kDataBeneathHome);
    return folder.empty() ? "" : folder + kDatabaseName;
}

// If a database exists, it is used even if nothing can be added to it.
const Place& Places::database_to_read() {
    if (written_) return *written_;
    if (read_) return *read_;
    const auto named = environment_.get("AUTOTUNE_DB");
    const std::string usual = named.value_or(default_database());
    if (named || is_there(usual)) {
        read_ = Place{usual, ""};
    } else {
        read_ = find_place(database_kind(), xdg_folder("XDG_DATA_HOME", kDataBeneathHome), home().trouble,
                           why_folder_not_makeable, false);
    }
    return *read_;
}

const Place& Places::database_to_write() {
    if (written_) return *written_;
    const auto named = environment_.get("AUTOTUNE_DB");
    const std::string usual = named.value_or(default_database());
    if (named || is_there(usual)) {
        written_ = Place{usual, ""};
    } else {
        written_ = find_place(database_kind(), xdg_folder("XDG_DATA_HOME", kDataBeneathHome), home().trouble,
                              [](const std::string& one) { return why_folder_not_writable(one); });
    }
    return *written_;
}

}  // namespace autotune::cli
