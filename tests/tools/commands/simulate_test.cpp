#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/cli_bench.h"

namespace autotune::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(Simulate, RunsMayEndBeforeTheOptimum) {
    CliBench autotune;
    autotune({"simulate", "space.json", "--until", "5"});
    EXPECT_EQ(autotune.services.simulate_options.until_percent, 5);
}

TEST(Simulate, ComparesTheFirstStrategyWithTheBestOther) {
    CliBench autotune;
    autotune.services.simulated = {"model", "greedy"};
    EXPECT_THAT(autotune({"simulate", "space.json"}).out, HasSubstr("model / best other"));
    EXPECT_EQ(autotune({"simulate", "space.json", "--json"}).json()["best_other"][0]["name"], "greedy");
}

TEST(Simulate, APlotHasACurveForEachStrategy) {
    CliBench autotune;
    const std::string path = autotune.folder + "/curves.svg";
    EXPECT_EQ(autotune({"simulate", "space.json", "--plot", path}).code, ExitCode::done);
    EXPECT_THAT(text_of(path), AllOf(HasSubstr(">random<"), HasSubstr("evaluations")));
}

TEST(Simulate, JsonHasTheDocumentedMembers) {
    CliBench autotune;
    const auto json = autotune({"simulate", "space.json", "--runs", "7", "--json"}).json();
    EXPECT_EQ(autotune.services.simulate_options.runs, 7);
    const auto& strategy = json["strategies"][0];
    for (const char* member : {"name", "runs", "median_evaluations_to_5pct", "runs_solved_5pct"})
        EXPECT_TRUE(strategy.contains(member)) << member;
}

}  // namespace
}  // namespace autotune::cli
