#pragma once

#include <string>

#include "tuner/fixture/problem_fixture.h"

namespace autotune::tuner {

struct RepeatabilityOptions {
    int most_runs = 1000;  // a kernel that is wrong once in a hundred runs passes with a probability of 4e-5
    int least_runs = 20;
    double seconds = 0.25;  // after this time a long kernel is not run again, if it has its least number of runs
};

// Runs something again and again on the exact test's input, whose result has the same bits in any order of summation, and
// compares each result with the first by checksum. Empty if all were equal, else one sentence about the run that was not. A
// kernel that is wrong now and then passes a verification of three runs, but a winner will run for years. Throws DriverError.
std::string check_same_bits(Harness& harness, ProblemFixture& fixture, Runnable& runnable,
                            const RepeatabilityOptions& options = {});

// The check that a winner must pass. If addition has no fixed order and each term is scaled before it is added, even exact sums
// may differ in their bits; so for a runnable that does not promise its bits, each of a few more runs is verified by itself.
// Empty if nothing is wrong.
std::string check_repeatability(Harness& harness, ProblemFixture& fixture, Runnable& runnable);

}  // namespace autotune::tuner
