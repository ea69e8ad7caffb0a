#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/family/family.h"
#include "src/core/family/launch_plan.h"
#include "src/core/op/fill.h"
#include "src/core/problem/problem.h"
#include "src/core/space/config.h"

namespace autotune {

// An answer that is a matrix product of integers: out = product_factor * left * right + out_factor * out. A tensor that is stored
// transposed has its flag set. With these fills every sum is exact in any order and in the output's type, so that Freivalds'
// check (1977) needs no tolerance.
struct ProductForm {
    int left = 0, right = 1, out = 2;  // tensors that are matrices (matrix_view)
    bool left_transposed = false, right_transposed = false;
    std::int64_t product_factor = 1, out_factor = 0;
    std::vector<Fill> fills = {};  // one per tensor
};

// How one output is checked against the reference: each element against its bound, and the output as a whole.
struct OutputCheck {
    int tensor = 0;             // index into Problem::tensors
    double max_norm_ratio = 0;  // a bound on ||out - expected|| / ||expected||; 0 means not checked
};

// One test of an op: what the tensors hold, and how each output is checked. Expected values and bounds come from the reference;
// an element with a bound of 0 must have the bits of its expected value rounded once to the type.
struct OpTest {
    std::string name;                  // one word, unique among the op's tests, such as "exact" or "numeric"
    std::vector<Fill> fills;           // one per tensor
    std::vector<OutputCheck> outputs;  // one for every tensor that the problem writes
    // Whether the data are like those of real users. Candidates are timed with these fills, and their largest error is measured
    // in this test. It is run twice to check that the bits are the same. Exactly one test of an op is typical.
    bool is_typical = false;
    // If the reference is computed only for subproblems, the tensors are filled as the product requires and the whole answer is
    // also checked with it.
    std::optional<ProductForm> product = {};
};

// REQUIRES: there is such a test (throws Error{internal} otherwise).
const OpTest& test_named(const std::vector<OpTest>& tests, std::string_view name);
const OpTest& typical_test(const std::vector<OpTest>& tests);

// A part of a problem's answer as a problem of its own, on the same arrays: tensor i begins at element first[i] of the whole
// problem's.
struct Subproblem {
    Problem problem;
    std::vector<std::int64_t> first;
};

// Requirements of an op's data in addition to its fills.
struct DataRules {
    LaunchPlan prepare = {};                // launches of the reference's code that derive tensors from others after each fill
    std::vector<int> reset = {};            // tensors that must be as they were filled before each timed launch
    std::map<int, std::string> files = {};  // .npy files with the content of tensors
    bool may_answer_nan = false;            // the reference's answers may be NaN
};

// The expected values of one output: dense, in the logical order of its elements.
struct Expected {
    std::vector<double> values;
    std::vector<double> bounds;  // allowed absolute errors
};

// The right answers of an op, and how far a candidate may be from them. Stateless, pure, thread-safe.
class OpOracle {
  public:
    virtual ~OpOracle() = default;

    // The tests that every candidate must pass, in the order in which they are run: first the cheap tests that find most
    // mistakes.
    virtual std::vector<OpTest> tests(const Problem& problem) const = 0;

    // The reference kernel: facts for <op>/op/reference.cuh, and a plan whose ExpectedArg and BoundArg buffers receive the right
    // answer and the allowed absolute error of each output of the test. Its workspace is allocated and zeroed like a family's.
    virtual std::vector<Binding> reference_facts(const Problem& problem) const = 0;
    virtual LaunchPlan reference_plan(const Problem& problem, const OpTest& test) const = 0;

    // The reference's answer for each output of the test, computed on the host in double, for small shapes. The tensors are given
    // as values in stored order (span() elements each).
    virtual std::vector<Expected> reference_on_host(const Problem& problem, const OpTest& test,
                                                    std::span<const std::vector<double>> tensors) const = 0;

    // For problems whose whole reference takes too long: parts that take little time and touch the first, the last, tile-edge and
    // random rows and columns. Empty if the op has none.
    virtual std::vector<Subproblem> subproblems(const Problem&, std::uint64_t /*seed*/) const { return {}; }

    virtual DataRules data_rules(const Problem&) const { return {}; }

    // Similar problems on which a winner is also verified: extents one below and above `config`'s tile, tails in every extent,
    // padded rows, NaN in an output that must not be read.
    virtual std::vector<Problem> edge_case_problems(const Problem& problem, const Config& config) const = 0;
};

}  // namespace autotune
