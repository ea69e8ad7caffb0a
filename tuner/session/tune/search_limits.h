#pragma once

#include <optional>
#include <string>

#include "tuner/session/tune.h"

namespace autotune::tuner {

// What a search has come to.
struct SearchState {
    int tried = 0;
    int since_better = 0;           // trials
    std::optional<double> best_us;  // of what was verified
    double elapsed_s = 0;           // since the budget began to run
    // The expected gain of going on, as a share of the best time; nullopt: not known, or seeds are still to be tried.
    std::optional<double> expected_gain{};
};

constexpr double kMostFinals_s = 8;  // what the second rung and the final rounds need at most

// Why a search ends here, in words for its evidence; nullopt: it goes on. A quarter of the seconds, at most kMostFinals_s, is
// kept for the final rounds; a search that has tried next to nothing takes that too, and as much again.
std::optional<std::string> why_search_ends(const Budget& budget, const SearchState& state);
// What blocks of those near the winner may take beside the budget, where the final rounds ran at the power limit. The least is
// for two of them.
double sustained_seconds(const Budget& budget);
// How long the decision may take: no longer than the search did, so that a budget of a few trials stays a short tune.
double finals_seconds(const Budget& budget, double search_s, double elapsed_s);

}  // namespace autotune::tuner
