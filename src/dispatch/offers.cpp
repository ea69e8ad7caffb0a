#include "src/dispatch/offers.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace autotune {

Relaunched OfferRanking::relaunched(const Candidate& candidate) {
    const auto [entry, is_new] = relaunchers_.try_emplace(candidate.family);
    if (is_new) {
        const Family* family = catalogue_.find_family(candidate.family);
        if (family != nullptr && !family->refuses(problem_, device_)) entry->second = family->relauncher(problem_, device_);
    }
    return entry->second ? entry->second(candidate.config) : Relaunched{};
}

void OfferRanking::check(std::span<const Candidate* const> offers, Checked& checked) {
    checked.resize(offers.size());
    for (std::size_t i = 0; i < offers.size(); ++i)
        if (checked[i] == 0) checked[i] = legality_.why_not_relaunched(*offers[i]) ? 0 : 1;
}

std::vector<OfferRanking::Ranked> OfferRanking::best(std::span<const Candidate* const> offers, std::size_t count) {
    Checked checked;
    check(offers, checked);
    return best_of_checked(offers, checked, count);
}

std::vector<OfferRanking::Ranked> OfferRanking::best_of_checked(std::span<const Candidate* const> offers, const Checked& checked,
                                                                std::size_t count) {
    std::vector<Relaunched> given(offers.size());
    std::vector<std::pair<double, std::size_t>> order;  // predicted time and index
    for (std::size_t i = 0; i < offers.size(); ++i) {
        if (checked[i] == 0) continue;
        given[i] = relaunched(*offers[i]);
        order.emplace_back(given[i].predicted_us.value_or(std::numeric_limits<double>::infinity()), i);
    }
    std::sort(order.begin(), order.end());
    std::vector<Ranked> legal;
    for (const auto& [predicted_us, i] : order) {
        if (legal.size() == count) break;
        Candidate candidate{offers[i]->family, given[i].of(offers[i]->config)};
        if (legality_.allows(candidate)) legal.push_back({i, std::move(candidate), predicted_us});
    }
    return legal;
}

std::vector<OfferRanking::Ranked> OfferRanking::best(std::span<const Candidate> offers, std::size_t count) {
    std::vector<const Candidate*> all;
    for (const Candidate& each : offers) all.push_back(&each);
    return best(all, count);
}

FamilyDefaults family_defaults(const Catalogue& catalogue, const Problem& problem, const Device& device) {
    FamilyDefaults defaults;
    for (const Family* family : catalogue.families_of(problem.op)) {
        const auto reason = family->refuses(problem, device);
        Config config = reason ? Config{} : family->default_config(problem, device);
        if (config.empty())
            defaults.refusals.add(family->name(), reason.value_or(kNoLegalConfig));
        else
            defaults.candidates.push_back({std::string(family->name()), std::move(config)});
    }
    return defaults;
}

std::string instance_key(const Catalogue& catalogue, const Problem& problem, const Device& device, const Candidate& candidate) {
    const Family* family = catalogue.find_family(candidate.family);
    if (family == nullptr || family->refuses(problem, device)) return candidate.to_string();
    return candidate.family + " " + family->rules(problem, device).compile_part(candidate.config).to_string();
}

}  // namespace autotune
