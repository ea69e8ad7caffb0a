#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/family.h"
#include "src/core/launch_plan.h"
#include "src/core/problem.h"

namespace autotune {

// A problem as people write it: `--op hgemm --shape 4096x4096x2048 --layout nt`.
struct ProblemRequest {
    std::string op;                              // an op's name or one of its aliases
    std::string shape;                           // "4096x4096x2048"
    std::map<std::string, std::string> options;  // by OpOption::name; traits of a class key are options too
};

// One option of an op, from which the command line and its messages are made. `allowed` empty: `form` says what is taken.
struct OpOption {
    std::string name;                  // "layout"
    std::vector<std::string> allowed;  // {"nn", "nt", "tn", "tt"}
    std::string form;                  // "integer >= 1", "power of two <= 16, one or one per operand"
    std::string about;
};

struct OpAlias {
    std::string name;  // "hgemm"
    std::map<std::string, std::string> presets;
};

// How an operand is filled before a test. Values depend on (seed, operand, row, col, batch) alone, so host and device agree.
struct Fill {
    enum class Kind { normal, integers, nan };  // N(0,1) rounded to the type; uniform in {-2..2}; all NaN
    Kind kind = Kind::normal;
    // Keeps the elements where (row + col) % every == 0 and zeroes the rest; 1 keeps all.
    std::int64_t every = 1;
};

enum class TestKind { exact, numeric };

// How one operand's answer is judged against the reference.
struct Check {
    int operand = 0;            // the operand that the op writes
    std::vector<Fill> fills;    // one per operand
    double max_norm_ratio = 0;  // bound on ||out - expected|| / ||expected||; 0: not asked
};

// A part of a problem's answer as a problem of its own, on the same arrays: operand i begins at element first[i] of the whole's.
struct Excerpt {
    Problem problem;
    std::vector<std::int64_t> first;
};

// An answer that is a matrix product of integers: out = product_factor * left * right + out_factor * out. Operands that are
// stored transposed say so. Filled as told, every sum is exact in any order and in the output's type, so that Freivalds' check
// (1977) holds without a tolerance.
struct ProductForm {
    int left = 0, right = 1, out = 2;
    bool left_transposed = false, right_transposed = false;
    std::int64_t product_factor = 1, out_factor = 0;
    std::vector<Fill> fills = {};  // one per operand
};

// What an op computes, costs and tolerates. Stateless, pure, thread-safe, like Family.
class Op {
  public:
    virtual ~Op() = default;

    virtual std::string_view name() const = 0;
    virtual std::string_view about() const = 0;
    virtual std::string_view shape_form() const = 0;  // "MxNxK"; "N|SxK": either, the longer one last
    virtual std::vector<OpAlias> aliases() const = 0;
    virtual std::vector<OpOption> options() const = 0;
    // Requests that show the op at work, the plainest first: help texts print them, conformance tests run every family on them.
    virtual std::vector<ProblemRequest> examples() const { return {}; }

    // Throws Error{usage}: one sentence that names the culprit and what is allowed.
    // Round trip: problem({p.op, p.shape(), traits and "align" of p as options}).key() == p.key() for every p made here.
    virtual Problem problem(const ProblemRequest& request) const = 0;

    // Floating-point operations, and the fewest bytes that device memory must move.
    virtual double flops(const Problem& problem) const = 0;
    virtual double bytes(const Problem& problem) const = 0;
    // What tables show for speed: "tflops" for compute-bound ops, "gb_per_s" for bandwidth-bound ones.
    virtual std::string_view rate_unit() const = 0;

    virtual Check check(const Problem& problem, TestKind kind) const = 0;

    // The reference kernel: facts for <op>/reference.cuh, and a plan whose ExpectedArg and BoundArg buffers receive the exact
    // answer and the allowed absolute error (0 everywhere for TestKind::exact), both f64 and dense.
    virtual std::vector<Binding> reference_facts(const Problem& problem) const = 0;
    virtual LaunchPlan reference_plan(const Problem& problem, TestKind kind) const = 0;

    // Where the whole reference costs too much: parts that cost little and touch the first, the last, tile-edge and random rows
    // and columns. Empty: the op has none.
    virtual std::vector<Excerpt> excerpts(const Problem&, std::uint64_t /*seed*/) const { return {}; }
    // nullopt: the answer is no product, or its scalars are no integers.
    virtual std::optional<ProductForm> product_form(const Problem&) const { return std::nullopt; }

    // The same on the host in double, for small shapes: operands as values in stored order (span() elements each).
    virtual void reference_on_host(const Problem& problem, TestKind kind, std::span<const std::vector<double>> operands,
                                   std::vector<double>& expected, std::vector<double>& bound) const = 0;

    // Problems near this one on which a winner is verified too: extents one below and above `config`'s tile, tails in every
    // extent, padded rows, NaN in an output that must not be read.
    virtual std::vector<Problem> awkward_neighbours(const Problem& problem, const Config& config) const = 0;
};

}  // namespace autotune
