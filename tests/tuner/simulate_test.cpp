#include "tuner/simulate.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "src/core/error.h"
#include "tuner/search.h"

namespace autotune::tuner {
namespace {

const std::filesystem::path kData = AUTOTUNE_TEST_DATA;

RecordedSpace excerpt() {
    return read_recorded_space(kData / "search_spaces" / "convolution_excerpt.json");
}

// Large recorded spaces are not kept in the repository: they may stand in a folder beside it.
std::filesystem::path full_space(const std::string& name) {
    return kData.parent_path().parent_path().parent_path() / "shared" / "data" / "search_spaces" / name;
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

TEST(Simulate, RefusesASpaceWhereNothingWorks) {
    RecordedSpace space = excerpt();
    for (RecordedSpace::Row& row : space.rows) row.time_us.reset();
    EXPECT_THROW(simulate(space, {}), Error);
}

// ---- the bars of docs/results/simulate.md ----

struct Bar {
    const char* file;
    double median_evaluations;
    std::size_t limit;
};
class FullSpace : public testing::TestWithParam<Bar> {};

TEST_P(FullSpace, IsSolvedWithinTheBar) {
    const std::filesystem::path path = full_space(GetParam().file);
    if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
    const Simulation simulation =
        simulate(read_recorded_space(path), {.strategy = "auto", .runs = 30, .most_evaluations = GetParam().limit});
    const SimulatedStrategy::Reach& five_percent = simulation.strategies[0].within[1];
    EXPECT_LE(five_percent.median_evaluations, GetParam().median_evaluations);
    EXPECT_EQ(five_percent.runs_solved, 30);
}

INSTANTIATE_TEST_SUITE_P(Simulate, FullSpace,
                         testing::Values(Bar{"gemm_rtx3090.json.gz", 75, 1'000}, Bar{"convolution_a100.json.gz", 250, 2'000},
                                         Bar{"convolution_a100_T4.json.gz", 250, 2'000}));

}  // namespace
}  // namespace autotune::tuner
