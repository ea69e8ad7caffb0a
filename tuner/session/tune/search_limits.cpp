#include "tuner/session/tune/search_limits.h"

#include <algorithm>

#include "tuner/session/race/final_race.h"

namespace autotune::tuner {
namespace {

constexpr double kFinalsShare = 0.25;  // share of the budget that is kept for the final rounds
// A search may take this many times its budget while no candidate is verified or fewer than kFewTried were tried.
constexpr double kOverrun = 2;
constexpr int kFewTried = 8;  // from a cold start, the first candidates are compiled only after two seconds
constexpr double kLeastFinals_s = 0.5;
// The second rung, load, rounds and the last proof took 1.0 to 1.4 s of the tunes of twenty problems on an H200.
constexpr double kUsualFinals_s = 1.2;

constexpr double blocks_of(int judged) {
    return blocks_to_judge(judged) * kLeastJudgingBlock_s;
}
constexpr double kSustainedShare = 0.08, kMostSustained_s = 6;
constexpr double kShortShare = 0.3, kShortSustained_s = blocks_of(3), kLeastSustained_s = blocks_of(2);

// If the budget is at most this many seconds, half of it is kept for comparing candidates closely. When forty candidates were
// each measured once and briefly, the winner depended on luck (54.9, 56.8 and 55.1 us of three searches for one product on two
// identical cards). But ten are too few: of 30 products that were swept twice with 3 s each, and ended after ten trials, 5 % were
// 3.5 % slower and one 15.6 % (H200).
constexpr double kShort_s = 5;

bool is_short(const Budget& budget) {
    return budget.seconds <= kShort_s;
}

// If at least kEnoughLearned problems have corrected the order of candidates, a search of kLearnedSearch_s and kLeastOfLearned
// trials is enough. It tries about thirty compiled candidates, and those after the first dozen are near the best of them.
constexpr int kEnoughLearned = 2, kLeastOfLearned = 14;
constexpr double kLearnedSearch_s = 0.6;

bool is_learned(const Budget& budget, const SearchState& state) {
    return budget.trusts_learning && state.learned_problems >= kEnoughLearned && state.tried >= kLeastOfLearned &&
           state.search_s >= kLearnedSearch_s;
}

double kept_for_finals_s(const Budget& budget, const SearchState& state) {
    if (is_short(budget)) return budget.seconds / 2;
    const double needed_s = kUsualFinals_s + (state.draws_power ? sustained_seconds(budget) : 0);
    return std::min(std::max(kFinalsShare * budget.seconds, std::min(needed_s, budget.seconds / 2)), kMostFinals_s);
}

}  // namespace

std::optional<std::string> why_search_ends(const Budget& budget, const SearchState& state) {
    if (budget.trials > 0 && state.tried >= budget.trials) return "budget";
    const bool few_yet = !state.best_us || state.tried < kFewTried;
    const double search_s = budget.seconds - kept_for_finals_s(budget, state);
    const bool one_was_tried = state.tried > 0;  // even on a slow machine a tune tries one candidate before it ends
    if (one_was_tried && state.elapsed_s > (few_yet ? kOverrun * budget.seconds : search_s)) return "budget";
    if (state.best_us && is_learned(budget, state)) return "learned from " + std::to_string(state.learned_problems) + " problems";
    if (state.since_better >= budget.patience) return "no better one in " + std::to_string(budget.patience) + " trials";
    if (state.best_us && *state.best_us <= budget.target_us) return "target reached";
    if (state.best_us && state.expected_gain && *state.expected_gain < budget.target_gain) return "expected gain";
    return std::nullopt;
}

double sustained_seconds(const Budget& budget) {
    const double share_s = std::max(kSustainedShare * budget.seconds, std::min(kShortShare * budget.seconds, kShortSustained_s));
    return std::clamp(share_s, kLeastSustained_s, kMostSustained_s);
}

double finals_seconds(const Budget& budget, double search_s, double elapsed_s) {
    const double share_s = is_short(budget) ? budget.seconds : std::clamp(search_s, kLeastFinals_s, kMostFinals_s);
    return std::max(kLeastFinals_s, std::min(share_s, budget.seconds - elapsed_s));
}

}  // namespace autotune::tuner
