#pragma once

#include <string>

#include "tuner/fixture/problem_fixture.h"

namespace autotune::tuner {

struct RepeatabilityOptions {
    int most_runs = 1000;  // one that is wrong once in a hundred runs passes with a probability of 4e-5
    int least_runs = 20;
    double seconds = 0.25;  // at which a long kernel stops, if it has its least runs
};

// Runs something again and again on the exact test's input, whose answer has the same bits in whatever order it is summed, and
// compares each answer with the first by checksum. Empty if all were alike, else which run was not, in one sentence. A kernel
// that is wrong now and then passes a verification of three runs; a winner will run for years. Throws DriverError.
std::string check_same_bits(Harness& harness, ProblemFixture& fixture, Runnable& runnable,
                            const RepeatabilityOptions& options = {});

// What a winner is asked. Adds in no order may give other bits even of exact sums, where each is scaled before it is added: of a
// runnable that does not promise its bits each of a few more runs is judged by itself then. Empty if nothing is wrong.
std::string check_repeatability(Harness& harness, ProblemFixture& fixture, Runnable& runnable);

}  // namespace autotune::tuner
