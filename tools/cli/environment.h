#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace autotune::cli {

// The environment as a value. Only this class reads it, once at the start.
class Environment {
  public:
    using Variables = std::map<std::string, std::string, std::less<>>;

    Environment() = default;
    explicit Environment(Variables variables) : variables_(std::move(variables)) {}
    // Empty in a set-user-ID program, which runs with more rights than its caller and must not load files that the caller names.
    static Environment of_process();

    // nullopt for a variable that is unset or empty.
    std::optional<std::string> get(std::string_view name) const;

  private:
    Variables variables_;
};

// A variable that the command or the library reads, for the manual. docs/environment.md describes each.
struct EnvironmentVariable {
    std::string_view name;
    std::string_view about;
};
std::vector<EnvironmentVariable> environment_variables();

}  // namespace autotune::cli
