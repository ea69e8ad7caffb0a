#include "src/dispatch/ranking.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "src/dispatch/offers.h"

namespace autotune::dispatch {

RankedDefaults ranked_defaults(const Catalogue& catalogue, const Problem& problem, const Device& device) {
    FamilyDefaults defaults = family_defaults(catalogue, problem, device);
    std::vector<std::pair<double, ResolvedCandidate>> ranked;
    for (Candidate& each : defaults.candidates) {
        const auto us = catalogue.find_family(each.family)->predict_us(problem, each.config, device);
        ranked.push_back({us.value_or(std::numeric_limits<double>::infinity()),
                          {std::move(each), Origin::family_default, "", 0, 0, -1, Source::family_default, true}});
    }
    std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    RankedDefaults all{{}, std::move(defaults.refusals)};
    for (auto& [us, each] : ranked) all.candidates.push_back(std::move(each));
    return all;
}

std::vector<ResolvedCandidate> rank(const Catalogue& catalogue, const std::vector<ResolvedCandidate>& offers,
                                    const Problem& problem, const Device& device, std::size_t count) {
    std::vector<const Candidate*> candidates;
    OfferRanking::Checked checked;
    for (const ResolvedCandidate& each : offers) {
        candidates.push_back(&each.candidate);
        checked.push_back(each.is_checked ? 1 : 0);
    }
    std::vector<ResolvedCandidate> ranked;
    OfferRanking ranking(catalogue, problem, device);
    ranking.check(candidates, checked);
    for (OfferRanking::Ranked& each : ranking.best_of_checked(candidates, checked, count)) {
        ResolvedCandidate found = offers[each.offer];
        found.is_checked = true;
        found.candidate = std::move(each.candidate);
        ranked.push_back(std::move(found));
    }
    return ranked;
}

}  // namespace autotune::dispatch
