#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tuner/session/engine/gpu_worker_session.h"
#include "tuner/session/tune.h"

namespace autotune::tuner {

// A row of a side by side table while it comes about.
struct BenchEntry {
    std::string name;
    std::optional<Candidate> candidate{};  // none: a rival
    bool must_race = true;                 // the winner, what the user asked for by name, rivals: never left to the survey
    std::optional<double> predicted_us{};
    Instance instance{};
    RunOutcome outcome{};  // of compiling, verifying and the survey
    std::optional<Timing> surveyed{};
    bool can_run() const { return outcome.ok() && (!candidate || instance != nullptr); }
};

// Whether a named config is to be measured: of best_of_family, when earlier problems have told which are worth it.
using NamedFilter = std::function<bool(const Candidate&)>;

// What a table shows, in its order (BenchRun::table). Throws as Candidates does.
std::vector<BenchEntry> bench_entries(const Problem& problem, const BenchOptions& options, const TuneServices& services,
                                      const NamedFilter& wanted);

// The row that ratios are to, of those that `raced`: the first candidate that must race, else the first. nullopt: none raced.
std::optional<std::size_t> baseline_of(const std::vector<BenchEntry>& entries, const std::vector<std::size_t>& raced);

// Indices of those to be surveyed, the fastest predicted first: if time runs out, what is left is what matters least.
std::vector<std::size_t> survey_order(const std::vector<BenchEntry>& entries);

// Indices of those that go on to the rounds, in order: all that must, and of the surveyed the fastest that are within reach of
// the best one, at most `racers`.
std::vector<std::size_t> racers_of(const std::vector<BenchEntry>& entries, std::size_t racers);

// Of each family's surveyed named configs the fastest `count` different ones, fastest first.
std::vector<std::size_t> best_of_families(const std::vector<BenchEntry>& entries, std::size_t count);

}  // namespace autotune::tuner
