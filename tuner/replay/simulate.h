#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tuner/replay/recorded_space.h"

namespace autotune::tuner {

struct SimulateOptions {
    std::string strategy = "auto";  // or "all"
    int runs = 30;
    std::uint64_t seed = 1;            // run r uses seed + r
    std::size_t most_evaluations = 0;  // per run; 0: all points
    double until_percent = 0;          // a run ends when its best is within this of the optimum
    std::size_t batch = 1;             // points requested at once, as if they were compiled in parallel
};

// Results of one strategy over all runs. Evaluations count points tried, including failures; in medians, a run that never reached
// the goal counts as the limit.
struct SimulatedStrategy {
    std::string name;
    int runs = 0;
    struct Reach {
        double percent = 0;  // the distance from the optimum, in percent
        double median_evaluations = 0;
        double median_low = 0, median_high = 0;  // 95 % interval of the median
        double p90_evaluations = 0;
        double most_evaluations = 0;  // evaluations of the worst run
        double median_instances = 0;  // the number of different compiled instances among these evaluations
        int runs_solved = 0;
    };
    std::vector<Reach> within;  // for 10, 5, 1 and 2 %, without those below `until_percent`
    struct After {
        std::size_t evaluations = 0;
        double median_percent = 0;  // the optimum's time / the best time found, in percent
        double worst_percent = 0;
    };
    std::vector<After> after;  // 50, 100, 220; none if runs end before the optimum
    double ask_ms_worst = 0;   // longest single ask
    // Median percent of the optimum after 1, 2, ... evaluations (at most 1000); empty in the same case as `after`
    std::vector<double> curve_percent;
};

struct Simulation {
    std::string space;
    std::size_t points = 0, failed_points = 0, instances = 0;
    double best_us = 0;
    std::array<std::size_t, 4> points_within{};  // of 10, 5, 1, 2 %
    std::size_t most_evaluations = 0;
    std::vector<SimulatedStrategy> strategies;  // the default first
};

// The first strategy of a simulation, which is the default if all ran, compared with the best of the others except exhaustive.
struct BestOther {
    double percent = 0;  // the goal is a time at most this much above the optimum
    std::string name;    // the strategy with the fewest evaluations in the median
    double ratio = 0;    // the first strategy's median / the median of this strategy
};

// Returns a comparison for each percentage in SimulatedStrategy::within that another strategy reaches in at least half of its
// runs.
std::vector<BestOther> against_best_other(const Simulation& simulation);

// Throws Error{usage} if every point of the space failed or a strategy is unknown.
Simulation simulate(const RecordedSpace& space, const SimulateOptions& options);

}  // namespace autotune::tuner
