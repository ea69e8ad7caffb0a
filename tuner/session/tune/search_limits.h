#pragma once

#include <optional>
#include <string>

#include "tuner/session/tune.h"

namespace autotune::tuner {

// The progress of a search.
struct SearchState {
    int tried = 0;
    int since_better = 0;           // trials
    std::optional<double> best_us;  // the best time of the verified candidates
    double elapsed_s = 0;           // since the budget started
    double search_s = 0;            // since the GPU was ready to try candidates
    // The gain expected from continuing, as a share of the best time; nullopt: unknown, or seeds are still to be tried.
    std::optional<double> expected_gain{};
    bool draws_power = false;  // whether kernels load the card so much that blocks will probably decide
    int learned_problems = 0;  // the number of earlier problems that corrected the predictions of the best candidate's family
};

constexpr double kMostFinals_s = 8;  // the second rung and the final rounds need at most this long

// Why a search ends here, in words for its evidence; nullopt: it goes on. A quarter of the seconds, at most kMostFinals_s, is
// kept for the final rounds. If the budget is a few seconds, this part is as large as rounds and blocks need, up to half; for
// five seconds or less it is half. A search that has tried almost nothing may use this part too, and the same time again.
std::optional<std::string> why_search_ends(const Budget& budget, const SearchState& state);
// Seconds for blocks of the candidates near the winner if the final rounds ran at the power limit: enough for three of them with
// a budget of a few seconds, and for two of them at least.
double sustained_seconds(const Budget& budget);
// How long the decision may take: no longer than the search, so that a budget of a few trials stays a short tune.
double finals_seconds(const Budget& budget, double search_s, double elapsed_s);

}  // namespace autotune::tuner
