#include "src/core/space/config.h"

#include <algorithm>

#include "src/core/error.h"

namespace autotune {
namespace {

// Compares length and last letter first, because the names of one space often begin alike and an enumeration calls this a million
// times.
auto position_of(const std::vector<std::pair<std::string, std::int64_t>>& values, std::string_view name) {
    return std::find_if(values.begin(), values.end(), [&](const auto& entry) {
        const std::string& held = entry.first;
        return held.size() == name.size() && (name.empty() || held.back() == name.back()) && held == name;
    });
}

}  // namespace

std::int64_t Config::operator[](std::string_view name) const {
    const auto found = position_of(values_, name);
    if (found == values_.end()) {
        throw Error(ErrorCode::internal,
                    "internal error: config '" + to_string() + "' has no parameter '" + std::string(name) + "'");
    }
    return found->second;
}

std::optional<std::int64_t> Config::find(std::string_view name) const {
    const auto found = position_of(values_, name);
    if (found == values_.end()) return std::nullopt;
    return found->second;
}

void Config::set(std::string_view name, std::int64_t value) {
    const auto found = position_of(values_, name);
    if (found == values_.end()) {
        values_.emplace_back(name, value);
    } else {
        values_[static_cast<std::size_t>(found - values_.begin())].second = value;
    }
}

std::string Config::to_string() const {
    std::string text;
    for (const auto& [name, value] : values_) {
        if (!text.empty()) text += ' ';
        text += name + "=" + std::to_string(value);
    }
    return text;
}

}  // namespace autotune
