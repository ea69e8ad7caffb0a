#include "tuner/session/tune/search_limits.h"

#include <algorithm>

namespace autotune::tuner {
namespace {

constexpr double kFinalsShare = 0.25;  // share of the budget that is kept for the final rounds ...
constexpr double kOverrun = 2;         // ... but a search may take this many budgets while nothing is verified or almost nothing
                                       // was tried:
constexpr int kFewTried = 8;           // from a cold start, the first candidates are compiled only after two seconds
constexpr double kLeastFinals_s = 0.5;
constexpr double kSustainedShare = 0.08, kMostSustained_s = 6;
constexpr double kLeastSustained_s = (2 * kJudgingTurns + kSettlingBlocks) * kLeastBlock_s;

// A budget this short, in seconds, is used to compare the first few candidates well. Forty candidates tried once in a hurry left
// a winner by chance (54.9, 56.8 and 55.1 us in three searches for one product on two identical cards).
constexpr double kShort_s = 5;
constexpr int kFirstFew = 10;

bool is_short(const Budget& budget) {
    return budget.seconds <= kShort_s;
}

}  // namespace

std::optional<std::string> why_search_ends(const Budget& budget, const SearchState& state) {
    if (budget.trials > 0 && state.tried >= budget.trials) return "budget";
    const bool few_yet = !state.best_us || state.tried < kFewTried;
    const double search_s = budget.seconds - std::min(kFinalsShare * budget.seconds, kMostFinals_s);
    const bool one_was_tried = state.tried > 0;  // even on a slow machine a tune does not end before anything was tried
    if (one_was_tried && state.elapsed_s > (few_yet ? kOverrun * budget.seconds : search_s)) return "budget";
    if (is_short(budget) && state.best_us && state.tried >= kFirstFew) return "short budget";
    if (state.since_better >= budget.patience) return "no better one in " + std::to_string(budget.patience) + " trials";
    if (state.best_us && *state.best_us <= budget.target_us) return "target reached";
    if (state.best_us && state.expected_gain && *state.expected_gain < budget.target_gain) return "expected gain";
    return std::nullopt;
}

double sustained_seconds(const Budget& budget) {
    return std::clamp(kSustainedShare * budget.seconds, kLeastSustained_s, kMostSustained_s);
}

double finals_seconds(const Budget& budget, double search_s, double elapsed_s) {
    const double share_s = is_short(budget) ? budget.seconds : std::clamp(search_s, kLeastFinals_s, kMostFinals_s);
    return std::max(kLeastFinals_s, std::min(share_s, budget.seconds - elapsed_s));
}

}  // namespace autotune::tuner
