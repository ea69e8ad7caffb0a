#include "src/dispatch/dispatcher.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>
#include <set>
#include <utility>

#include "src/core/error.h"
#include "src/core/integer_math.h"
#include "src/dispatch/offers.h"
#include "src/dispatch/ranking.h"
#include "src/dispatch/rules/legality.h"
#include "src/dispatch/rules/refusals.h"
#include "src/dispatch/serving_set.h"

namespace autotune::dispatch {
namespace {

constexpr std::int64_t kNoExtent = -1;      // represents all first extents of a range that one set of kernels serves
constexpr std::size_t kLeastForRegret = 5;  // a median needs at least this many problems

// Rounds up to a number with four significant binary digits: 129 becomes 144.
std::int64_t rounded_up(std::int64_t value) {
    std::int64_t unit = 1;
    while (value / unit >= 16) unit *= 2;
    return round_up(value, unit);
}

// The same problem with its extents rounded up. Used only for predictions.
Problem rounded_up(Problem problem) {
    for (Extent& extent : problem.extents) extent.value = rounded_up(extent.value);
    return problem;
}

// Every value up to 64, then eight steps per doubling: the best choice changes with the number of waves of tiles.
std::int64_t next_value(std::int64_t value) {
    return value < 64 ? value + 1 : value + static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(value))) / 8;
}

void append(std::vector<ResolvedCandidate>& to, std::vector<ResolvedCandidate> more, double regret) {
    for (ResolvedCandidate& each : more) {
        each.regret = regret;
        to.push_back(std::move(each));
    }
}

}  // namespace

std::string_view to_string(Origin origin) {
    switch (origin) {
        case Origin::exact:
            return "exact";
        case Origin::shipped:
            return "shipped";
        case Origin::near:
            return "near";
        case Origin::family_default:
            return "default";
        case Origin::pinned:
            return "pinned";
        case Origin::label:
            return "label";
    }
    return "";
}

std::string_view to_string(Source source) {
    switch (source) {
        case Source::none:
            return "";
        case Source::portfolio:
            return "portfolio";
        case Source::near:
            return "near";
        case Source::other_card:
            return "near (other card)";
        case Source::family_default:
            return "default";
        case Source::fallback:
            return "fallback";
    }
    return "";
}

void check_supported(const Catalogue& catalogue, const Problem& problem, const Device& device) {
    if (catalogue.op_of(problem).empty_sums(problem)) return;
    Refusals refusals;
    for (const Family* family : catalogue.families_of(problem.op)) {
        const auto reason = why_unable(*family, problem, device);
        if (!reason) return;
        refusals.add(family->name(), *reason);
    }
    throw Error(ErrorCode::no_valid_config, refusals.sentence(problem, device));
}

Dispatcher::Dispatcher(Options options, const Catalogue& catalogue, Warn warn)
    : catalogue_(catalogue),
      pin_(std::move(options.pin), catalogue),
      files_(std::move(options.files), catalogue, std::move(warn)) {}

bool Dispatcher::refresh() {
    if (!files_.refresh()) return false;
    const std::lock_guard lock(mutex_);
    likely_defaults_.clear();
    serving_sets_.clear();
    regrets_.clear();
    return true;
}

// A portfolio was made from tuned problems. For other kinds of problems the families' own defaults may be better, so they are
// offered too. Empty without a portfolio.
std::vector<ResolvedCandidate> Dispatcher::offers_for_set(const Problem& problem, const Device& device) {
    std::vector<ResolvedCandidate> offers = files_.portfolio(problem, device);
    if (offers.empty()) return offers;
    const double regret = offers.front().regret;
    const std::int64_t first_extent = problem.extents.front().value;
    for (const std::int64_t extent : set_extents_of(first_extent))
        append(offers, ranked_defaults(catalogue_, with_first_extent(problem, extent), device).candidates, regret);
    std::set<std::string> known;
    for (const std::int64_t pivot : pivots_of(first_extent)) {
        std::vector<ResolvedCandidate> near = files_.near(with_first_extent(problem, pivot), device);
        std::erase_if(near, [&](const ResolvedCandidate& each) { return !known.insert(each.candidate.to_string()).second; });
        append(offers, std::move(near), regret);
    }
    return offers;
}

Dispatcher::ServingSet Dispatcher::serving_set(const Problem& problem, const Device& device) {
    const auto none = std::make_shared<const std::vector<ResolvedCandidate>>();
    if (problem.extents.empty()) return none;
    const std::string key = range_of(problem, device);
    {
        const std::lock_guard lock(mutex_);
        if (const ServingSet* const known = serving_sets_.find(key)) return *known;
    }
    const std::vector<ResolvedCandidate> offers = offers_for_set(problem, device);
    if (offers.empty()) return none;
    const auto set = std::make_shared<const std::vector<ResolvedCandidate>>(
        choose_serving_set(catalogue_, problem, device, offers, set_extents_of(problem.extents.front().value)));
    const std::lock_guard lock(mutex_);
    serving_sets_.add(key, set);
    return set;
}

// Ranks the portfolio, winners of other extents and the defaults for just this problem.
std::vector<ResolvedCandidate> Dispatcher::best_of_all(const Problem& problem, const Device& device, const Problem* ignored,
                                                       std::size_t count) {
    std::vector<ResolvedCandidate> offers = files_.portfolio(problem, device);
    if (offers.empty()) return {};
    const double regret = offers.front().regret;
    append(offers, files_.near(problem, device, ignored), regret);
    append(offers, ranked_defaults(catalogue_, problem, device).candidates, regret);
    return rank(catalogue_, offers, problem, device, count);
}

bool Dispatcher::is_first_of_range(const Problem& problem, const Device& device) {
    const std::int64_t extent = problem.extents.front().value;
    const std::lock_guard lock(mutex_);
    return first_extents_.add(range_of(problem, device), extent) == extent;
}

void Dispatcher::claim_range(const Problem& problem, const Device& device) {
    const std::lock_guard lock(mutex_);
    first_extents_.add(range_of(problem, device), kNoExtent) = kNoExtent;
}

std::vector<ResolvedCandidate> Dispatcher::untuned_first(const Problem& problem, const Device& device, std::size_t count) {
    if (problem.extents.empty() || !is_first_of_range(problem, device)) return {};
    std::vector<ResolvedCandidate> ranked = best_of_all(problem, device, nullptr, count);
    add_regret(ranked, problem, device);
    return ranked;
}

void Dispatcher::add_regret(std::vector<ResolvedCandidate>& to, const Problem& problem, const Device& device) {
    for (ResolvedCandidate& each : to)
        if (each.regret < 0) each.regret = expected_regret(problem, device).median;
}

std::vector<ResolvedCandidate> Dispatcher::untuned(const Problem& problem, const Device& device, ExactWinner exact,
                                                   std::size_t count) {
    const Problem* const ignored = exact == ExactWinner::ignore ? &problem : nullptr;
    std::vector<ResolvedCandidate> ranked = ignored != nullptr
                                                ? best_of_all(problem, device, ignored, count)
                                                : rank(catalogue_, *serving_set(problem, device), problem, device, count);
    if (ranked.empty()) {
        std::vector<ResolvedCandidate> offers = files_.near(problem, device, ignored);
        for (ResolvedCandidate& each : likely_default(problem, device)) offers.push_back(std::move(each));
        ranked = rank(catalogue_, offers, problem, device, count);
    }
    add_regret(ranked, problem, device);
    return ranked;
}

// The regret of the choice that the library would make without the problem's own winners: that of the first candidate in its
// ranking that has a trial.
std::optional<double> Dispatcher::regret_of(const TriedProblem& at, const Device& device) {
    std::vector<ResolvedCandidate> offers = files_.near(at.problem, device, &at.problem);
    for (ResolvedCandidate& each : files_.portfolio(at.problem, device)) offers.push_back(std::move(each));
    for (ResolvedCandidate& each : likely_default(at.problem, device)) offers.push_back(std::move(each));
    double best_us = std::numeric_limits<double>::infinity();
    for (const auto& [candidate, us] : at.times_us) best_us = std::min(best_us, us);
    const auto instance = [&](const Candidate& candidate) { return instance_key(catalogue_, at.problem, device, candidate); };
    for (const ResolvedCandidate& choice : rank(catalogue_, offers, at.problem, device, offers.size())) {
        double chosen_us = std::numeric_limits<double>::infinity();
        for (const auto& [candidate, us] : at.times_us) {
            if (candidate == choice.candidate) return us / best_us - 1;
            if (instance(candidate) == instance(choice.candidate)) chosen_us = std::min(chosen_us, us);
        }
        if (chosen_us < std::numeric_limits<double>::infinity()) return chosen_us / best_us - 1;
    }
    return std::nullopt;
}

ExpectedRegret Dispatcher::expected_regret(const Problem& problem, const Device& device) {
    const std::string key = problem.class_key() + " on " + device.identity.key();
    {
        const std::lock_guard lock(mutex_);
        if (const ExpectedRegret* const known = regrets_.find(key)) return *known;
    }
    std::optional<ExpectedRegret> expected = files_.portfolio_regret(problem, device);
    if (!expected) {
        std::vector<double> regrets;
        for (const TriedProblem& at : files_.tried_of_class(problem, device))
            if (const auto regret = regret_of(at, device)) regrets.push_back(*regret);
        std::sort(regrets.begin(), regrets.end());
        expected.emplace().problems = static_cast<int>(regrets.size());
        if (regrets.size() >= kLeastForRegret) {
            expected->median = regrets[regrets.size() / 2];
            expected->p90 = regrets[regrets.size() * 9 / 10];
        }
    }
    const std::lock_guard lock(mutex_);
    return regrets_.add(key, *expected);
}

std::vector<WarmupEntry> Dispatcher::serving(const Problem& problem, const Device& device) {
    std::vector<WarmupEntry> all;
    std::set<std::string> instances;
    const std::int64_t most = problem.extents.empty() ? 0 : problem.extents.front().value;
    for (std::int64_t value = 1; value <= most; value = next_value(value)) {
        const Problem at = with_first_extent(problem, value);
        claim_range(at, device);
        std::vector<ResolvedCandidate> found = files_.winners(at, device);
        if (found.empty()) found = untuned(at, device);
        if (found.empty()) found = defaults(at, device);
        if (instances.insert(instance_key(catalogue_, at, device, found.front().candidate)).second)
            all.push_back({std::move(found.front()), at});
    }
    return all;
}

std::vector<ResolvedCandidate> Dispatcher::likely_default(const Problem& problem, const Device& device) {
    const Problem rounded = rounded_up(problem);
    const std::string key = rounded.key() + " on " + device.identity.key();
    std::optional<Candidate> likely;
    {
        const std::lock_guard lock(mutex_);
        if (const Candidate* const known = likely_defaults_.find(key)) likely = *known;
    }
    if (!likely) {
        const RankedDefaults ranked = ranked_defaults(catalogue_, rounded, device);
        if (ranked.candidates.empty()) return {};
        likely = ranked.candidates.front().candidate;
        const std::lock_guard lock(mutex_);
        likely_defaults_.add(key, *likely);
    }
    if (!Legality(catalogue_, problem, device).allows(*likely)) return {};
    return {{std::move(*likely), Origin::family_default, "", 0, 0, -1, Source::family_default, true}};
}

std::vector<ResolvedCandidate> Dispatcher::defaults(const Problem& problem, const Device& device) const {
    RankedDefaults ranked = ranked_defaults(catalogue_, problem, device);
    if (ranked.candidates.empty()) throw Error(ErrorCode::no_valid_config, ranked.refusals.sentence(problem, device));
    return std::move(ranked.candidates);
}

}  // namespace autotune::dispatch
