#include "tuner/replay/simulate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "src/core/error.h"
#include "tuner/search/search.h"

namespace autotune::tuner {
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

// What was recorded on an H200 (search_spaces/README.md): within 2 % of the optimum after at most 40 candidates, in 29 of 30
// runs.
class OwnSpace : public testing::TestWithParam<const char*> {};

TEST_P(OwnSpace, IsSolvedInFortyCandidates) {
    const RecordedSpace space = read_recorded_space(kData / "search_spaces" / GetParam());
    int solved = 0;
    for (std::uint64_t seed = 1; seed <= 30; ++seed) {
        const Simulation run = simulate(space, {.strategy = "auto", .runs = 1, .seed = seed, .most_evaluations = 40});
        solved += run.strategies[0].curve_percent.back() >= 100 / 1.02 ? 1 : 0;
    }
    EXPECT_GE(solved, 29);
}

INSTANTIATE_TEST_SUITE_P(Simulate, OwnSpace,
                         testing::Values("gemm_wgmma_h200.json", "gemm_mma_h200.json", "gemm_wmma_h200.json"));

TEST(Simulate, RefusesASpaceWhereNothingWorks) {
    RecordedSpace space = excerpt();
    for (RecordedSpace::Row& row : space.rows) row.time_us.reset();
    EXPECT_THROW(simulate(space, {}), Error);
}

}  // namespace
}  // namespace autotune::tuner
