#pragma once

#include <string>
#include <vector>

#include "src/core/statistics/trial.h"
#include "tuner/fixture/problem_fixture.h"

namespace autotune::tuner {

// What the tests said of something that was run.
struct Verification {
    bool right = true;
    bool intact = true;                 // false: it wrote where it must not, and what lies on the device serves nobody else
    std::string detail;                 // the first thing that was wrong, in one sentence
    double max_error = 0;               // of the typical test: largest |error| / allowed error
    double accumulation_error = 0;      // the same of what rounding the output does not explain, of what the bound leaves for it
    std::vector<double> sample_values;  // first and last element of the first output
};

// Runs every test of the op on every part whose answer is known: each output within its bounds, bit for bit where they are 0, the
// product check where there is one; no element unwritten, red zones whole, inputs untouched, and the same bits again unless
// atomics are declared. Throws DriverError. REQUIRES: the fixture has its right answers.
Verification verify_on_device(Harness& harness, ProblemFixture& fixture, Runnable& runnable);

// The judgement of one output in one test alone: empty if right. Pure.
std::string judge(const OpTest& test, const OutputCheck& output, const Tensor& out, const CompareResult& comparison);

}  // namespace autotune::tuner
