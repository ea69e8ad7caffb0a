#include "src/dispatch/serving_set.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <list>
#include <set>
#include <span>
#include <utility>

#include "src/dispatch/offers.h"

namespace autotune::dispatch {
namespace {

// First extents for which the best candidate is chosen. From the narrowest tile on, each doubling doubles an instance's work;
// below it a kernel for few rows may be the best.
constexpr std::array<std::int64_t, 12> kPivots = {1, 4, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192};
// Several pivots have the same best instance, so more instances fit. They are chosen for extents between pivots, where another
// number of waves favours another tile, and for extents just above a power of two.
constexpr std::array<std::int64_t, 26> kBetween = {24,  48,  72,  80,   96,   112,  144,  192,  224,  288,  384,  448,  576,
                                                   640, 768, 896, 1152, 1280, 1536, 1792, 2304, 2560, 3072, 3584, 5120, 6144};
constexpr std::size_t kSetInstances = 11;  // the first problem of a range gets a twelfth kernel of its own

// A first extent for which a set should be nearly as fast as the best of all offers.
struct Pivot {
    Pivot(const Catalogue& catalogue, Problem of, const Device& device)
        : problem(std::move(of)), ranking(catalogue, problem, device) {}
    // How much slower the set is than the best offer. Infinity if no kernel of the set is legal here.
    double loss() const {
        return !is_served ? std::numeric_limits<double>::infinity() : us > best.predicted_us ? us / best.predicted_us : 1.0;
    }
    // REQUIRES: the candidate is legal here.
    void is_served_by(const Candidate& candidate) {
        const Candidate* const offer = &candidate;
        for (const OfferRanking::Ranked& each : ranking.best_of_checked(std::span(&offer, 1), {1}, 1)) {
            us = is_served ? std::min(us, each.predicted_us) : each.predicted_us;
            is_served = true;
        }
    }

    Problem problem;
    OfferRanking ranking;
    OfferRanking::Ranked best;
    bool is_served = false;
    double us = 0;  // of the set
};

// The pivots for which some offer is legal, each with its best one.
std::list<Pivot> pivots_with_best(const Catalogue& catalogue, const Problem& problem, const Device& device,
                                  const std::vector<ResolvedCandidate>& offers, const std::vector<std::int64_t>& extents) {
    std::vector<const Candidate*> candidates;
    for (const ResolvedCandidate& each : offers) candidates.push_back(&each.candidate);
    OfferRanking::Checked checked;
    std::list<Pivot> all;
    for (const std::int64_t extent : extents) {
        Pivot& at = all.emplace_back(catalogue, with_first_extent(problem, extent), device);
        at.ranking.check(candidates, checked);
        const std::vector<OfferRanking::Ranked> ranked = at.ranking.best_of_checked(candidates, checked, 1);
        if (ranked.empty())
            all.pop_back();
        else
            at.best = ranked.front();
    }
    return all;
}

}  // namespace

Problem with_first_extent(Problem problem, std::int64_t value) {
    problem.extents.front().value = value;
    return problem;
}

// A first extent beyond the table has pivots in its own doubling, in eighths.
std::vector<std::int64_t> pivots_of(std::int64_t first_extent) {
    if (first_extent <= kPivots.back()) return {kPivots.begin(), kPivots.end()};
    const auto most = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(first_extent)));
    std::vector<std::int64_t> pivots;
    for (std::int64_t eighth = 9; eighth <= 16; ++eighth) pivots.push_back(most / 16 * eighth);
    return pivots;
}

std::vector<std::int64_t> set_extents_of(std::int64_t first_extent) {
    std::vector<std::int64_t> extents = pivots_of(first_extent);
    if (extents.back() == kPivots.back()) extents.insert(extents.end(), kBetween.begin(), kBetween.end());
    return extents;
}

std::string range_of(const Problem& problem, const Device& device) {
    std::string key = problem.class_key() + " " + std::to_string(pivots_of(problem.extents.front().value).back());
    for (std::size_t i = 1; i < problem.extents.size(); ++i) key += "x" + std::to_string(problem.extents[i].value);
    return key + " on " + device.identity.key();
}

// Adds one instance after another: the best one of the pivot at which the set loses most. An instance may appear twice, because
// not every family can choose its launch parameters anew for another pivot.
std::vector<ResolvedCandidate> choose_serving_set(const Catalogue& catalogue, const Problem& problem, const Device& device,
                                                  const std::vector<ResolvedCandidate>& offers,
                                                  const std::vector<std::int64_t>& extents) {
    std::list<Pivot> all = pivots_with_best(catalogue, problem, device, offers, extents);
    std::vector<ResolvedCandidate> set;
    std::set<std::string> instances;
    while (!all.empty()) {
        const auto worst =
            std::max_element(all.begin(), all.end(), [](const Pivot& a, const Pivot& b) { return a.loss() < b.loss(); });
        if (worst->loss() <= 1.0) break;
        const OfferRanking::Ranked best = worst->best;
        const std::string instance = instance_key(catalogue, worst->problem, device, best.candidate);
        all.erase(worst);
        if (instances.size() == kSetInstances && !instances.contains(instance)) continue;
        instances.insert(instance);
        set.push_back(offers[best.offer]);
        set.back().candidate = best.candidate;
        set.back().is_checked = true;
        for (Pivot& at : all) at.is_served_by(best.candidate);
    }
    return set;
}

}  // namespace autotune::dispatch
