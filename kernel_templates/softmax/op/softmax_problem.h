#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include "kernel_templates/named_configs.h"
#include "src/core/family/family.h"
#include "src/core/family/launch_plan.h"
#include "src/core/integer_math.h"
#include "src/core/op/op.h"
#include "src/core/problem/problem.h"

namespace autotune::softmax {

// Tensor indices of every softmax problem.
enum TensorIndex : int { kX = 0, kY = 1, kLse = 2 };

// The longest row. Sums of more weights would lose too much accuracy in f32.
inline constexpr std::int64_t kMostCols = std::int64_t{1} << 20;

// The properties of a softmax problem by name.
struct View {
    explicit View(const Problem& problem);

    std::int64_t rows, cols;
    std::int64_t ldx, ldy;  // the distance from one row to the next, in elements
    DType type;
    std::int64_t element_bytes;
    int align_x, align_y;  // bytes, which also divide a row's length
    bool has_lse;
    float scale;

    double row_bytes() const { return static_cast<double>(cols * element_bytes); }
    // The fewest bytes that a call can move: x read, y and lse written.
    double moved_bytes() const;
};

// Describes a softmax problem. Words and tensor descriptions are both converted to it.
struct Spec {
    std::int64_t rows = 0, cols = 0;
    std::optional<std::int64_t> ldx, ldy;  // distance from one row to the next; none: dense; 0: one row of x for all
    DType type = DType::bf16;
    int align_x = 16, align_y = 16;  // bytes, of the base addresses
    bool has_lse = false;
    double scale = 1;
};

// These three functions throw Error{usage}.
Problem make_problem(const Spec& spec);
Problem parse(const Op& op, const ProblemRequest& request);
DescribedProblem described(const Op& op, const ProblemDescription& description);

// Problems of the same class with rows and lengths around those of `problem`.
std::vector<Problem> edge_case_problems(const Problem& problem);

// ---- correctness (tests.cpp) ----

std::vector<OpTest> tests(const Problem& problem);

// The allowed errors: of y, value * (relative + per_exponent * |scale x - peak|) + least; of lse, lse * (1 + |peak|), with the
// peak of scale x over the row.
struct Bounds {
    double relative = 0, per_exponent = 0, least = 0, lse = 0;
};
Bounds bounds_of(const View& view, const OpTest& test);
// Appends a row's results to y, and one to lse.
void reference_row(std::span<const double> x, double scale, const Bounds& bounds, Expected& y, Expected& lse);

// The facts that every softmax family binds: element_type, align_x, align_y (bytes), negative, has_lse.
std::vector<Binding> facts(const Problem& problem);
// The first arguments of every softmax kernel: x, y, lse, rows, cols, ldx, ldy, magnitude.
std::vector<Argument> arguments(const Problem& problem);

// ---- for families ----

constexpr std::int64_t kMostGridX = 2147483647;

// Clusters of a launch for `tiles` of rows, if `resident_blocks` blocks fit on an SM. With 0 waves each tile has a cluster;
// otherwise there are as many as fill the GPU that many times.
std::int64_t clusters_of(const Config& config, std::int64_t tiles, std::int64_t resident_blocks, const Device& device);
// The launch step of every softmax kernel: its shape from the config, and arguments().
LaunchStep step_of(const Problem& problem, const Config& config, std::int64_t clusters);

// clang-format off
#define SOFTMAX_LOAD_HINT_PARAMETER(ROW) \
    ROW(load_hint, 0, compile, "0 none, 1 x is read once: no allocation in L1, or L2 evict first", 0, 1)
#define SOFTMAX_STORE_HINT_PARAMETER(ROW) \
    ROW(store_hint, 0, compile, "0 none, 1 streaming (.cs, or L2 evict first for bulk copies)", 0, 1)
#define SOFTMAX_PDL_PARAMETER(ROW) \
    ROW(pdl, 0, launch, "1: programmatic dependent launch: blocks start while the kernel before ends", 0, 1)
#define SOFTMAX_CLUSTER_PARAMETER(ROW) \
    ROW(cluster_blocks, 1, compile, "blocks of a cluster that share a row", 1, 2, 4, 8)
// clang-format on
std::vector<Constraint> shared_constraints(const Device& device);

// The traffic of a launch, from which its time is predicted.
struct Traffic {
    std::int64_t blocks = 1;
    std::int64_t resident_blocks = 1;  // on one SM
    double block_bytes = 0;            // bytes that a block requests before it waits
    double reads = 1;                  // times that x is read, from memory or L2
    double weights = 2;                // exponentials an element
    double instructions = 12;          // instructions for each element
    double steps_us = 0;               // a block's waits for barriers and shuffles, not for memory
    double rounds = 1;                 // rounds of requests that a block makes one after the other
    double imbalance = 0;              // share of the time by which a persistent grid's blocks end at different times
    bool starts_early = false;         // by programmatic dependent launch
};
// For ranking only.
double predict_us(const View& view, const Traffic& traffic, const Device& device);

using autotune::ceil_div;

}  // namespace autotune::softmax
