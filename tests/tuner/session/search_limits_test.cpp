// When a search ends, and how much time is left for the decision.
#include "tuner/session/tune/search_limits.h"

#include <gmock/gmock.h>

namespace autotune::tuner::search_limits_test {
namespace {

using testing::HasSubstr;
using testing::Optional;

Budget budget(double seconds, int trials = 0) {
    Budget made;
    made.seconds = seconds;
    made.trials = trials;
    return made;
}

SearchState state(int tried, double elapsed_s, std::optional<double> best_us = 10.0) {
    return {.tried = tried, .since_better = 0, .best_us = best_us, .elapsed_s = elapsed_s};
}

TEST(SearchLimits, AQuarterOfTheSecondsIsKeptForTheFinals) {
    EXPECT_EQ(why_search_ends(budget(20), state(100, 14.9)), std::nullopt);
    EXPECT_THAT(why_search_ends(budget(20), state(100, 15.1)), Optional(std::string("budget")));
}

TEST(SearchLimits, ButNotMoreThanTheFinalsNeed) {
    EXPECT_EQ(why_search_ends(budget(100), state(100, 91.9)), std::nullopt);
    EXPECT_THAT(why_search_ends(budget(100), state(100, 92.1)), Optional(std::string("budget")));
}

TEST(SearchLimits, ASearchThatTriedNextToNothingMayTakeTwiceItsBudget) {
    EXPECT_EQ(why_search_ends(budget(2), state(3, 3.9)), std::nullopt);
    EXPECT_THAT(why_search_ends(budget(2), state(3, 4.1)), Optional(std::string("budget")));
    EXPECT_EQ(why_search_ends(budget(2), state(100, 3.9, std::nullopt)), std::nullopt) << "nothing was right yet";
}

TEST(SearchLimits, OneIsTriedHoweverLongItTakes) {
    EXPECT_EQ(why_search_ends(budget(2), state(0, 1000, std::nullopt)), std::nullopt);
}

TEST(SearchLimits, TrialsCountWhateverTheyGave) {
    EXPECT_EQ(why_search_ends(budget(100, 10), state(9, 1)), std::nullopt);
    EXPECT_THAT(why_search_ends(budget(100, 10), state(10, 1, std::nullopt)), Optional(std::string("budget")));
}

TEST(SearchLimits, PatienceAndTargetAreToldByName) {
    Budget short_of_patience = budget(100);
    short_of_patience.patience = 5;
    SearchState now = state(20, 1);
    now.since_better = 5;
    EXPECT_THAT(why_search_ends(short_of_patience, now), Optional(HasSubstr("no better one in 5 trials")));
    Budget with_target = budget(100);
    with_target.target_us = 10;
    EXPECT_THAT(why_search_ends(with_target, state(20, 1, 10.0)), Optional(std::string("target reached")));
    EXPECT_EQ(why_search_ends(with_target, state(20, 1, 10.1)), std::nullopt);
}

TEST(SearchLimits, ASearchEndsWhenGoingOnIsExpectedToGainLessThanTheTarget) {
    SearchState now = state(40, 2);
    now.expected_gain = 0.0051;
    EXPECT_EQ(why_search_ends(budget(40), now), std::nullopt);
    now.expected_gain = 0.0049;
    EXPECT_THAT(why_search_ends(budget(40), now), Optional(std::string("expected gain")));
    Budget patient = budget(40);
    patient.target_gain = 0;
    EXPECT_EQ(why_search_ends(patient, now), std::nullopt);
    now.expected_gain.reset();
    EXPECT_EQ(why_search_ends(budget(40), now), std::nullopt) << "not known yet";
}

TEST(SearchLimits, OfAShortBudgetHalfIsForTheRace) {
    EXPECT_EQ(why_search_ends(budget(4), state(10, 1.9)), std::nullopt) << "ten are too few while there is time";
    EXPECT_THAT(why_search_ends(budget(4), state(10, 2.1)), Optional(std::string("budget")));
    EXPECT_DOUBLE_EQ(finals_seconds(budget(4), 0.5, 1), 3) << "the race has what is left";
}

TEST(SearchLimits, WhereBlocksWillJudgeTheirTimeIsKeptToo) {
    SearchState now = state(100, 5.2);
    EXPECT_EQ(why_search_ends(budget(7), now), std::nullopt);
    now.draws_power = true;
    EXPECT_THAT(why_search_ends(budget(7), now), Optional(std::string("budget")));
    now.elapsed_s = 4.5;
    EXPECT_EQ(why_search_ends(budget(7), now), std::nullopt) << "1.2 s and three contestants' blocks of 1.2 s are left";
}

TEST(SearchLimits, ASweepsSearchIsShortWhereEarlierProblemsOrderTheCandidates) {
    Budget sweep = budget(7);
    sweep.trusts_learning = true;
    SearchState now = state(30, 0.7);
    now.search_s = 0.61;
    EXPECT_EQ(why_search_ends(sweep, now), std::nullopt) << "nothing was learned";
    now.learned_problems = 2;
    EXPECT_THAT(why_search_ends(sweep, now), Optional(std::string("learned from 2 problems")));
    EXPECT_EQ(why_search_ends(budget(7), now), std::nullopt) << "a tune of one problem";
    now.search_s = 0.59;
    EXPECT_EQ(why_search_ends(sweep, now), std::nullopt);
    now.search_s = 2;
    now.tried = 13;
    EXPECT_EQ(why_search_ends(sweep, now), std::nullopt) << "the compilers were slow";
}

TEST(SearchLimits, FinalsTakeNoLongerThanTheSearchDid) {
    EXPECT_DOUBLE_EQ(finals_seconds(budget(100), 3, 10), 3);
    EXPECT_DOUBLE_EQ(finals_seconds(budget(100), 50, 60), kMostFinals_s);
    EXPECT_DOUBLE_EQ(finals_seconds(budget(10), 6, 8), 2) << "what is left of the budget";
    EXPECT_DOUBLE_EQ(finals_seconds(budget(10), 0.01, 20), 0.5) << "a verdict needs some time";
}

TEST(SearchLimits, BlocksTakeAShareOfTheBudgetBesideIt) {
    EXPECT_DOUBLE_EQ(sustained_seconds(budget(40)), 3.2);
    EXPECT_DOUBLE_EQ(sustained_seconds(budget(2)), 1.0) << "two contestants and what is not counted";
    EXPECT_DOUBLE_EQ(sustained_seconds(budget(7)), 1.2) << "three of them";
    EXPECT_DOUBLE_EQ(sustained_seconds(budget(100)), 6);
}

}  // namespace
}  // namespace autotune::tuner::search_limits_test
