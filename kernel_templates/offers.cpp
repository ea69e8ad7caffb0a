#include "kernel_templates/offers.h"

#include <algorithm>
#include <limits>

namespace autotune {

OfferRanking::Ranked OfferRanking::relaunched(std::size_t offer, const Candidate& candidate) {
    constexpr double kUnknown = std::numeric_limits<double>::infinity();
    const auto [entry, is_new] = relaunchers_.try_emplace(candidate.family);
    if (is_new) {
        const Family* family = catalogue_.find_family(candidate.family);
        if (family != nullptr && !family->refuses(problem_, device_)) entry->second = family->relauncher(problem_, device_);
    }
    if (!entry->second) return {offer, candidate, kUnknown};
    Relaunched given = entry->second(candidate.config);
    return {offer, {candidate.family, std::move(given.config)}, given.predicted_us.value_or(kUnknown)};
}

std::vector<OfferRanking::Ranked> OfferRanking::best(std::span<const Candidate> offers, std::size_t count) {
    std::vector<Ranked> all;
    for (std::size_t i = 0; i < offers.size(); ++i) all.push_back(relaunched(i, offers[i]));
    std::stable_sort(all.begin(), all.end(), [](const Ranked& a, const Ranked& b) { return a.predicted_us < b.predicted_us; });
    std::vector<Ranked> legal;
    for (Ranked& each : all) {
        if (legal.size() == count) break;
        if (legality_.allows(each.candidate)) legal.push_back(std::move(each));
    }
    return legal;
}

std::string instance_key(const Catalogue& catalogue, const Problem& problem, const Device& device, const Candidate& candidate) {
    const Family* family = catalogue.find_family(candidate.family);
    if (family == nullptr) return candidate.to_string();
    return candidate.family + " " + family->rules(problem, device).compile_part(candidate.config).to_string();
}

}  // namespace autotune
