#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "src/core/family/family.h"
#include "src/core/family/launch_plan.h"
#include "src/core/integer_math.h"
#include "src/core/op/op.h"
#include "src/core/problem/problem.h"

namespace autotune::add {

// Tensor indices of every add problem.
enum TensorIndex : int { kA = 0, kB = 1, kC = 2 };

// The properties of an add problem by name: c[i] = a[i] + b[i] for i < n.
struct View {
    explicit View(const Problem& problem);

    std::int64_t n;
    DType type;
    std::int64_t element_bytes;
    int align_a, align_b, align_c;  // bytes

    int widest_align() const;
    int narrowest_align() const;
};

// The facts that every add family binds: element_type, align_a, align_b, align_c (bytes).
std::vector<Binding> facts(const Problem& problem);

// The arguments of every add kernel: a, b, c, n.
std::vector<Argument> arguments(const Problem& problem);

// The longest problem, in elements: the largest extent that the database stores.
inline constexpr std::int64_t kLongest = std::int64_t{1} << 40;

// Describes an add problem. Words and tensor descriptions are both converted to it.
struct Spec {
    std::int64_t length = 0;
    DType type = DType::f32;
    std::array<int, 3> alignments = {16, 16, 16};  // bytes, of a, b and c
};

// These three functions throw Error{usage}.
Problem make_problem(const Spec& spec);
Problem parse(const Op& op, const ProblemRequest& request);
DescribedProblem described(const Op& op, const ProblemDescription& description);

// Lengths around `config`'s tile, in the class of `problem`.
std::vector<Problem> edge_case_problems(const Op& op, const Problem& problem, const Config& config);

// The traffic of a launch, from which its time is predicted.
struct Traffic {
    std::int64_t blocks = 1;
    std::int64_t resident_blocks = 1;  // on one SM
    double block_bytes = 0;            // bytes that a block requests before it waits
    double access_bytes = 16;          // size of a thread's loads and stores
    bool starts_early = false;         // starts before the previous kernel ends
    double l1_share = 1;               // the share of an SM's best rate that these accesses reach
};
// The parameter for programmatic dependent launch, which every add family supports, and the condition for it.
#define ADD_PDL_PARAMETER(ROW) \
    ROW(pdl, 0, launch, "1: programmatic dependent launch: blocks start while the kernel before ends", 0, 1)
Constraint pdl_constraint(const Device& device);

// For ranking only.
double predict_us(const View& view, const Traffic& traffic, const Device& device);

using autotune::ceil_div;

}  // namespace autotune::add
