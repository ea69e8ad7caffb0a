#pragma once

#include <optional>
#include <string>

#include "tuner/session/tune.h"

namespace autotune::tuner {

// The progress of a search.
struct SearchState {
    int tried = 0;
    int since_better = 0;           // trials
    std::optional<double> best_us;  // best time of the verified candidates
    double elapsed_s = 0;           // since the budget started
    // The gain expected from continuing, as a share of the best time; nullopt: unknown, or seeds are still to be tried.
    std::optional<double> expected_gain{};
};

constexpr double kMostFinals_s = 8;  // longest time that the second rung and the final rounds need

// Why a search ends here, as text for its evidence; nullopt: it continues. A quarter of the seconds, at most kMostFinals_s, is
// kept for the final rounds; a search that has tried almost nothing may use that too, and as much again.
std::optional<std::string> why_search_ends(const Budget& budget, const SearchState& state);
// Seconds, in addition to the budget, for blocks of the candidates near the winner if the final rounds ran at the power limit.
// The minimum is for two of them.
double sustained_seconds(const Budget& budget);
// How long the decision may take: no longer than the search, so that a budget of a few trials stays a short tune.
double finals_seconds(const Budget& budget, double search_s, double elapsed_s);

}  // namespace autotune::tuner
