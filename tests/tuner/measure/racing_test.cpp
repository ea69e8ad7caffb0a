#include "tuner/measure/racing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <set>
#include <vector>

#include "src/core/statistics/random.h"
#include "tests/support/sanitizer.h"

namespace autotune::tuner::racing_test {
namespace {

// A realistic card. It warms up (drift), its clock varies under the power cap, every launch has jitter, and foreign load hits
// some launches.
class NoisyCard {
  public:
    explicit NoisyCard(std::uint64_t seed, double jitter = 0.01) : random_(seed), jitter_(jitter), phase_(random_.uniform()) {}

    double launch(double true_us) {
        const double drift = 1 + 0.04 * (1 - std::exp(-turns_ / 200));
        const double swing = 1 + 0.02 * std::sin(2 * std::numbers::pi * (turns_ / 37 + phase_));
        ++turns_;
        const double foreign = random_.chance(0.03) ? 1 + 2 * random_.uniform() : 1;
        return true_us * drift * swing * foreign * (1 + std::abs(jitter_ * random_.normal()));
    }

  private:
    Random random_;
    double jitter_;
    double phase_;
    double turns_ = 0;
};

Verdict race(const std::vector<FinalistInfo>& finalists, const std::vector<double>& true_us, std::uint64_t seed,
             double jitter = 0.01, double tie_gap = FinalOptions{}.tie_gap) {
    NoisyCard card(seed, jitter);
    FinalRounds rounds(finalists, {.tie_gap = tie_gap, .seed = seed});
    while (!rounds.done()) {
        std::vector<double> times;
        for (const std::size_t finalist : rounds.next_round()) times.push_back(card.launch(true_us[finalist]));
        rounds.report_round(times);
    }
    return rounds.verdict();
}

const FinalRow& row_of(const Verdict& verdict, std::size_t finalist) {
    return *std::find_if(verdict.rows.begin(), verdict.rows.end(), [&](const FinalRow& row) { return row.finalist == finalist; });
}

Conditions throttled(std::uint64_t reasons) {
    Conditions conditions;
    conditions.throttle_reasons = reasons;
    return conditions;
}

// ---- the meter's acceptance ----

// A sanitizer takes ten times as long for the same numbers, so fewer runs are checked there.
constexpr std::uint64_t kRuns = test::kIsSanitized ? 20 : 100;
constexpr int of_runs(int percent) {
    return (percent * static_cast<int>(kRuns) + 99) / 100;
}

TEST(FinalRounds, CallAAgainstAATieAtLeast95TimesIn100) {
    for (const double jitter : {0.002, 0.01, 0.03}) {
        int ties = 0;
        for (std::uint64_t seed = 1; seed <= kRuns; ++seed) {
            const Verdict verdict = race({{.name = "a"}, {.name = "twin"}}, {100, 100}, seed, jitter);
            ties += verdict.rows[1].tie ? 1 : 0;
        }
        EXPECT_GE(ties, of_runs(95)) << "jitter " << jitter;
    }
}

TEST(FinalRounds, MakeAThreePercentSlowerTwinLoseAtLeast99TimesIn100) {
    for (const double jitter : {0.002, 0.01, 0.02}) {
        int lost = 0;
        for (std::uint64_t seed = 1; seed <= kRuns; ++seed) {
            // If they tied, the rule would prefer the twin.
            const Verdict verdict = race({{.name = "a"}, {.name = "twin", .is_previous_winner = true}}, {100, 103}, seed, jitter);
            lost += verdict.winner == 0 && verdict.decided_by == "faster" ? 1 : 0;
        }
        EXPECT_GE(lost, of_runs(99)) << "jitter " << jitter;
    }
}

TEST(FinalRounds, NeverLetAOnePercentSlowerTwinBeatThePreviousWinner) {
    for (std::uint64_t seed = 1; seed <= kRuns; ++seed) {
        EXPECT_EQ(race({{.name = "z", .is_previous_winner = true}, {.name = "a"}}, {100, 101}, seed).winner, 0u) << seed;
    }
}

TEST(FinalRounds, NeverLetAOnePercentSlowerTwinOfEqualResourcesWin) {
    for (std::uint64_t seed = 1; seed <= kRuns; ++seed) {
        EXPECT_EQ(race({{.name = "z"}, {.name = "a"}}, {100, 101}, seed).winner, 0u) << seed;
    }
}

TEST(FinalRounds, FindTheFastestOfEightWhateverTheSeed) {
    std::vector<FinalistInfo> finalists;
    std::vector<double> true_us;
    for (int i = 0; i < 8; ++i) {
        finalists.push_back({.name = std::string(1, static_cast<char>('a' + i))});
        true_us.push_back(i == 5 ? 100 : 103 + i);
    }
    int found = 0;
    for (std::uint64_t seed = 1; seed <= 50; ++seed) found += race(finalists, true_us, seed).winner == 5 ? 1 : 0;
    EXPECT_GE(found, 49);
}

TEST(FinalRounds, CallEightEqualFinalistsTiesAndNameTheSameOneAtLeast95TimesIn100) {
    std::vector<FinalistInfo> finalists;
    for (int i = 0; i < 8; ++i) finalists.push_back({.name = "same", .resources = {.dynamic_smem_bytes = (i * 5) % 8}});
    const std::vector<double> true_us(8, 100.0);
    int named = 0;
    for (std::uint64_t seed = 1; seed <= kRuns; ++seed) named += race(finalists, true_us, seed).winner == 0 ? 1 : 0;
    EXPECT_GE(named, of_runs(95));
}

// ---- the rules ----

TEST(FinalRounds, PreferThePreviousWinnerInATie) {
    const Verdict verdict = race({{.name = "a", .resources = {.dynamic_smem_bytes = 1}},
                                  {.name = "b", .resources = {.dynamic_smem_bytes = 9}, .is_previous_winner = true}},
                                 {100, 100.3}, 7);
    EXPECT_EQ(verdict.winner, 1u);
    EXPECT_EQ(verdict.decided_by, "tie: previous winner");
}

TEST(FinalRounds, PreferFewerResourcesInATie) {
    const Verdict verdict = race({{.name = "a", .resources = {.dynamic_smem_bytes = 4096, .registers = 128}},
                                  {.name = "b", .resources = {.dynamic_smem_bytes = 4096, .registers = 96}}},
                                 {100, 100}, 7);
    EXPECT_EQ(verdict.winner, 1u);
    EXPECT_EQ(verdict.decided_by, "tie: fewer resources");
}

// Ten rounds cannot distinguish 4 % from nothing if measurements vary by 10 %, but that is no tie.
TEST(FinalRounds, FewRoundsDoNotMakeASlowerFinalistOfFewerResourcesWin) {
    const std::vector<FinalistInfo> finalists = {{.name = "a", .resources = {.dynamic_smem_bytes = 9}},
                                                 {.name = "b", .resources = {.dynamic_smem_bytes = 1}}};
    int named = 0;
    for (std::uint64_t seed = 1; seed <= kRuns; ++seed) {
        NoisyCard card(seed, 0.1);
        FinalRounds rounds(finalists, {.seed = seed});
        for (int round = 0; round < 10; ++round) {
            std::vector<double> times;
            for (const std::size_t finalist : rounds.next_round()) times.push_back(card.launch(finalist == 0 ? 100 : 104));
            rounds.report_round(times);
        }
        rounds.stop();
        named += rounds.verdict().winner == 0 ? 1 : 0;
    }
    EXPECT_GE(named, of_runs(75));
}

// With a gap of 0.2 %, half a percent is a lead, whichever kernel uses fewer resources or won before; with 1 % it is a tie.
TEST(FinalRounds, ASmallerTieGapTellsSmallerLeadsApart) {
    const std::vector<FinalistInfo> finalists = {{.name = "deep ring", .resources = {.dynamic_smem_bytes = 200'000}},
                                                 {.name = "shallow ring", .resources = {.dynamic_smem_bytes = 160'000}},
                                                 {.name = "old", .is_previous_winner = true}};
    int led = 0, tied = 0;
    for (std::uint64_t seed = 1; seed <= kRuns; ++seed) {
        EXPECT_EQ(race(finalists, {100, 100.5, 100.5}, seed, 0.002, 0.01).winner, 2u) << seed;
        const Verdict fine = race(finalists, {100, 100.5, 100.5}, seed, 0.002, 0.002);
        led += fine.winner == 0 && fine.decided_by == "faster" ? 1 : 0;
        tied += row_of(race({{.name = "a"}, {.name = "twin"}}, {100, 100}, seed, 0.002, 0.002), 1).tie ? 1 : 0;
    }
    EXPECT_GE(led, of_runs(95));
    EXPECT_GE(tied, of_runs(95));
}

TEST(FinalRounds, ARivalIsTimedButNeverNamed) {
    const Verdict verdict = race({{.name = "cublas", .may_win = false}, {.name = "a"}}, {50, 100}, 7);
    EXPECT_EQ(verdict.winner, 1u);
    EXPECT_EQ(verdict.decided_by, "only candidate");
    EXPECT_NEAR(row_of(verdict, 0).ratio, 0.5, 0.01);
    EXPECT_EQ(row_of(verdict, 0).rounds, verdict.rounds);
}

TEST(FinalRounds, RunAtLeastThirtyAndAtMostTheGivenRounds) {
    EXPECT_EQ(race({{.name = "a"}, {.name = "b"}}, {100, 108}, 3).rounds, 30);
    const Verdict close = race({{.name = "a"}, {.name = "b"}}, {100, 101}, 3, 0.03);
    EXPECT_GT(close.rounds, 30);
    EXPECT_LE(close.rounds, 90);
}

// With a minimum of ten rounds, a race whose rivals are surely behind, or surely equal, ends early; a close one does not.
TEST(FinalRounds, EndEarlyWhereTheyAreDecidedWithMoreConfidence) {
    const auto rounds_of = [](double second_us, double jitter, std::uint64_t seed) {
        NoisyCard card(seed, jitter);
        FinalRounds rounds({{.name = "a"}, {.name = "b"}}, {.least_rounds = 10, .seed = seed});
        while (!rounds.done()) {
            std::vector<double> times;
            for (const std::size_t finalist : rounds.next_round()) times.push_back(card.launch(finalist == 0 ? 100 : second_us));
            rounds.report_round(times);
        }
        return rounds.rounds();
    };
    int early = 0, close = 0;
    for (std::uint64_t seed = 1; seed <= kRuns; ++seed) {
        early += rounds_of(108, 0.01, seed) == 10 ? 1 : 0;
        close += rounds_of(100.5, 0.01, seed) > 10 ? 1 : 0;
    }
    EXPECT_GE(early, of_runs(95));
    EXPECT_GE(close, of_runs(95));
}

TEST(FinalRounds, AHopelessFinalistLeavesTheRaceEarly) {
    const Verdict verdict = race({{.name = "a"}, {.name = "b"}, {.name = "hopeless"}}, {100, 100.8, 150}, 3);
    EXPECT_EQ(row_of(verdict, 2).rounds, 10);
    EXPECT_EQ(row_of(verdict, 1).rounds, verdict.rounds);
    EXPECT_NEAR(row_of(verdict, 2).ratio, 1.5, 0.05);
}

// In an earlier version, if the fast finalists crashed after the slow ones had been eliminated, the race had no finalist and
// ended in an internal error.
TEST(FinalRounds, WhoLeftEarlyIsBackWhenAllOthersFail) {
    FinalRounds rounds({{.name = "a"}, {.name = "b"}, {.name = "slow"}, {.name = "slower"}, {.name = "rival", .may_win = false}});
    NoisyCard card(3);
    const std::vector<double> true_us = {100, 101, 150, 180, 90};
    const auto play = [&](int count) {
        for (int round = 0; round < count && !rounds.done(); ++round) {
            std::vector<double> times;
            for (const std::size_t finalist : rounds.next_round()) times.push_back(card.launch(true_us[finalist]));
            rounds.report_round(times);
        }
    };
    const auto races = [&](std::size_t finalist) {
        const std::vector<std::size_t>& order = rounds.next_round();
        return std::find(order.begin(), order.end(), finalist) != order.end();
    };
    play(15);
    ASSERT_FALSE(races(2));
    rounds.fail(0);
    EXPECT_FALSE(races(2));
    rounds.fail(1);
    EXPECT_TRUE(races(2));
    EXPECT_TRUE(races(3));
    play(1000);
    const Verdict verdict = rounds.verdict();
    EXPECT_EQ(verdict.winner, 2U);
    EXPECT_GT(row_of(verdict, 2).rounds, 10);
    rounds.fail(2);  // the race is over and does not start again
    EXPECT_TRUE(rounds.done());
}

TEST(FinalRounds, OrderChangesFromRoundToRound) {
    FinalRounds rounds({{.name = "a"}, {.name = "b"}, {.name = "c"}, {.name = "d"}}, {.seed = 5});
    std::set<std::vector<std::size_t>> orders;
    std::vector<int> first_places(4);
    while (!rounds.done()) {
        orders.insert(rounds.next_round());
        ++first_places[rounds.next_round().front()];
        rounds.report_round(std::vector(4, 100.0));
    }
    EXPECT_GT(orders.size(), 10u);
    EXPECT_GT(*std::min_element(first_places.begin(), first_places.end()), 1);
}

TEST(FinalRounds, AThrottledRoundDoesNotCount) {
    FinalRounds rounds({{.name = "a"}, {.name = "b"}}, {});
    EXPECT_FALSE(rounds.report_round(std::vector{900.0, 900.0}, std::vector{throttled(0), throttled(0x20)}));
    EXPECT_EQ(rounds.rounds(), 0);
    EXPECT_EQ(rounds.void_rounds(), 1);
}

TEST(FinalRounds, ThePowerCapIsNormalAndIsRecorded) {
    FinalRounds rounds({{.name = "a"}, {.name = "b"}}, {});
    Conditions capped = throttled(0x4), free;
    capped.sm_clock_mhz = 1700;
    free.sm_clock_mhz = 1710;
    EXPECT_TRUE(rounds.report_round(std::vector{100.0, 100.0}, std::vector{capped, capped}));
    EXPECT_TRUE(rounds.report_round(std::vector{100.0, 100.0}, std::vector{free, free}));
    EXPECT_EQ(rounds.verdict().conditions.throttle_reasons, 0x4u);
    EXPECT_EQ(rounds.verdict().conditions.sm_clock_mhz, 1705);
    EXPECT_FALSE(rounds.verdict().conditions.power_w.has_value());
}

TEST(FinalRounds, ReadingsAreKeptForEachFinalist) {
    FinalRounds rounds({{.name = "a"}, {.name = "b"}}, {});
    for (int i = 0; i < 3; ++i) {
        std::vector<Conditions> seen(2);
        for (std::size_t at = 0; at < 2; ++at) seen[at].sm_clock_mhz = rounds.next_round()[at] == 0 ? 1500 : 1900;
        rounds.report_round(std::vector{100.0, 100.0}, seen);
    }
    const std::vector<FinalRow> rows = rounds.rows_against(0);
    EXPECT_EQ(rows[0].conditions.sm_clock_mhz, 1500);
    EXPECT_EQ(rows[1].conditions.sm_clock_mhz, 1900);
}

TEST(FinalRounds, EndlessThrottlingEndsInAVerdictThatSaysSo) {
    FinalRounds rounds({{.name = "a"}, {.name = "b"}}, {.most_void_rounds = 5});
    int asked = 0;
    while (!rounds.done() && ++asked < 1'000) {
        std::vector<double> times;
        for (const std::size_t finalist : rounds.next_round()) times.push_back(finalist == 0 ? 100 : 120);
        rounds.report_round(times, std::vector(times.size(), throttled(0x40)));
    }
    EXPECT_LT(asked, 100);
    EXPECT_TRUE(rounds.verdict().throttled);
    EXPECT_EQ(rounds.verdict().winner, 0u);
}

TEST(FinalRounds, AFinalistThatCrashesIsLeftOut) {
    FinalRounds rounds({{.name = "a"}, {.name = "crash"}, {.name = "c"}}, {});
    rounds.fail(1);
    while (!rounds.done()) {
        ASSERT_EQ(rounds.next_round().size(), 2u);
        rounds.report_round(std::vector{100.0, 100.0});
    }
    EXPECT_EQ(rounds.verdict().rows.size(), 2u);
}

TEST(FinalRounds, TheRaceIsOverWhenNobodyIsLeft) {
    FinalRounds rounds({{.name = "a"}, {.name = "cublas", .may_win = false}}, {});
    rounds.fail(0);
    EXPECT_TRUE(rounds.done());
}

TEST(FinalRounds, AStoppedRaceDecidesFromTheRoundsThereAre) {
    FinalRounds rounds({{.name = "a"}, {.name = "b"}}, {});
    for (int i = 0; i < 8; ++i) {
        std::vector<double> times;
        for (const std::size_t finalist : rounds.next_round()) times.push_back(finalist == 0 ? 130 : 100);
        rounds.report_round(times);
    }
    rounds.stop();
    EXPECT_TRUE(rounds.done());
    EXPECT_EQ(rounds.verdict().winner, 1u);
    EXPECT_EQ(rounds.verdict().rounds, 8);
}

TEST(FinalRounds, TheWinnersTimeComesFromTheFinalRoundsAlone) {
    const Verdict verdict = race({{.name = "a"}, {.name = "b"}}, {100, 110}, 11);
    EXPECT_EQ(verdict.rows[0].finalist, verdict.winner);
    EXPECT_EQ(verdict.rows[0].timing.samples, verdict.rounds);
    EXPECT_DOUBLE_EQ(verdict.rows[0].ratio, 1);
}

TEST(FinalRounds, NearAWinnerAreThePreviousOneAndDefaultsBeforeFasterOnes) {
    FinalRounds rounds({{.name = "winner"},
                        {.name = "far", .is_previous_winner = true},
                        {.name = "second"},
                        {.name = "third"},
                        {.name = "default", .is_default = true},
                        {.name = "rival", .may_win = false}},
                       {});
    const std::vector<double> times_us = {100, 110, 101, 101.5, 102, 99};
    while (!rounds.done()) {
        std::vector<double> times;
        for (const std::size_t finalist : rounds.next_round()) times.push_back(times_us[finalist]);
        rounds.report_round(times);
    }
    EXPECT_EQ(rounds.near_to(0, 1.03, 5), (std::vector<std::size_t>{0, 4, 2, 3}));
    EXPECT_EQ(rounds.near_to(0, 1.03, 2), (std::vector<std::size_t>{0, 4}));
    const Verdict other = rounds.verdict_for(4, "for a reason");
    EXPECT_EQ(other.winner, 4u);
    EXPECT_EQ(other.rows.at(0).finalist, 4u);
    EXPECT_NEAR(other.rows.at(1).ratio, 99.0 / 102, 1e-9);  // the rival's row: the others' times / the winner's time
}

// ---- rungs ----

std::vector<double> samples(double time_us, const Measurement& wanted) {
    const auto launches = static_cast<std::size_t>(std::ceil(wanted.time_us / time_us));
    return std::vector<double>(
        std::clamp(launches, static_cast<std::size_t>(wanted.samples), static_cast<std::size_t>(wanted.most_samples)), time_us);
}

// Takes a candidate through rungs 0 and 1. Returns the microseconds of GPU time used.
double climb(Rungs& rungs, std::size_t candidate, double time_us) {
    double spent_us = 0;
    while (const auto wanted = rungs.next(candidate)) {
        const std::vector<double> taken = samples(time_us, *wanted);
        spent_us += time_us * static_cast<double>(taken.size());
        rungs.report(candidate, taken);
    }
    return spent_us;
}

TEST(Rungs, StartWithAFewLaunches) {
    const Rungs rungs;
    ASSERT_TRUE(rungs.next(3).has_value());
    EXPECT_EQ(rungs.next(3)->rung, 0);
    EXPECT_EQ(rungs.next(3)->samples, 3);
}

TEST(Rungs, DropWhatIsMoreThanTwiceAsSlowAfterTheProbe) {
    Rungs rungs;
    climb(rungs, 0, 100);
    const double spent_us = climb(rungs, 1, 201);
    EXPECT_TRUE(rungs.dropped(1));
    EXPECT_DOUBLE_EQ(spent_us, 3 * 201);
    EXPECT_DOUBLE_EQ(*rungs.estimate_us(1), 201);
    climb(rungs, 2, 199);
    EXPECT_FALSE(rungs.dropped(2));
}

TEST(Rungs, MeasureACandidateNearTheBestForTwentyMilliseconds) {
    Rungs rungs;
    climb(rungs, 0, 100);
    EXPECT_NEAR(climb(rungs, 1, 105), 20'000, 1'000);
}

TEST(Rungs, StopEarlyOnACandidateThatIsClearlyBehind) {
    Rungs rungs;
    climb(rungs, 0, 100);
    EXPECT_NEAR(climb(rungs, 1, 150), 4'000 + 5 * 150, 300);
    EXPECT_FALSE(rungs.dropped(1));
}

// Takes all steps at once, as a worker measures them.
double climb_at_once(Rungs& rungs, std::size_t candidate, double time_us) {
    double spent_us = 0;
    for (const Step& step : rungs.climb()) {
        const std::vector<double> taken = samples(time_us, step.measurement);
        spent_us += time_us * static_cast<double>(taken.size());
        if (rungs.next(candidate)) rungs.report(candidate, taken);
        if (is_enough(step, taken)) break;
    }
    return spent_us;
}

TEST(Rungs, AllAtOnceEndWhereOneByOneEnds) {
    for (const double time_us : {201.0, 150.0, 107.0, 99.0, 40.0}) {
        Rungs one_by_one, at_once;
        climb(one_by_one, 0, 100);
        climb_at_once(at_once, 0, 100);
        EXPECT_DOUBLE_EQ(climb_at_once(at_once, 1, time_us), climb(one_by_one, 1, time_us)) << time_us;
        EXPECT_EQ(at_once.estimate_us(1), one_by_one.estimate_us(1)) << time_us;
        EXPECT_EQ(at_once.dropped(1), one_by_one.dropped(1)) << time_us;
        EXPECT_FALSE(at_once.next(1).has_value()) << time_us;
    }
}

TEST(Rungs, AGlitchInAProbeDoesNotSetTheBar) {
    Rungs rungs;
    climb(rungs, 0, 100);
    rungs.report(1, std::vector<double>(5, 10.0));
    climb(rungs, 2, 105);
    EXPECT_FALSE(rungs.dropped(2));
}

TEST(Rungs, RungTwoTakesTheBestQuarterBestFirst) {
    Rungs rungs;
    for (std::size_t i = 0; i < 40; ++i) climb(rungs, i, 139 - static_cast<double>(i));
    const std::vector<std::size_t> kept = rungs.rung2();
    ASSERT_EQ(kept.size(), 10u);
    EXPECT_EQ(kept.front(), 39u);
    EXPECT_EQ(kept.back(), 30u);
}

TEST(Rungs, RungTwoTakesSixteenAtMost) {
    Rungs rungs;
    for (std::size_t i = 0; i < 200; ++i) climb(rungs, i, 100 + 0.1 * static_cast<double>(i));
    EXPECT_EQ(rungs.rung2().size(), 16u);
}

TEST(Rungs, MoreFinalistsThanUsualAreChosenAmongTwiceAsMany) {
    Rungs rungs({.finalists = 24});
    for (std::size_t i = 0; i < 200; ++i) climb(rungs, i, 100 + 0.1 * static_cast<double>(i));
    ASSERT_EQ(rungs.rung2().size(), 48u);
    for (const std::size_t i : rungs.rung2()) rungs.report(i, samples(200 - static_cast<double>(i), rungs.rung2_measurement()));
    const std::vector<std::size_t> finalists = rungs.finalists();
    ASSERT_EQ(finalists.size(), 24u);
    EXPECT_EQ(finalists.front(), 47u) << "the last of them by the shorter measurement";
}

TEST(Rungs, WhatHasNoChanceIsNeitherMeasuredAgainNorRaced) {
    Rungs rungs({.chance_ratio = 1.05});
    for (std::size_t i = 0; i < 12; ++i) climb(rungs, i, 100 + 2 * static_cast<double>(i));
    EXPECT_EQ(rungs.rung2(), (std::vector<std::size_t>{0, 1, 2}));
    EXPECT_EQ(rungs.finalists(), (std::vector<std::size_t>{0, 1, 2}));
    Rungs far({.chance_ratio = 1.05});
    for (std::size_t i = 0; i < 3; ++i) climb(far, i, 100 + 20 * static_cast<double>(i));
    EXPECT_EQ(far.rung2(), (std::vector<std::size_t>{0, 1})) << "two are raced in any case";
}

TEST(Rungs, FinalistsAreOrderedByTheirLongerMeasurement) {
    Rungs rungs;
    climb(rungs, 0, 100);
    climb(rungs, 1, 101);
    rungs.report(0, samples(103, rungs.rung2_measurement()));
    rungs.report(1, samples(101, rungs.rung2_measurement()));
    EXPECT_EQ(rungs.finalists(), (std::vector<std::size_t>{1, 0}));
}

TEST(Rungs, AFailedCandidateIsNoFinalist) {
    Rungs rungs;
    climb(rungs, 0, 100);
    climb(rungs, 1, 101);
    rungs.fail(0);
    EXPECT_EQ(rungs.finalists(), std::vector<std::size_t>{1});
    EXPECT_DOUBLE_EQ(*rungs.best_us(), 101);
    EXPECT_FALSE(rungs.estimate_us(0).has_value());
    EXPECT_FALSE(rungs.next(0).has_value());
}

TEST(Rungs, EarlyDroppingCutsGpuTimeEightfoldAndLosesNoWinner) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        NoisyCard card(seed);
        Random random(seed);
        Rungs rungs;
        double spent_us = 0;
        std::size_t best = 0;
        std::vector<double> true_us;
        for (std::size_t i = 0; i < 500; ++i) {
            true_us.push_back(100 * std::exp(std::abs(random.normal()) * 0.8));
            if (true_us[i] < true_us[best]) best = i;
            while (const auto wanted = rungs.next(i)) {
                std::vector<double> taken = samples(true_us[i], *wanted);
                for (double& time_us : taken) spent_us += time_us = card.launch(true_us[i]);
                rungs.report(i, taken);
            }
        }
        for (const std::size_t i : rungs.rung2()) {
            std::vector<double> taken = samples(true_us[i], rungs.rung2_measurement());
            for (double& time_us : taken) spent_us += time_us = card.launch(true_us[i]);
            rungs.report(i, taken);
        }
        const std::vector<std::size_t> kept = rungs.finalists();
        EXPECT_TRUE(std::find(kept.begin(), kept.end(), best) != kept.end()) << seed;
        EXPECT_LT(spent_us * 8, 500 * 100'000) << seed;
    }
}

}  // namespace
}  // namespace autotune::tuner::racing_test
