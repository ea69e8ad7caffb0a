#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kernel_templates/attention/op/attention_problem.h"

// The gradients of attention. The first five tensors are attention's, so that attention::View reads both.
namespace autotune::attention_bwd {

using attention::ceil_div;
using attention::round_up;

enum TensorIndex : int { kQ = 0, kK = 1, kV = 2, kO = 3, kLse = 4, kDo = 5, kDq = 6, kDk = 7, kDv = 8 };
inline constexpr std::array<const char*, 9> kNames = {"q", "k", "v", "o", "lse", "do", "dq", "dk", "dv"};

struct View : attention::View {
    explicit View(const Problem& problem);

    attention::Strides do_strides, dq_strides, dk_strides, dv_strides;
    int align_do, align_dq, align_dk, align_dv;
    bool is_deterministic;  // the same input must give the same bits
};

// The additions of the backward pass to attention's own spec.
struct Spec {
    attention::Spec forward;
    std::array<std::optional<attention::Strides>, 4> strides = {};  // do, dq, dk, dv
    std::array<int, 4> align = {16, 16, 16, 16};
    bool is_deterministic = true;
};

// All throw Error{usage}.
Problem make_problem(const Spec& spec);
Problem parse(const Op& op, const ProblemRequest& request);
DescribedProblem described(const Op& op, const ProblemDescription& description);
std::vector<Problem> edge_case_problems(const Problem& problem);
std::vector<Subproblem> subproblems(const Problem& problem);

std::vector<OpTest> tests(const Problem& problem);

// The largest allowed errors of gradients. With p = e^(x - lse), x = scale q k, s = dp - delta, dp = do v, delta = do o, and e =
// exponent * (|x| + |lse|) + product * scale sum |q||k|:
//   of p: p * (weight + e)
//   of p s: p * ((weight + e) |s| + product * (sum |do||v| + sum |do||o|))
//   of a gradient: the sums of these with their factors, and output * |gradient| + least.
struct Bounds {
    double weight = 0, product = 0, exponent = 0, output = 0, least = 0;
};
Bounds bounds_of(const View& view, const OpTest& test);

std::vector<Expected> reference_on_host(const Problem& problem, const OpTest& test, std::span<const std::vector<double>> tensors);

// ---- for families ----

// The facts that every family binds: attention's, and align_do, align_dq, align_dk, align_dv.
std::vector<Binding> facts(const Problem& problem);
// The first arguments of every kernel (attention_bwd/device/bwd_call.cuh).
std::vector<Argument> arguments(const Problem& problem);

}  // namespace autotune::attention_bwd
