#pragma once

#include <string>
#include <vector>

#include "src/core/statistics/trial.h"
#include "tuner/fixture/problem_fixture.h"

namespace autotune::tuner {

// The result of the tests of something that was run.
struct Verification {
    bool right = true;
    bool intact = true;             // false if it wrote outside its outputs, so that the data on the device cannot be used again
    std::string detail;             // the first thing that was wrong, in one sentence
    double max_error = 0;           // the largest |error| / allowed error in the typical test
    double accumulation_error = 0;  // the error without that of rounding the output, as a share of the bound for accumulation
    std::vector<double> sample_values;  // the first and last element of the first output
};

// Runs every test of the op on every part whose right values are known. Checks: each output within its bounds, and bit for bit
// where they are 0; the product check if there is one; no element unwritten, red zones intact, inputs unchanged; and the same
// bits again unless atomics are declared. Throws DriverError. REQUIRES: the fixture has its right values.
Verification verify_on_device(Harness& harness, ProblemFixture& fixture, Runnable& runnable);

// Judges only one output in one test: empty if right. Pure.
std::string judge(const OpTest& test, const OutputCheck& output, const Tensor& out, const CompareResult& comparison);

}  // namespace autotune::tuner
