// What serves a problem that nobody tuned: winners of other extents, portfolios, defaults, and what such a choice loses.
#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <list>
#include <map>
#include <set>
#include <span>

#include "kernel_templates/former_templates.h"
#include "kernel_templates/legality.h"
#include "kernel_templates/offers.h"
#include "kernel_templates/refusals.h"
#include "kernel_templates/stored_winner.h"
#include "src/core/config_domain.h"
#include "src/core/error.h"
#include "src/core/integer_math.h"
#include "src/runtime/status.h"
#include "src/runtime/winners.h"

namespace autotune::runtime {
namespace {

constexpr std::size_t kNearLimit = 8;        // looked at
constexpr std::size_t kNearTried = 2;        // that are legal: whether one is takes as long as everything else
constexpr std::int64_t kNoExtent = -1;       // of a range whose set is to serve all of it
constexpr std::size_t kRegretProblems = 12;  // of a class, left out one after the other: some milliseconds each
constexpr std::size_t kLeastForRegret = 5;   // of which a median says something
constexpr std::size_t kLeastTrials = 8;      // of a problem whose best is believed to be known
// First extents for which the best is chosen: from the narrowest tile on each doubles what an instance has to do, and below it a
// kernel for few rows may be the best.
constexpr std::array<std::int64_t, 12> kPivots = {1, 4, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192};
// Several pivots have one best instance. The others are chosen for extents between, whose waves of tiles ask for another, and
// just above a power of two.
constexpr std::array<std::int64_t, 26> kBetween = {24,  48,  72,  80,   96,   112,  144,  192,  224,  288,  384,  448,  576,
                                                   640, 768, 896, 1152, 1280, 1536, 1792, 2304, 2560, 3072, 3584, 5120, 6144};
constexpr std::size_t kSetInstances = 11;  // a twelfth is that of the first problem of a range

// The next number of four binary digits and zeros: 129 becomes 144.
std::int64_t rounded_up(std::int64_t value) {
    std::int64_t unit = 1;
    while (value / unit >= 16) unit *= 2;
    return round_up(value, unit);
}

// The same problem with its extents rounded up: not to be computed, only to be predicted.
Problem rounded_up(Problem problem) {
    for (Extent& extent : problem.extents) extent.value = rounded_up(extent.value);
    return problem;
}

// The same problem with another first extent: not to be computed, only to be predicted and planned for.
Problem with_first_extent(Problem problem, std::int64_t value) {
    problem.extents.front().value = value;
    return problem;
}

// Every value to 64, then eight steps to each doubling: what is chosen changes with waves of tiles.
std::int64_t next_value(std::int64_t value) {
    return value < 64 ? value + 1 : value + static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(value))) / 8;
}

struct RankedDefaults {
    std::vector<ResolvedCandidate> candidates;  // the one that is predicted fastest first
    Refusals refusals;
};

RankedDefaults ranked_defaults(const Catalogue& catalogue, const Problem& problem, const Device& device) {
    FamilyDefaults defaults = family_defaults(catalogue, problem, device);
    std::vector<std::pair<double, ResolvedCandidate>> ranked;
    for (Candidate& each : defaults.candidates) {
        const auto us = catalogue.find_family(each.family)->predict_us(problem, each.config, device);
        ranked.push_back({us.value_or(std::numeric_limits<double>::infinity()),
                          {std::move(each), AUTOTUNE_ORIGIN_DEFAULT, "", 0, 0, -1, Source::family_default, true}});
    }
    std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    RankedDefaults all{{}, std::move(defaults.refusals)};
    for (auto& [us, each] : ranked) all.candidates.push_back(std::move(each));
    return all;
}

// Larger first extents than all have those of their own doubling, in eighths.
std::vector<std::int64_t> pivots_of(std::int64_t first_extent) {
    if (first_extent <= kPivots.back()) return {kPivots.begin(), kPivots.end()};
    const auto most = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(first_extent)));
    std::vector<std::int64_t> pivots;
    for (std::int64_t eighth = 9; eighth <= 16; ++eighth) pivots.push_back(most / 16 * eighth);
    return pivots;
}

// What problems have in common that differ in the first extent alone, up to the last of its pivots.
std::string range_of(const Problem& problem, const Device& device) {
    std::string key = problem.class_key() + " " + std::to_string(pivots_of(problem.extents.front().value).back());
    for (std::size_t i = 1; i < problem.extents.size(); ++i) key += "x" + std::to_string(problem.extents[i].value);
    return key + " on " + device.identity.key();
}

// A first extent for which a set is to serve nearly as well as the best of all offers.
struct Pivot {
    Pivot(const Catalogue& catalogue, Problem of, const Device& device)
        : problem(std::move(of)), ranking(catalogue, problem, device) {}
    // What the set takes over the best offer; infinity where it has no kernel.
    double loss() const {
        return !is_served ? std::numeric_limits<double>::infinity() : us > best.predicted_us ? us / best.predicted_us : 1.0;
    }
    // REQUIRES: the candidate was checked.
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

}  // namespace

// The nearest winners of other extents that may answer. A database that fails has none. Without a lock held by the caller.
std::vector<ResolvedCandidate> Winners::read_near(const Problem& problem, const Device& device, const Problem* left_out) {
    std::vector<ResolvedCandidate> found;
    LateWarnings warnings(log_);
    {
        const std::lock_guard lock(mutex_);
        try {
            db::WinnerStore* const open = store(warnings);
            if (open == nullptr) return found;
            StoredWinnerRule rule(identities_, problem, device);
            for (const db::Winner& winner : open->near(problem, device.identity, kNearLimit)) {
                if (left_out != nullptr && winner.extents == left_out->extents) continue;
                if (rule.why_unbelievable(winner)) continue;
                found.push_back({winner.candidate, AUTOTUNE_ORIGIN_NEAR, winner.provenance.nvrtc, 0, 0, -1, Source::near});
                if (found.size() == kNearTried) break;
            }
            std::size_t of_others = 0;
            for (const db::Winner& winner : open->near_of_other_cards(problem, device.identity, kNearLimit)) {
                if (rule.why_unbelievable(winner)) continue;
                found.push_back({winner.candidate, AUTOTUNE_ORIGIN_NEAR, winner.provenance.nvrtc, 0, 0, -1, Source::other_card});
                if (++of_others == kNearTried) break;
            }
        } catch (const Error& error) {
            if (error.code() != ErrorCode::database) throw;
            warnings.add("read", std::string(error.what()) + "; treated as if nothing were stored");
        }
    }
    warnings.say();
    return found;
}

const std::vector<db::Portfolio>& Winners::read_portfolios(LateWarnings& warnings) {
    if (!read_portfolios_) {
        const auto warn = [&](const std::string& text) { warnings.add(text, text); };
        read_portfolios_ = settings_.shipped.empty()
                               ? std::vector<db::Portfolio>{}
                               : db::read_portfolios(db::portfolio_path(settings_.shipped), warn, former_templates(catalogue_));
    }
    return *read_portfolios_;
}

const db::Portfolio* Winners::portfolio(const Problem& problem, const Device& device, LateWarnings& warnings) {
    if (!portfolios_) {
        std::vector<db::Portfolio> usable = read_portfolios(warnings);
        for (db::Portfolio& each : usable) {
            const std::size_t removed = std::erase_if(each.candidates, [&](const Candidate& candidate) {
                return why_of_another_template(identities_, candidate.family, each.templates[candidate.family]).has_value();
            });
            if (removed > 0) each.regret_median = each.regret_p90 = -1;  // that of the whole
        }
        std::erase_if(usable, [](const db::Portfolio& each) { return each.candidates.empty(); });
        portfolios_ = std::move(usable);
    }
    return db::portfolio_for(*portfolios_, problem.class_key(), device.arch());
}

std::vector<ResolvedCandidate> Winners::rank(const std::vector<ResolvedCandidate>& offers, const Problem& problem,
                                             const Device& device, std::size_t count) const {
    std::vector<const Candidate*> candidates;
    OfferRanking::Checked checked;
    for (const ResolvedCandidate& each : offers) {
        candidates.push_back(&each.candidate);
        checked.push_back(each.is_checked ? 1 : 0);
    }
    std::vector<ResolvedCandidate> ranked;
    OfferRanking ranking(catalogue_, problem, device);
    ranking.check(candidates, checked);
    for (OfferRanking::Ranked& each : ranking.best_of_checked(candidates, checked, count)) {
        ResolvedCandidate found = offers[each.offer];
        found.is_checked = true;
        found.candidate = std::move(each.candidate);
        ranked.push_back(std::move(found));
    }
    return ranked;
}

// The portfolio that serves the problem. One of another class says nothing of this one's regret.
std::vector<ResolvedCandidate> Winners::portfolio_offers(const Problem& problem, const Device& device) {
    std::vector<ResolvedCandidate> offers;
    LateWarnings warnings(log_);
    {
        const std::lock_guard lock(mutex_);
        if (const db::Portfolio* const known = portfolio(problem, device, warnings)) {
            const double regret = known->class_key == problem.class_key() ? known->regret_median : -1;
            for (const Candidate& each : known->candidates)
                offers.push_back({each, AUTOTUNE_ORIGIN_DEFAULT, "", 0, 0, regret, Source::portfolio});
        }
    }
    warnings.say();
    return offers;
}

std::vector<Winners::PassedOver> Winners::portfolio_kernels_passed_over(const Problem& problem, const Device& device) {
    std::map<std::string, int> counts;
    LateWarnings warnings(log_);
    {
        const std::lock_guard lock(mutex_);
        for (const db::Portfolio& each : read_portfolios(warnings)) {
            if (each.op != problem.op || each.arch != device.arch()) continue;
            for (const Candidate& candidate : each.candidates) {
                const auto made_with = each.templates.find(candidate.family);
                auto why = why_of_another_template(identities_, candidate.family,
                                                   made_with == each.templates.end() ? "" : made_with->second);
                const Family* family = why ? nullptr : catalogue_.find_family(candidate.family);
                if (family != nullptr && !family->refuses(problem, device))
                    why = why_outside_domain(family->rules(problem, device).parameters, candidate.config);
                if (why) ++counts[*why];
            }
        }
    }
    warnings.say();
    std::vector<PassedOver> all;
    for (const auto& [why, count] : counts) all.push_back({why, count});
    return all;
}

// One instance after the other: the best of that pivot at which the set so far loses most. An instance stands there again where
// its launch parameters for one pivot cannot be chosen anew for another: not every family does that.
std::vector<ResolvedCandidate> Winners::make_serving_set(const Problem& problem, const Device& device,
                                                         std::vector<ResolvedCandidate> offers,
                                                         const std::vector<std::int64_t>& pivots) const {
    std::vector<const Candidate*> candidates;
    for (const ResolvedCandidate& each : offers) candidates.push_back(&each.candidate);
    OfferRanking::Checked checked;
    std::list<Pivot> all;
    for (const std::int64_t pivot : pivots) {
        Pivot& at = all.emplace_back(catalogue_, with_first_extent(problem, pivot), device);
        at.ranking.check(candidates, checked);
        const std::vector<OfferRanking::Ranked> ranked = at.ranking.best_of_checked(candidates, checked, 1);
        if (ranked.empty())
            all.pop_back();
        else
            at.best = ranked.front();
    }
    std::vector<ResolvedCandidate> set;
    std::set<std::string> instances;
    while (!all.empty()) {
        const auto worst =
            std::max_element(all.begin(), all.end(), [](const Pivot& a, const Pivot& b) { return a.loss() < b.loss(); });
        if (worst->loss() <= 1.0) break;
        const OfferRanking::Ranked best = worst->best;
        const std::string instance = instance_key(catalogue_, worst->problem, device, best.candidate);
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

Winners::ServingSet Winners::serving_set(const Problem& problem, const Device& device) {
    const auto none = std::make_shared<const std::vector<ResolvedCandidate>>();
    if (problem.extents.empty()) return none;
    const std::vector<std::int64_t> pivots = pivots_of(problem.extents.front().value);
    const std::string key = range_of(problem, device);
    {
        const std::lock_guard lock(mutex_);
        if (const ServingSet* const known = serving_sets_.find(key)) return *known;
    }
    std::vector<ResolvedCandidate> offers = portfolio_offers(problem, device);
    if (offers.empty()) return none;
    // A portfolio rests on the problems that were tuned: what is unlike them, the families' own defaults may do better.
    const double regret = offers.front().regret;
    std::vector<std::int64_t> chosen_for = pivots;
    if (pivots.back() == kPivots.back()) chosen_for.insert(chosen_for.end(), kBetween.begin(), kBetween.end());
    for (const std::int64_t extent : chosen_for) {
        for (ResolvedCandidate& each : ranked_defaults(catalogue_, with_first_extent(problem, extent), device).candidates) {
            each.regret = regret;
            offers.push_back(std::move(each));
        }
    }
    std::set<std::string> known;
    for (const std::int64_t pivot : pivots) {
        for (ResolvedCandidate& near : read_near(with_first_extent(problem, pivot), device)) {
            near.regret = regret;
            if (known.insert(near.candidate.to_string()).second) offers.push_back(std::move(near));
        }
    }
    const auto set =
        std::make_shared<const std::vector<ResolvedCandidate>>(make_serving_set(problem, device, std::move(offers), chosen_for));
    const std::lock_guard lock(mutex_);
    serving_sets_.add(key, set);
    return set;
}

// Of all that is known, and of what is the best for just this problem.
std::vector<ResolvedCandidate> Winners::best_of_all(const Problem& problem, const Device& device, const Problem* left_out,
                                                    std::size_t count) {
    std::vector<ResolvedCandidate> offers = portfolio_offers(problem, device);
    if (offers.empty()) return {};
    const double regret = offers.front().regret;
    for (std::vector<ResolvedCandidate> more :
         {read_near(problem, device, left_out), ranked_defaults(catalogue_, problem, device).candidates}) {
        for (ResolvedCandidate& each : more) {
            each.regret = regret;
            offers.push_back(std::move(each));
        }
    }
    return rank(offers, problem, device, count);
}

std::int64_t& Winners::first_extent_of_range(const Problem& problem, const Device& device, std::int64_t asked) {
    return first_extents_.add(range_of(problem, device), asked);
}

std::vector<ResolvedCandidate> Winners::untuned_first(const Problem& problem, const Device& device, std::size_t count) {
    if (problem.extents.empty()) return {};
    const std::int64_t extent = problem.extents.front().value;
    {
        const std::lock_guard lock(mutex_);
        if (first_extent_of_range(problem, device, extent) != extent) return {};
    }
    std::vector<ResolvedCandidate> ranked = best_of_all(problem, device, nullptr, count);
    add_regret(ranked, problem, device);
    return ranked;
}

void Winners::add_regret(std::vector<ResolvedCandidate>& to, const Problem& problem, const Device& device) {
    for (ResolvedCandidate& each : to)
        if (each.regret < 0) each.regret = expected_regret(problem, device).median;
}

std::vector<ResolvedCandidate> Winners::untuned(const Problem& problem, const Device& device, ExactWinner exact,
                                                std::size_t count) {
    const Problem* const left_out = exact == ExactWinner::ignore ? &problem : nullptr;
    std::vector<ResolvedCandidate> ranked = left_out != nullptr ? best_of_all(problem, device, left_out, count)
                                                                : rank(*serving_set(problem, device), problem, device, count);
    if (ranked.empty()) {
        std::vector<ResolvedCandidate> offers = read_near(problem, device, left_out);
        for (ResolvedCandidate& each : likely_default(problem, device)) offers.push_back(std::move(each));
        ranked = rank(offers, problem, device, count);
    }
    add_regret(ranked, problem, device);
    return ranked;
}

std::vector<Winners::Tried> Winners::tried_of_class(const Problem& problem, const Device& device) {
    std::vector<Tried> all;
    LateWarnings warnings(log_);
    {
        const std::lock_guard lock(mutex_);
        try {
            db::WinnerStore* const open = store(warnings);
            if (open == nullptr) return all;
            for (const db::Winner& winner : open->near(problem, device.identity, kRegretProblems)) {
                const auto at = problem_of(catalogue_, winner);
                if (!at) continue;
                Tried tried{*at, {}};
                for (const StoredTrial& row : open->trials(*at, device.identity)) {
                    const Family* family = catalogue_.find_family(row.trial.candidate.family);
                    const bool is_todays = family != nullptr && identities_.of(*family) == row.template_identity;
                    if (is_todays && row.trial.status == TrialStatus::ok && row.trial.timing)
                        tried.times_us.emplace_back(row.trial.candidate, row.trial.timing->median_us);
                }
                if (tried.times_us.size() >= kLeastTrials) all.push_back(std::move(tried));
            }
        } catch (const Error& error) {
            if (error.code() != ErrorCode::database) throw;
            warnings.add("read", std::string(error.what()) + "; treated as if nothing were stored");
        }
    }
    warnings.say();
    return all;
}

// Of the choice that would have been made for a problem without its own winners: the first of the ranking that was tried counts.
std::optional<double> Winners::regret_of(const Tried& at, const Device& device) {
    std::vector<ResolvedCandidate> offers = read_near(at.problem, device, &at.problem);
    for (ResolvedCandidate& each : portfolio_offers(at.problem, device)) offers.push_back(std::move(each));
    for (ResolvedCandidate& each : likely_default(at.problem, device)) offers.push_back(std::move(each));
    double best_us = std::numeric_limits<double>::infinity();
    for (const auto& [candidate, us] : at.times_us) best_us = std::min(best_us, us);
    const auto instance = [&](const Candidate& candidate) { return instance_key(catalogue_, at.problem, device, candidate); };
    for (const ResolvedCandidate& choice : rank(offers, at.problem, device, offers.size())) {
        double chosen_us = std::numeric_limits<double>::infinity();
        for (const auto& [candidate, us] : at.times_us) {
            if (candidate == choice.candidate) return us / best_us - 1;
            if (instance(candidate) == instance(choice.candidate)) chosen_us = std::min(chosen_us, us);
        }
        if (chosen_us < std::numeric_limits<double>::infinity()) return chosen_us / best_us - 1;
    }
    return std::nullopt;
}

ExpectedRegret Winners::expected_regret(const Problem& problem, const Device& device) {
    const std::string key = problem.class_key() + " on " + device.identity.key();
    LateWarnings warnings(log_);
    {
        const std::lock_guard lock(mutex_);
        if (const ExpectedRegret* const known = regrets_.find(key)) return *known;
        const db::Portfolio* const own = portfolio(problem, device, warnings);
        if (own != nullptr && own->class_key == problem.class_key() && own->regret_median >= 0)
            return regrets_.add(key, {own->regret_median, own->regret_p90, own->problems});
    }
    warnings.say();
    std::vector<double> regrets;
    for (const Tried& at : tried_of_class(problem, device))
        if (const auto regret = regret_of(at, device)) regrets.push_back(*regret);
    ExpectedRegret expected;
    std::sort(regrets.begin(), regrets.end());
    expected.problems = static_cast<int>(regrets.size());
    if (regrets.size() >= kLeastForRegret) {
        expected.median = regrets[regrets.size() / 2];
        expected.p90 = regrets[regrets.size() * 9 / 10];
    }
    const std::lock_guard lock(mutex_);
    return regrets_.add(key, expected);
}

std::vector<WarmupEntry> Winners::serving(const Problem& problem, const Device& device) {
    std::vector<WarmupEntry> all;
    std::set<std::string> instances;
    const std::int64_t most = problem.extents.empty() ? 0 : problem.extents.front().value;
    const auto add = [&](std::vector<ResolvedCandidate> found, const Problem& at) {
        if (found.empty()) found = defaults(at, device);
        if (instances.insert(instance_key(catalogue_, at, device, found.front().candidate)).second)
            all.push_back({std::move(found.front()), at});
    };
    for (std::int64_t value = 1; value <= most; value = next_value(value)) {
        const Problem at = with_first_extent(problem, value);
        {
            const std::lock_guard lock(mutex_);
            first_extent_of_range(at, device, kNoExtent) = kNoExtent;
        }
        std::vector<ResolvedCandidate> found = stored(at, device);
        add(found.empty() ? untuned(at, device) : std::move(found), at);
    }
    return all;
}

std::vector<ResolvedCandidate> Winners::likely_default(const Problem& problem, const Device& device) {
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
    return {{std::move(*likely), AUTOTUNE_ORIGIN_DEFAULT, "", 0, 0, -1, Source::family_default, true}};
}

void check_supported(const Catalogue& catalogue, const Problem& problem, const Device& device) {
    if (catalogue.op_of(problem).empty_sums(problem)) return;
    Refusals refusals;
    for (const Family* family : catalogue.families_of(problem.op)) {
        const auto reason = why_unable(*family, problem, device);
        if (!reason) return;
        refusals.add(family->name(), *reason);
    }
    throw Failure(AUTOTUNE_NO_KERNEL, refusals.sentence(problem, device));
}

std::vector<ResolvedCandidate> Winners::defaults(const Problem& problem, const Device& device) const {
    RankedDefaults ranked = ranked_defaults(catalogue_, problem, device);
    if (ranked.candidates.empty()) throw Failure(AUTOTUNE_NO_KERNEL, ranked.refusals.sentence(problem, device));
    return std::move(ranked.candidates);
}

}  // namespace autotune::runtime
