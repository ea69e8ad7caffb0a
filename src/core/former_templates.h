#pragma once

#include <functional>
#include <optional>
#include <string>

namespace autotune {

// How to read rows that an earlier version stored. A store that is given none takes its rows as they are.
struct FormerTemplates {
    // The identity that the family's template has today, if `identity` is an earlier one of a text that compiled to the same
    // machine code; nullopt for any other identity, today's among them.
    std::function<std::optional<std::string>(const std::string& family, const std::string& identity)> present_identity{};
    // The name that a parameter of the family has today. Set where present_identity is.
    std::function<std::string(const std::string& family, const std::string& parameter)> present_parameter{};
};

}  // namespace autotune
