#include "tuner/replay/simulate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <tuple>

#include "src/core/error.h"
#include "tests/support/sanitizer.h"
#include "tests/support/test_names.h"
#include "tuner/search/search.h"

namespace autotune::tuner::simulate_test {
namespace {

const std::filesystem::path kData = AUTOTUNE_TEST_DATA;

RecordedSpace excerpt() {
    return read_recorded_space(kData / "search_spaces" / "convolution_excerpt.json");
}

TEST(Simulate, ReplaysEveryStrategyTheDefaultFirst) {
    const Simulation simulation = simulate(excerpt(), {.strategy = "all", .runs = 3});
    ASSERT_EQ(simulation.strategies.size(), strategy_names().size());
    EXPECT_EQ(simulation.strategies[0].name, strategy_names()[0]);
    EXPECT_EQ(simulation.points, 240u);
    EXPECT_EQ(simulation.failed_points, 19u);
    for (const SimulatedStrategy& strategy : simulation.strategies) {
        EXPECT_EQ(strategy.within[2].runs_solved, 3) << strategy.name;
        EXPECT_DOUBLE_EQ(strategy.after[2].median_percent, 100) << strategy.name;
    }
}

TEST(Simulate, IsTheSameUnderTheSameSeed) {
    const SimulateOptions options{.strategy = "model", .runs = 4, .seed = 9};
    const Simulation first = simulate(excerpt(), options), again = simulate(excerpt(), options);
    EXPECT_EQ(first.strategies[0].curve_percent, again.strategies[0].curve_percent);
}

TEST(Simulate, CountsEvaluationsFromOneAndARunWithoutSuccessAsTheLimit) {
    RecordedSpace space = excerpt();
    const Simulation lucky = simulate(space, {.strategy = "exhaustive", .runs = 1});
    EXPECT_GE(lucky.strategies[0].within[0].median_evaluations, 1);
    EXPECT_LE(lucky.strategies[0].within[0].median_evaluations, lucky.strategies[0].within[1].median_evaluations);
    const Simulation cut = simulate(space, {.strategy = "exhaustive", .runs = 1, .most_evaluations = 2});
    EXPECT_EQ(cut.strategies[0].within[2].runs_solved, 0);
    EXPECT_EQ(cut.strategies[0].within[2].median_evaluations, 2);
}

TEST(Simulate, TheCurveNeverFalls) {
    const Simulation simulation = simulate(excerpt(), {.strategy = "random", .runs = 5});
    const std::vector<double>& curve = simulation.strategies[0].curve_percent;
    EXPECT_TRUE(std::is_sorted(curve.begin(), curve.end()));
    EXPECT_DOUBLE_EQ(curve.back(), 100);
}

TEST(Simulate, AskingForManyAtATimeStillFindsTheOptimum) {
    const Simulation simulation = simulate(excerpt(), {.strategy = "all", .runs = 3, .batch = 15});
    for (const SimulatedStrategy& strategy : simulation.strategies) EXPECT_EQ(strategy.within[2].runs_solved, 3) << strategy.name;
}

// Spaces recorded on an H200 (search_spaces/README.md): within 2 % of the optimum after at most 40 candidates, in 29 of 30 runs.
class OwnSpace : public testing::TestWithParam<const char*> {};

TEST_P(OwnSpace, IsSolvedInFortyCandidates) {
    const RecordedSpace space = read_recorded_space(kData / "search_spaces" / GetParam());
    const std::uint64_t runs = test::kIsSanitized ? 3 : 30;
    std::uint64_t solved = 0;
    for (std::uint64_t seed = 1; seed <= runs; ++seed) {
        const Simulation run = simulate(space, {.strategy = "auto", .runs = 1, .seed = seed, .most_evaluations = 40});
        solved += run.strategies[0].curve_percent.back() >= 100 / 1.02 ? 1 : 0;
    }
    EXPECT_GE(solved, runs - 1);
}

INSTANTIATE_TEST_SUITE_P(Simulate, OwnSpace, testing::Values("gemm_wgmma_h200.json", "gemm_mma_h200.json", "gemm_wmma_h200.json"),
                         test::NamedByParameter());

// Whole spaces of two examples of users' kernels on an H200, which no cost model ranks: within 2 % after a tenth of the points.
class UsersSpace : public testing::TestWithParam<const char*> {};

TEST_P(UsersSpace, IsSolvedInATenthOfItsPoints) {
    const RecordedSpace space = read_recorded_space(kData / "search_spaces" / GetParam());
    const int runs = test::kIsSanitized ? 3 : 30;
    const Simulation simulation = simulate(space, {.strategy = "model", .runs = runs, .seed = 1, .until_percent = 2});
    const SimulatedStrategy::Reach& reach = simulation.strategies[0].within.back();
    ASSERT_EQ(reach.percent, 2);
    EXPECT_EQ(reach.runs_solved, runs);
    EXPECT_LE(reach.median_evaluations, static_cast<double>(space.rows.size()) / 10);
}

INSTANTIATE_TEST_SUITE_P(Simulate, UsersSpace, testing::Values("user_conv2d_h200.json.gz", "user_tiled_gemm_h200.json.gz"),
                         test::NamedByParameter());

TEST(Simulate, RunsThatEndEarlyTellTheSameOfWhatTheyReached) {
    const SimulateOptions whole{.strategy = "greedy", .runs = 5};
    SimulateOptions early = whole;
    early.until_percent = 5;
    const SimulatedStrategy until_optimum = simulate(excerpt(), whole).strategies[0];
    const SimulatedStrategy until_five = simulate(excerpt(), early).strategies[0];
    ASSERT_EQ(until_five.within.size(), 2u);
    EXPECT_EQ(until_five.within[1].percent, 5);
    EXPECT_EQ(until_five.within[1].median_evaluations, until_optimum.within[1].median_evaluations);
    EXPECT_TRUE(until_five.after.empty());
    EXPECT_TRUE(until_five.curve_percent.empty());
}

TEST(Simulate, TheMedianLiesInItsInterval) {
    const Simulation simulation = simulate(excerpt(), {.strategy = "greedy", .runs = 20});
    for (const SimulatedStrategy::Reach& reach : simulation.strategies[0].within) {
        EXPECT_LE(reach.median_low, reach.median_evaluations);
        EXPECT_GE(reach.median_high, reach.median_evaluations);
        EXPECT_LT(reach.median_low, reach.median_high);
        EXPECT_LE(reach.median_high, reach.most_evaluations);
    }
}

// A simulation of three strategies, with their medians to reach each percentage, and how many of ten runs reached it.
Simulation with_medians(double first, double second, double third, int solved_by_third) {
    Simulation simulation;
    for (const auto& [name, median, solved] :
         {std::tuple{"model", first, 10}, std::tuple{"greedy", second, 10}, std::tuple{"random", third, solved_by_third}}) {
        SimulatedStrategy& strategy = simulation.strategies.emplace_back();
        strategy.name = name;
        strategy.runs = 10;
        for (const double percent : {10.0, 5.0, 1.0})
            strategy.within.push_back({.percent = percent, .median_evaluations = median, .runs_solved = solved});
    }
    return simulation;
}

TEST(Simulate, ComparesTheFirstStrategyWithTheFastestOther) {
    const std::vector<BestOther> others = against_best_other(with_medians(30, 40, 20, 10));
    ASSERT_EQ(others.size(), 3u);
    EXPECT_EQ(others[1].percent, 5);
    EXPECT_EQ(others[1].name, "random");
    EXPECT_DOUBLE_EQ(others[1].ratio, 1.5);
}

TEST(Simulate, ExhaustiveIsNoRivalSinceItsOrderIsTheFiles) {
    Simulation simulation = with_medians(30, 40, 20, 10);
    simulation.strategies[2].name = "exhaustive";
    EXPECT_EQ(against_best_other(simulation).at(1).name, "greedy");
}

TEST(Simulate, AStrategyThatGetsThereInAFewRunsIsNoRival) {
    EXPECT_EQ(against_best_other(with_medians(30, 40, 20, 4)).at(1).name, "greedy");
    EXPECT_TRUE(against_best_other(simulate(excerpt(), {.strategy = "model", .runs = 1})).empty());
}

TEST(Simulate, RefusesASpaceWhereNothingWorks) {
    RecordedSpace space = excerpt();
    for (RecordedSpace::Row& row : space.rows) row.time_us.reset();
    EXPECT_THROW(simulate(space, {}), Error);
}

}  // namespace
}  // namespace autotune::tuner::simulate_test
