#include "src/dispatch/rules/refusals.h"

#include <algorithm>

namespace autotune {

std::optional<std::string> why_unable(const Family& family, const Problem& problem, const Device& device) {
    if (auto reason = family.refuses(problem, device)) return reason;
    if (!family.rules(problem, device).first()) return kNoLegalConfig;
    return std::nullopt;
}

void Refusals::add(std::string_view family, const std::string& reason) {
    auto found = std::find_if(families_by_reason_.begin(), families_by_reason_.end(),
                              [&](const auto& entry) { return entry.first == reason; });
    if (found == families_by_reason_.end()) found = families_by_reason_.insert(found, {reason, {}});
    found->second.emplace_back(family);
}

std::string Refusals::sentence(const Problem& problem, const Device& device) const {
    std::string text;
    for (const auto& [reason, families] : families_by_reason_) {
        std::string names;
        for (const std::string& family : families) names += (names.empty() ? "" : ", ") + family;
        text += (text.empty() ? ": " : "; ") + reason + " (" + names + ")";
    }
    return "no family can do " + problem.key() + " on " + device.arch() + text;
}

}  // namespace autotune
