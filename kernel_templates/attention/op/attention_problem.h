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

// Tensor and scalar indices of every attention problem.
// The last two are of packed problems alone.
enum TensorIndex : int { kQ = 0, kK = 1, kV = 2, kO = 3, kLse = 4, kQOffsets = 5, kKvOffsets = 6 };
enum ScalarIndex : int { kScale = 0 };
// Dimensions of q, k, v and o.
enum DimIndex : int { kBatch = 0, kHead = 1, kRow = 2, kColumn = 3 };

inline constexpr std::int64_t kMostHeadSize = 256;
inline constexpr std::int64_t kHeadSizeStep = 8;
// Sequences and distances of a window are shorter, so that kernels add two of them in 32 bits.
inline constexpr std::int64_t kMostLength = (std::int64_t{1} << 30) - 1;

// Query i sees the keys from i + low to i + high. Not every mask has both bounds.
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

// An attention problem's facts under names.
struct View {
    explicit View(const Problem& problem);

    std::int64_t b, q_heads, kv_heads, q_len, kv_len, d, dv;  // lengths: of the longest sequence, where they are packed
    bool is_packed;                                           // sequences lie one after the other in the rows of a tensor
    std::int64_t total_q, total_kv;                           // rows of all sequences of a head
    DType type;
    std::int64_t element_bytes;
    bool is_tf32;               // f32 elements, multiplied in tf32
    Band band;                  // where sequences are packed, its diagonal is that of the longest lengths
    Band unaligned;             // the same band with a diagonal that begins at key 0
    bool ends_at_bottom_right;  // the last query sees the last key
    bool has_lse;
    std::array<Strides, 4> strides;  // q, k, v, o
    std::array<int, 4> align;        // bytes that divide every row's begin and length

    std::int64_t group() const { return q_heads / kv_heads; }  // query heads that share keys and values
    std::int64_t rows() const { return q_heads * total_q; }    // rows of all heads and batches
    Band band_of_lengths(std::int64_t queries, std::int64_t keys) const;
    bool is_masked() const { return band.has_low || band.has_high; }
    // (query, key) pairs that the mask lets see each other, over all batches and heads.
    double visible_pairs() const;
};

// What makes an attention problem, however it was said.
struct Spec {
    std::int64_t b = 1, q_heads = 1, q_len = 1, d = 0;
    std::optional<std::int64_t> kv_heads, kv_len, dv;  // none: as the queries' heads, length, size
    bool is_packed = false;
    std::optional<std::int64_t> total_q, total_kv;  // for packed sequences; none: half of what `b` longest ones have
    DType type = DType::bf16;
    bool is_tf32 = false;
    std::string mask = "none";
    std::optional<std::int64_t> left, right;  // limits of a window
    bool has_lse = false;
    std::optional<double> scale;  // 1 / sqrt(d) otherwise
    bool is_bshd = false;         // layout of tensors without strides of their own: rows outside heads
    std::array<std::optional<Strides>, 4> strides = {};
    std::array<int, 4> align = {16, 16, 16, 16};  // bytes, of the base addresses
};

// The words of the attribute "mask".
std::vector<std::string> mask_words();

// What a description of the op or of its gradients may have as attributes, and what a request for attention may have as options.
std::vector<OpOption> shared_options();
std::vector<OpOption> all_options();

// All throw Error{usage}.
Problem make_problem(const Spec& spec);
Problem parse(const Op& op, const ProblemRequest& request);
Spec parse_spec(const Op& op, const ProblemRequest& request);
Spec described_spec(const DescribedTensors& tensors);
DescribedProblem described(const Op& op, const ProblemDescription& description);
// The spec that gives `problem` again but for the strides, which become dense.
Spec spec_of(const Problem& problem);

// Parts of the above, which the op of the gradients shares. Strides and extents of a described tensor, the largest alignment that
// the base address, every row's begin and every row's end share, and refusals of what does not fit.
Strides given_strides(const DescribedTensors& tensors, const char* name);
void check_extents(const DescribedTensors& tensors, const char* name, const std::vector<std::int64_t>& wanted);
int row_alignment(int base, const Tensor& tensor);
void check_no_overlap(const Tensor& tensor);  // `tensor`: an output whose size was checked

// Where a sequence lies in its tensors' rows, how long it is, and what its queries see: of an unpacked batch all of it.
struct Sequence {
    std::int64_t first_q = 0, first_kv = 0, q_len = 0, kv_len = 0;
    Band band;
};
// By the values of the offsets, `tensors` as OpOracle::reference_on_host has them.
Sequence sequence_of(const View& view, std::span<const std::vector<double>> tensors, std::int64_t b);
// Of a row of the output, by its number in the logical order.
struct RowPlace {
    std::int64_t b = 0, head = 0, row = 0;  // row: of its sequence
};
RowPlace place_of(const View& view, std::span<const std::vector<double>> tensors, std::int64_t line);
// How tests and timing fill the offsets of queries or keys.
Fill offsets_fill(const View& view, int tensor);

// Lengths and strides around those of `problem`, in its class.
std::vector<Problem> edge_case_problems(const Problem& problem);
// Some rows of some heads, each with all the keys that it sees.
std::vector<Subproblem> subproblems(const Problem& problem, std::uint64_t seed);

// ---- what is right (tests.cpp) ----

std::vector<OpTest> tests(const Problem& problem);

// How far an answer may be from the right one. With the weights w_j = e^(x_j - max x) of a row's keys, x_j = scale q k_j, their
// sum l, and R the largest scale sum |q||k_j| of the row:
//   o by sum_j (w_j * (weight + per_product * R + per_exponent * max|x|) + least_weight) |v_j| / l + output * |o| + least
//   lse by per_product * R + per_exponent * max|x| + lse * (1 + |lse|)
struct Bounds {
    double weight = 0, per_product = 0, per_exponent = 0, least_weight = 0, output = 0, least = 0, lse = 0;
};
Bounds bounds_of(const View& view, const OpTest& test);
// The arguments that say them to a reference kernel.
std::vector<Argument> bound_arguments(const Bounds& bounds);

// What a row weighs its keys with, on the host in f64. Empty if it sees none, or none that is not -inf.
struct RowWeights {
    std::int64_t first = 0;       // key of weights[0]
    std::vector<double> weights;  // e^(x_j - peak)
    double peak = 0, sum = 0;     // largest x; sum of the weights
    double largest_product = 0;   // R
    double largest_exponent = 0;  // max |x|
    double lse() const;
};
// `tensors`: values in stored order, as OpOracle::reference_on_host has them.
RowWeights weights_of(const View& view, double scale, std::span<const std::vector<double>> tensors, std::int64_t b,
                      std::int64_t head, std::int64_t row);

// ---- for families ----

// The facts that the families of attention and of its gradients bind: element_type, tf32, d, dv, has_low, has_high, align_q,
// align_k, align_v, align_o. And those and `packed`, for families that take packed sequences.
std::vector<Binding> facts(const Problem& problem);
std::vector<Binding> facts_with_packing(const Problem& problem);
// The arguments with which every attention kernel's list begins (attention/device/call.cuh): q, k, v, o, lse, scale, sizes, mask,
// strides, and of packed sequences offsets, their rows and whether masks end at the bottom right.
std::vector<Argument> arguments(const Problem& problem);

// What packed sequences add to those, at their end.
std::vector<Argument> packing_arguments(const View& view);

// Scores that a kernel computes if it works in tiles: those of every tile that a row of it sees a key of, over all heads.
double computed_pairs(const View& view, std::int64_t block_q, std::int64_t block_k);

// What every family refuses: more tiles of `block_q` rows than a grid has blocks.
std::optional<std::string> refuses_grid(const View& view, std::int64_t block_q);

using autotune::ceil_div;
using autotune::round_up;

}  // namespace autotune::attention
