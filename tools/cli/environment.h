#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autotune::cli {

// The environment as a value: read once at the start, here and nowhere else.
class Environment {
  public:
    using Variables = std::map<std::string, std::string, std::less<>>;

    Environment() = default;
    explicit Environment(Variables variables) : variables_(std::move(variables)) {}
    // Empty in a program that runs with more rights than its caller (set-user-ID): what the caller names must not be loaded.
    static Environment of_process();

    // nullopt for a variable that is unset or empty.
    std::optional<std::string> get(std::string_view name) const;

  private:
    Variables variables_;
};

// A variable that the command or the library reads, for the manual. docs/environment.md says more of each.
struct EnvironmentVariable {
    std::string_view name;
    std::string_view about;
};
std::vector<EnvironmentVariable> environment_variables();

// Where things are kept when no flag says otherwise.
struct Paths {
    std::string database;         // AUTOTUNE_DB, or XDG_DATA_HOME/autotune/autotune.db
    std::string cache_folder;     // AUTOTUNE_CACHE_DIR, or XDG_CACHE_HOME/autotune: compiled instances
    std::string state_folder;     // XDG_STATE_HOME/autotune: GPU locks and journals
    std::string fallback_reason;  // why a private folder under /tmp stands in for HOME; empty: it does not
};

// Relative XDG folders are ignored, as their specification asks. Without HOME: a folder of this user's own under /tmp.
Paths default_paths(const Environment& environment);

// The private folder under /tmp that stands in for HOME.
std::string temporary_home();

// Makes a folder and its missing parents, each 0700. Throws Error{database} naming the folder and the reason.
void make_private_folder(const std::string& folder);
// The same for a folder under /tmp, where somebody else may have been first: also refuses one that is a link, foreign or open to
// others.
void make_private_temporary_folder(const std::string& folder);

}  // namespace autotune::cli
