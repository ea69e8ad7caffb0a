#pragma once

#include <functional>
#include <optional>
#include <string>

namespace autotune {

// How to read rows that an earlier version stored. Without this a store reads its rows unchanged.
struct FormerTemplates {
    // The present identity of the family's template, if `identity` is an earlier one whose text compiled to the same machine
    // code; nullopt for any other identity, including the present one.
    std::function<std::optional<std::string>(const std::string& family, const std::string& identity)> present_identity{};
    // The present name of a parameter of the family. Set whenever present_identity is.
    std::function<std::string(const std::string& family, const std::string& parameter)> present_parameter{};
};

}  // namespace autotune
