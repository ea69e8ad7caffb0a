#include <algorithm>
#include <cmath>

#include "kernel_templates/gemm/op/epilogue.h"
#include "kernel_templates/gemm/op/gemm_problem.h"
#include "kernel_templates/gemm/op/scaling.h"
#include "src/core/error.h"
#include "src/core/integer_math.h"
#include "src/core/statistics/random.h"

namespace autotune::gemm {
namespace {

constexpr std::int64_t kBand = 16;
constexpr int kRandomBands = 4;
// These multiples cover the edges of the tiles of all families. Multiples of 256 are multiples of every smaller power of two, and
// multiples of 192 cover the other tiles.
constexpr std::int64_t kTile = 256, kOddTile = 192;
// Dimensions of a stored matrix.
constexpr std::size_t kRows = 1, kCols = 2;

// The first lines of bands: at both ends, on both sides of a tile's edge near the middle, and some at random.
std::vector<std::int64_t> band_starts(std::int64_t extent, Random& random) {
    const std::int64_t last = std::max<std::int64_t>(extent - kBand, 0);
    const std::int64_t middle = extent / 2;
    std::vector<std::int64_t> starts = {0, last, middle / kTile * kTile - kBand / 2, middle / kOddTile * kOddTile - kBand / 2};
    for (int i = 0; i < kRandomBands; ++i)
        starts.push_back(static_cast<std::int64_t>(random.below(static_cast<std::size_t>(last) + 1)));
    for (std::int64_t& start : starts) start = std::clamp<std::int64_t>(start, 0, last);
    std::sort(starts.begin(), starts.end());
    starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
    return starts;
}

// Takes the scales of `count` lines from `start` on, where `lines` lines share one.
void cut_scale(Subproblem& part, int tensor, std::int64_t start, std::int64_t count, std::int64_t lines) {
    const Scaling scaling = scaling_of(part.problem);
    if (scaling == Scaling::none || scaling == Scaling::tensor) return;
    Dim& dim = part.problem.tensors[static_cast<std::size_t>(tensor)].dims[1];
    part.first[static_cast<std::size_t>(tensor)] = start / lines * dim.stride;
    dim.extent = ceil_div(count, lines);
}

// Takes the bias of columns `start` to `start + count`. It drops amax, because the amax of a part is not that of the whole.
void cut_epilogue(Subproblem& part, std::int64_t start, std::int64_t count) {
    if (const std::optional<int> bias = find_tensor(part.problem, kBias)) {
        part.first[static_cast<std::size_t>(*bias)] = start;
        part.problem.tensors[static_cast<std::size_t>(*bias)].dims.front().extent = count;
    }
    for (Attribute& attribute : part.problem.attributes) {
        if (attribute.name == "amax") attribute.value = std::string(kPartialAmax);
    }
}

Subproblem rows_of(const Problem& problem, std::int64_t start) {
    const View view(problem);
    const std::int64_t count = std::min(kBand, view.m - start);
    Subproblem part{problem, {view.trans_a ? start : start * view.a.ld, 0, start * view.c.ld}};
    part.problem.set_extent("m", count);
    part.problem.tensors[kA].dims[view.trans_a ? kCols : kRows].extent = count;
    part.problem.tensors[kC].dims[kRows].extent = count;
    part.first.resize(problem.tensors.size(), 0);
    cut_scale(part, kScaleA, start, count, 1);
    cut_epilogue(part, 0, view.n);
    return part;
}

// A part of the columns. If columns share a scale by blocks, the part begins with a block.
Subproblem columns_of(const Problem& problem, std::int64_t wanted) {
    const View view(problem);
    const std::int64_t block = scaling_of(problem) == Scaling::block ? kScaleBlock : 1;
    const std::int64_t start = wanted / block * block;
    const std::int64_t count = std::min(wanted - start + kBand, view.n - start);
    Subproblem part{problem, {0, view.trans_b ? start * view.b.ld : start, start}};
    part.problem.set_extent("n", count);
    part.problem.tensors[kB].dims[view.trans_b ? kRows : kCols].extent = count;
    part.problem.tensors[kC].dims[kCols].extent = count;
    part.first.resize(problem.tensors.size(), 0);
    cut_scale(part, kScaleB, start, count, block);
    cut_epilogue(part, start, count);
    return part;
}

bool is_small_integer(double value) {
    return value == std::nearbyint(value) && std::fabs(value) <= 2;
}

}  // namespace

std::vector<Subproblem> subproblems(const Problem& problem, std::uint64_t seed) {
    const View view(problem);
    if (view.m == 0 || view.n == 0) return {};
    Random random(seed);
    std::vector<Subproblem> parts;
    for (const std::int64_t start : band_starts(view.m, random)) parts.push_back(rows_of(problem, start));
    for (const std::int64_t start : band_starts(view.n, random)) parts.push_back(columns_of(problem, start));
    return parts;
}

// |alpha| 4 T + 2 |beta| must be exact in the output and in the accumulator, where T is the number of non-zero k of a row of A.
std::optional<ProductForm> product_form(const Problem& problem) {
    const View view(problem);
    const double alpha = problem.scalars[kAlpha].number();
    const double beta = problem.scalars[kBeta].number();
    if (!is_small_integer(alpha) || !is_small_integer(beta) || alpha == 0) return std::nullopt;
    ProductForm form{.left = kA, .right = kB, .out = kC, .left_transposed = view.trans_a, .right_transposed = view.trans_b};
    form.product_factor = std::llround(alpha);
    form.out_factor = view.reads_c ? std::llround(beta) : 0;
    const std::int64_t in_sums = view.fast ? std::int64_t{1} << 14 : exact_integers(view.acc);
    const std::int64_t most = std::min(exact_integers(view.out), in_sums) - 2 * std::llabs(form.out_factor);
    const std::int64_t terms = most / (4 * std::llabs(form.product_factor));
    const std::int64_t every = ceil_div(view.k, terms);
    form.fills = {Fill::integers(-2, 2, std::max<std::int64_t>(every, 1)), Fill::integers(),
                  view.reads_c ? Fill::integers() : Fill::nan()};
    form.fills.resize(problem.tensors.size(), Fill::constant(1));  // the scales are 1
    for (const std::string_view name : {kBias, kAmaxD}) {
        if (const std::optional<int> tensor = find_tensor(problem, name))
            form.fills[static_cast<std::size_t>(*tensor)] = Fill::constant(0);
    }
    return form;
}

}  // namespace autotune::gemm
