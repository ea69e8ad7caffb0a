#include "tuner/session/bench/bench_entries.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "src/core/error.h"
#include "tuner/session/tune/candidates.h"
#include "tuner/session/tune/recall.h"

namespace autotune::tuner {
namespace {

// Kernels that take longer than this times the best are left out of the rounds. No interval is needed to see that they are
// slower. And a slow kernel would let the card rest, so that the next kernels start at clocks that they cannot hold.
constexpr double kWithinReach = 1.25;

std::string family_of(const Candidates::Part& part) {
    return std::string(part.family->name());
}

// Families, simplest technique first.
std::vector<const Candidates::Part*> ladder_of(const Candidates& chosen) {
    std::vector<const Candidates::Part*> ladder;
    for (const Candidates::Part& part : chosen.parts()) ladder.push_back(&part);
    std::stable_sort(ladder.begin(), ladder.end(), [](const auto* left, const auto* right) {
        return std::tuple(left->family->complexity_order(), left->family->name()) <
               std::tuple(right->family->complexity_order(), right->family->name());
    });
    return ladder;
}

void add_named(std::vector<BenchEntry>& entries, const Candidates& chosen, const NamedFilter& wanted) {
    for (const Candidates::Part* part : ladder_of(chosen)) {
        for (const NamedConfig& named : part->space.named) {
            const Candidate candidate{family_of(*part), part->space.canonical(named.config)};
            if (!part->space.contains(candidate.config) || !wanted(candidate)) continue;
            entries.push_back({.name = named.name, .candidate = candidate, .must_race = false});
        }
    }
}

void add_choice(std::vector<BenchEntry>& entries, const Candidates& chosen, const Choice& choice) {
    if (!choice.named.empty()) {
        for (std::size_t point = 0; point < chosen.size(); ++point)
            entries.push_back({.name = choice.named, .candidate = chosen.at(point)});
    } else if (!choice.pins.empty() && chosen.size() == 1) {
        entries.push_back({.name = "pinned", .candidate = chosen.at(0)});
    }
}

void add_candidates(std::vector<BenchEntry>& entries, const Candidates& chosen, const std::vector<Candidate>& candidates) {
    for (std::size_t i = 0; i < candidates.size(); ++i) {
        const Candidates::Part* part = chosen.part(candidates[i].family);
        if (part == nullptr)
            throw Error(ErrorCode::usage,
                        "candidate " + std::to_string(i + 1) + ": " + candidates[i].family + " is not among the families");
        Config config = part->space.default_config;
        for (const auto& [name, value] : candidates[i].config.values()) config.set(name, value);
        config = part->space.canonical(config);
        if (const auto reason = part->space.why_not(config))
            throw Error(ErrorCode::usage, "candidate " + std::to_string(i + 1) + " is not legal: " + *reason);
        entries.push_back({.name = "candidate " + std::to_string(i + 1), .candidate = Candidate{candidates[i].family, config}});
    }
}

void add_defaults(std::vector<BenchEntry>& entries, const Candidates& chosen) {
    const bool many = chosen.parts().size() > 1;
    for (const Candidates::Part& part : chosen.parts()) {
        const std::string suffix = many ? " " + family_of(part) : "";
        entries.push_back({.name = "default" + suffix,
                           .candidate = Candidate{family_of(part), part.space.canonical(part.space.default_config)},
                           .must_race = !many});
    }
}

// Returns whether there is a winner.
bool add_winner(std::vector<BenchEntry>& entries, const Candidates& chosen, const Choice& choice, const Problem& problem,
                const TuneServices& services) {
    const auto winner = valid_winner(problem, services, choice);
    const Candidates::Part* part = winner ? chosen.part(winner->candidate.family) : nullptr;
    if (part == nullptr) return false;
    const Candidate candidate{winner->candidate.family, part->space.canonical(winner->candidate.config)};
    entries.push_back({.name = "winner", .candidate = candidate});
    return true;
}

void add_untuned(std::vector<BenchEntry>& entries, const Candidates& chosen, const Candidate& untuned) {
    const Candidates::Part* part = chosen.part(untuned.family);
    if (part == nullptr) return;
    entries.push_back({.name = "untuned", .candidate = Candidate{untuned.family, part->space.canonical(untuned.config)}});
}

}  // namespace

std::vector<BenchEntry> bench_entries(const Problem& problem, const BenchOptions& options, const TuneServices& services,
                                      const NamedFilter& wanted) {
    const Candidates chosen(services.catalogue, problem, services.device, options.choice);
    const bool named = options.named || options.best_of_family;
    std::vector<BenchEntry> entries;
    add_choice(entries, chosen, options.choice);
    if (named) add_named(entries, chosen, wanted);
    const bool has_winner = add_winner(entries, chosen, options.choice, problem, services);
    add_candidates(entries, chosen, options.candidates);
    if (options.untuned) add_untuned(entries, chosen, *options.untuned);
    if (!named && !options.untuned && !(options.winner_only && has_winner)) add_defaults(entries, chosen);
    if (entries.empty() && options.against.empty())
        throw Error(ErrorCode::no_valid_config,
                    "no named config fits " + problem.key() + "; without --named the defaults are timed");
    for (BenchEntry& entry : entries) {
        const Family* family = services.catalogue.find_family(entry.candidate->family);
        entry.predicted_us = family->predict_us(problem, entry.candidate->config, services.device);
    }
    for (const std::string& rival : options.against) entries.push_back({.name = rival});
    return entries;
}

std::optional<std::size_t> baseline_of(const std::vector<BenchEntry>& entries, const std::vector<std::size_t>& raced) {
    if (raced.empty()) return std::nullopt;
    const auto found =
        std::find_if(raced.begin(), raced.end(), [&](std::size_t i) { return entries[i].candidate && entries[i].must_race; });
    return found == raced.end() ? raced.front() : *found;
}

std::vector<std::size_t> survey_order(const std::vector<BenchEntry>& entries) {
    std::vector<std::size_t> order;
    for (std::size_t i = 0; i < entries.size(); ++i) {
        if (entries[i].candidate && !entries[i].must_race) order.push_back(i);
    }
    const auto predicted = [&](std::size_t i) { return entries[i].predicted_us.value_or(std::numeric_limits<double>::max()); };
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return predicted(a) < predicted(b); });
    return order;
}

std::vector<std::size_t> racers_of(const std::vector<BenchEntry>& entries, std::size_t racers) {
    std::vector<std::size_t> surveyed, going;
    for (std::size_t i = 0; i < entries.size(); ++i) {
        if (entries[i].surveyed && entries[i].can_run()) surveyed.push_back(i);
        if (entries[i].must_race && entries[i].can_run()) going.push_back(i);
    }
    const auto time_us = [&](std::size_t i) { return entries[i].surveyed->median_us; };
    std::stable_sort(surveyed.begin(), surveyed.end(), [&](std::size_t a, std::size_t b) { return time_us(a) < time_us(b); });
    for (std::size_t place = 0; place < std::min(racers, surveyed.size()); ++place) {
        if (time_us(surveyed[place]) <= kWithinReach * time_us(surveyed.front())) going.push_back(surveyed[place]);
    }
    std::sort(going.begin(), going.end());
    return going;
}

std::vector<std::size_t> best_of_families(const std::vector<BenchEntry>& entries, std::size_t count) {
    std::map<std::string, std::vector<std::size_t>> families;
    for (std::size_t i = 0; i < entries.size(); ++i) {
        if (entries[i].surveyed && entries[i].can_run()) families[entries[i].candidate->family].push_back(i);
    }
    std::vector<std::size_t> best;
    for (auto& [family, members] : families) {
        std::stable_sort(members.begin(), members.end(), [&](std::size_t a, std::size_t b) {
            return entries[a].surveyed->median_us < entries[b].surveyed->median_us;
        });
        // A config with two names is raced once.
        std::set<Candidate> seen;
        for (const std::size_t member : members) {
            if (seen.size() < count && seen.insert(*entries[member].candidate).second) best.push_back(member);
        }
    }
    return best;
}

}  // namespace autotune::tuner
