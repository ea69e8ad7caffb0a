#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tuner/session/engine/gpu_worker_session.h"
#include "tuner/session/tune.h"

namespace autotune::tuner {

// A row of a side-by-side table in the making.
struct BenchEntry {
    std::string name;
    std::optional<Candidate> candidate{};  // none: a rival
    bool must_race = true;                 // always raced: the winner, candidates that the user named, rivals
    std::optional<double> predicted_us{};
    Instance instance{};
    RunOutcome outcome{};  // outcome of compiling, verifying and the survey
    std::optional<Timing> surveyed{};
    bool can_run() const { return outcome.ok() && (!candidate || instance != nullptr); }
};

// Whether to measure a named config: with best_of_family, earlier problems have shown which are worth it.
using NamedFilter = std::function<bool(const Candidate&)>;

// The rows of a table, in its order (BenchRun::table). Throws like Candidates.
std::vector<BenchEntry> bench_entries(const Problem& problem, const BenchOptions& options, const TuneServices& services,
                                      const NamedFilter& wanted);

// The row that ratios refer to, among those that `raced`: the first candidate that must race, else the first. nullopt: none
// raced.
std::optional<std::size_t> baseline_of(const std::vector<BenchEntry>& entries, const std::vector<std::size_t>& raced);

// Indices of the rows to survey, fastest predicted first: if time runs out, the least promising are left out.
std::vector<std::size_t> survey_order(const std::vector<BenchEntry>& entries);

// Indices of the rows for the rounds, in order: all that must race, and the fastest surveyed ones that are within reach of the
// best, at most `racers`.
std::vector<std::size_t> racers_of(const std::vector<BenchEntry>& entries, std::size_t racers);

// Each family's fastest `count` different named configs in the survey, fastest first.
std::vector<std::size_t> best_of_families(const std::vector<BenchEntry>& entries, std::size_t count);

}  // namespace autotune::tuner
