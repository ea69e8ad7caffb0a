#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/test_names.h"
#include "tuner/replay/simulate.h"

namespace autotune::tuner {
namespace {

const std::filesystem::path kData = AUTOTUNE_TEST_DATA;

// Large recorded spaces are not in the repository; they may be in a folder next to it.
std::filesystem::path full_space(const std::string& name) {
    return kData.parent_path().parent_path().parent_path() / "shared" / "data" / "search_spaces" / name;
}

// ---- the limits of docs/results/search.md ----

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
                                         Bar{"convolution_a100_T4.json.gz", 250, 2'000}),
                         [](const auto& entry) { return test::as_name(entry.param.file); });

}  // namespace
}  // namespace autotune::tuner
