#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <ostream>

#include "tests/support/sanitizer.h"
#include "tuner/replay/simulate.h"

namespace autotune::tuner::default_strategy_test {
namespace {

using Point = std::vector<int>;
using TimeOf = std::function<std::optional<double>(const Point&)>;

// A space of every point of a grid, each with a different time.
RecordedSpace made_up(const Point& extents, const TimeOf& time_of) {
    RecordedSpace space;
    for (std::size_t p = 0; p < extents.size(); ++p) {
        Parameter& parameter = space.parameters.emplace_back();
        parameter.name = std::string(1, static_cast<char>('a' + p));
        for (int value = 0; value < extents[p]; ++value) parameter.values.push_back(value);
    }
    space.words.resize(extents.size());
    Point point(extents.size(), 0);
    while (true) {
        RecordedSpace::Row& row = space.rows.emplace_back();
        for (std::size_t p = 0; p < point.size(); ++p) row.config.set(space.parameters[p].name, point[p]);
        row.time_us = time_of(point);
        std::size_t p = point.size();
        while (p > 0 && ++point[p - 1] == extents[p - 1]) point[--p] = 0;
        if (p == 0) return space;
    }
}

// A convolution that reads its input in one of two ways. Through shared memory everything works, with little variation. Without
// shared memory the kernel is a quarter faster if the block size is a power of two, and three times slower otherwise.
std::optional<double> switch_us(const Point& point) {
    const int block_x = point[0] + 1, block_y = point[1], tile_x = point[2], tile_y = point[3];
    const bool is_power_of_two = (block_x & (block_x - 1)) == 0;
    const double shared = point[4] == 1 ? 1.25 + 0.01 * std::abs(block_x - 5) : is_power_of_two ? 1 : 3;
    return 100 * shared * (1 + 0.004 * point[5]) * (1 + 0.15 * std::abs(block_y - 1)) * (1 + 0.35 * (3 - tile_y)) *
           (1 + 0.05 * std::abs(tile_x - 1));
}

// About four of ten points fail, and the best points are at the edge.
std::optional<double> cliff_us(const Point& point) {
    const int a = point[0], b = point[1];
    if (a + b > 9) return std::nullopt;
    const double away = std::pow((point[2] - 3) / 7.0, 2) * 0.5 + std::pow((point[3] - 6) / 7.0, 2) * 0.4;
    return 100 * std::exp(0.3 * (9 - a - b) / 9.0 + away + 0.2 * std::abs(a - b - 3) / 7.0);
}

struct MadeUp {
    const char* name;
    Point extents;
    TimeOf time_of;
};
void PrintTo(const MadeUp& space, std::ostream* out) {
    *out << space.name;
}

class DefaultStrategy : public testing::TestWithParam<MadeUp> {};

// Recorded spaces of real kernels, which are not in the repository, give the same result (docs/results/search.md).
TEST_P(DefaultStrategy, TakesAtMostAFifthMoreEvaluationsThanTheBestOther) {
    if (test::kIsSanitized) GTEST_SKIP() << "medians need many runs, which take a minute under a sanitizer";
    const Simulation simulation = simulate(made_up(GetParam().extents, GetParam().time_of),
                                           {.strategy = "all", .runs = 121, .most_evaluations = 300, .until_percent = 5});
    const std::vector<BestOther> others = against_best_other(simulation);
    ASSERT_EQ(others.size(), 2u) << "no other strategy gets to 10 % and to 5 %";
    EXPECT_LE(others[1].ratio, 1.2) << "to 5 %, compared with " << others[1].name;
}

INSTANTIATE_TEST_SUITE_P(Simulate, DefaultStrategy,
                         testing::Values(MadeUp{"Switch", {16, 5, 3, 4, 2, 2}, switch_us},
                                         MadeUp{"Cliff", {8, 8, 8, 8}, cliff_us}),
                         [](const auto& space) { return space.param.name; });

}  // namespace
}  // namespace autotune::tuner::default_strategy_test
