// Tests which contestant is faster in blocks than the winner of the rounds, and how many blocks it takes to find it.
#include "tuner/session/race/final_race.h"

#include <gmock/gmock.h>

#include <deque>
#include <map>

namespace autotune::tuner::final_race_test {
namespace {

using testing::ElementsAre;

constexpr double kGap = 0.005, kFirstLead = 0.01;

// Contestants whose blocks take these times, one after the other; a contestant without any left cannot be run.
struct Card {
    std::map<std::size_t, std::deque<double>> blocks_us;
    std::vector<std::size_t> played{};

    std::optional<Outlasting> judge(const std::vector<std::size_t>& near, std::optional<std::size_t> previous = {}) {
        return outlasting(near, previous, kFirstLead, kGap, [this](std::size_t contestant) -> std::optional<double> {
            played.push_back(contestant);
            std::deque<double>& left = blocks_us[contestant];
            if (left.empty()) return std::nullopt;
            const double next = left.front();
            left.pop_front();
            return next;
        });
    }
};

TEST(Blocks, ASmallLeadInTheFirstTurnIsNotFollowedUp) {
    Card card{{{0, {100}}, {1, {99.2}}, {2, {101}}}};
    EXPECT_FALSE(card.judge({0, 1, 2}));
    EXPECT_THAT(card.played, ElementsAre(0, 1, 2));
}

TEST(Blocks, OnlyTheFastestPlaysASecondTurnAndBeforeTheWinnerOfTheRounds) {
    Card card{{{0, {100, 102}}, {1, {98, 97}}, {2, {96, 96}}}};
    const auto found = card.judge({0, 1, 2});
    ASSERT_TRUE(found);
    EXPECT_EQ(found->winner, 2U);
    EXPECT_DOUBLE_EQ(found->winner_us, 96);
    EXPECT_DOUBLE_EQ(found->leader_us, 101);
    EXPECT_THAT(card.played, ElementsAre(0, 1, 2, 2, 0));
}

TEST(Blocks, ALeadThatDoesNotRepeatIsNoise) {
    Card card{{{0, {100, 96.4}}, {1, {96, 96}}}};
    EXPECT_FALSE(card.judge({0, 1}));
}

TEST(Blocks, ThePreviousWinnerChallengesIfItIsNearlyTheFastest) {
    Card near{{{0, {100, 100}}, {1, {96, 96}}, {2, {96.3, 96.3}}}};
    EXPECT_EQ(near.judge({0, 1, 2}, 2).value().winner, 2U);
    Card behind{{{0, {100, 100}}, {1, {96, 96}}, {2, {98, 98}}}};
    EXPECT_EQ(behind.judge({0, 1, 2}, 2).value().winner, 1U);
    Card no_lead{{{0, {100, 100}}, {1, {98.9, 98.9}}, {2, {99.2, 99.2}}}};
    EXPECT_EQ(no_lead.judge({0, 1, 2}, 2).value().winner, 1U);
}

TEST(Blocks, ABlockThatCannotBeRunLeavesTheVerdictOfTheRounds) {
    Card card{{{0, {100, 100}}, {1, {96}}}};
    EXPECT_FALSE(card.judge({0, 1}));
}

TEST(Blocks, AreCountedForTheBudget) {
    EXPECT_EQ(blocks_to_judge(3), 6);
}

}  // namespace
}  // namespace autotune::tuner::final_race_test
