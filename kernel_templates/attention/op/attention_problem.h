#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernel_templates/attention/device/mask.cuh"
#include "kernel_templates/named_configs.h"
#include "src/core/family/family.h"
#include "src/core/family/launch_plan.h"
#include "src/core/integer_math.h"
#include "src/core/op/fill.h"
#include "src/core/op/op.h"
#include "src/core/problem/problem.h"

namespace autotune {
class DescribedTensors;
}

namespace autotune::attention {

// Tensor and scalar indices of every attention problem. Only packed problems have the last two tensors.
enum TensorIndex : int { kQ = 0, kK = 1, kV = 2, kO = 3, kLse = 4, kQOffsets = 5, kKvOffsets = 6 };
enum ScalarIndex : int { kScale = 0 };
// Dimensions of q, k, v and o.
enum DimIndex : int { kBatch = 0, kHead = 1, kRow = 2, kColumn = 3 };

inline constexpr std::int64_t kMostHeadSize = 256;
inline constexpr std::int64_t kHeadSizeStep = 8;
// Sequences and distances of a window are shorter, so that kernels can add two of them in 32 bits.
inline constexpr std::int64_t kMostLength = (std::int64_t{1} << 30) - 1;

// Query i sees the keys from i + low to i + high. A mask may lack either bound.
struct Band {
    bool has_low = false, has_high = false;
    std::int64_t low = 0, high = 0;

    std::int64_t first_key(std::int64_t row, std::int64_t kv_len) const;
    std::int64_t end_key(std::int64_t row, std::int64_t kv_len) const;
};

// Elements from one batch, head and row to the next; the columns of a row are contiguous.
struct Strides {
    std::int64_t batch = 0, head = 0, row = 0;
};
Strides strides_of(const Tensor& tensor);

// An attention problem's properties by name.
struct View {
    explicit View(const Problem& problem);

    std::int64_t b, q_heads, kv_heads, q_len, kv_len, d, dv;  // for packed sequences the lengths of the longest
    bool is_packed;                                           // sequences lie one after the other in the rows of a tensor
    std::int64_t total_q, total_kv;                           // the rows of all sequences of a head
    DType type;
    std::int64_t element_bytes;
    bool is_tf32;               // f32 elements, multiplied in tf32
    Band band;                  // for packed sequences computed from the longest lengths
    Band unaligned;             // the same band with a diagonal that begins at key 0
    bool ends_at_bottom_right;  // the last query sees the last key
    bool has_lse;
    std::array<Strides, 4> strides;  // q, k, v, o
    std::array<int, 4> align;        // power of two that divides the address and length of every row, in bytes

    std::int64_t group() const { return q_heads / kv_heads; }  // the query heads that share keys and values
    std::int64_t rows() const { return q_heads * total_q; }    // the rows of all heads and batches
    Band band_of_lengths(std::int64_t queries, std::int64_t keys) const;
    bool is_masked() const { return band.has_low || band.has_high; }
    // Pairs of a query and a key that it sees, over all batches and heads.
    double visible_pairs() const;
};

// Describes an attention problem; all forms of input are converted to it.
struct Spec {
    std::int64_t b = 1, q_heads = 1, q_len = 1, d = 0;
    std::optional<std::int64_t> kv_heads, kv_len, dv;  // nullopt means as many or as long as those of the queries
    bool is_packed = false;
    // For packed sequences; nullopt: half the rows of `b` sequences of the longest length
    std::optional<std::int64_t> total_q, total_kv;
    DType type = DType::bf16;
    bool is_tf32 = false;
    std::string mask = "none";
    std::optional<std::int64_t> left, right;  // limits of a window
    bool has_lse = false;
    std::optional<double> scale;  // 1 / sqrt(d) otherwise
    bool is_bshd = false;         // layout of tensors without explicit strides: rows outside heads
    std::array<std::optional<Strides>, 4> strides = {};
    std::array<int, 4> align = {16, 16, 16, 16};  // bytes, of the base addresses
};

// The words that the attribute "mask" may have.
std::vector<std::string> mask_words();

// The attributes in a description of the op or of its gradients, and the options in a request for attention.
std::vector<OpOption> shared_options();
std::vector<OpOption> all_options();

// All throw Error{usage}.
Problem make_problem(const Spec& spec);
Problem parse(const Op& op, const ProblemRequest& request);
Spec parse_spec(const Op& op, const ProblemRequest& request);
Spec described_spec(const DescribedTensors& tensors);
DescribedProblem described(const Op& op, const ProblemDescription& description);
// The spec that makes `problem` again, except that strides become dense.
Spec spec_of(const Problem& problem);

// Parts that the op of the gradients uses too: strides and extents of a described tensor, the largest common alignment of the
// base address and of every row's begin and end, and refusals of invalid values.
Strides given_strides(const DescribedTensors& tensors, const char* name);
void check_extents(const DescribedTensors& tensors, const char* name, const std::vector<std::int64_t>& wanted);
int row_alignment(int base, const Tensor& tensor);
void check_no_overlap(const Tensor& tensor);  // `tensor`: an output whose size was checked

// The rows of a sequence in its tensors, its length, and what its queries see. An unpacked batch is one sequence.
struct Sequence {
    std::int64_t first_q = 0, first_kv = 0, q_len = 0, kv_len = 0;
    Band band;
};
// From the values of the offsets; `tensors` as in OpOracle::reference_on_host.
Sequence sequence_of(const View& view, std::span<const std::vector<double>> tensors, std::int64_t b);
// The position of an output row, from its number in the logical order.
struct RowPlace {
    std::int64_t b = 0, head = 0, row = 0;  // row: within its sequence
};
RowPlace place_of(const View& view, std::span<const std::vector<double>> tensors, std::int64_t line);
// The fill of the offsets of queries or keys in tests and timing.
Fill offsets_fill(const View& view, int tensor);

// Problems of the same class with similar lengths and strides.
std::vector<Problem> edge_case_problems(const Problem& problem);
// Some rows of some heads, each with all the keys that it sees.
std::vector<Subproblem> subproblems(const Problem& problem, std::uint64_t seed);

// ---- correctness (tests.cpp) ----

std::vector<OpTest> tests(const Problem& problem);

// The largest allowed error. With the weights w_j = e^(x_j - max x) of a row's keys, x_j = scale q k_j, their sum l, and R the
// largest scale sum |q||k_j| of the row:
//   of o: sum_j (w_j * (weight + per_product * R + per_exponent * max|x|) + least_weight) |v_j| / l + output * |o| + least
//   of lse: per_product * R + per_exponent * max|x| + lse * (1 + |lse|)
struct Bounds {
    double weight = 0, per_product = 0, per_exponent = 0, least_weight = 0, output = 0, least = 0, lse = 0;
};
Bounds bounds_of(const View& view, const OpTest& test);
// The arguments that pass the bounds to a reference kernel.
std::vector<Argument> bound_arguments(const Bounds& bounds);

// The softmax weights of a row's keys, computed on the host in f64. Empty if the row sees no key, or only keys with a score of
// -inf.
struct RowWeights {
    std::int64_t first = 0;       // key of weights[0]
    std::vector<double> weights;  // e^(x_j - peak)
    double peak = 0, sum = 0;     // the largest x, and the sum of the weights
    double largest_product = 0;   // R
    double largest_exponent = 0;  // max |x|
    double lse() const;
};
// `tensors` has values in stored order, as in OpOracle::reference_on_host.
RowWeights weights_of(const View& view, double scale, std::span<const std::vector<double>> tensors, std::int64_t b,
                      std::int64_t head, std::int64_t row);

// ---- for families ----

// The facts that the families of attention and of its gradients bind: element_type, tf32, d, dv, has_low, has_high, align_q,
// align_k, align_v, align_o. facts_with_packing() adds `packed`, for families that accept packed sequences.
std::vector<Binding> facts(const Problem& problem);
std::vector<Binding> facts_with_packing(const Problem& problem);
// The first arguments of every attention kernel (attention/device/call.cuh): q, k, v, o, lse, scale, sizes, mask, strides; for
// packed sequences also offsets, their rows and whether masks end at the bottom right.
std::vector<Argument> arguments(const Problem& problem);

// The arguments that packed sequences append to those of arguments().
std::vector<Argument> packing_arguments(const View& view);

// Scores that a tiled kernel computes: those of every tile in which some row sees a key, over all heads.
double computed_pairs(const View& view, std::int64_t block_q, std::int64_t block_k);

// Every family refuses a problem with more tiles of `block_q` rows than a grid has blocks.
std::optional<std::string> refuses_grid(const View& view, std::int64_t block_q);

using autotune::ceil_div;
using autotune::round_up;

}  // namespace autotune::attention
