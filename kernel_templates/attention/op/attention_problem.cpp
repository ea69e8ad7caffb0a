#include "kernel_templates/attention/op/attention_problem.h"

#include <algorithm>
#include <cmath>

#include "kernel_templates/harness/fill.h"
#include "kernel_templates/request.h"
#include "src/core/error.h"
#include "src/core/integer_math.h"
#include "src/core/statistics/random.h"

namespace autotune::attention {
namespace {

constexpr std::int64_t kMostBlocks = 2147483647;

// Attributes that replace a subproblem's mask: the keys that its first row sees depend on where the subproblem begins.
constexpr const char* kLow = "excerpt_low";
constexpr const char* kHigh = "excerpt_high";

bool is_bottom_right(const Problem& problem) {
    return problem.word("mask").ends_with("bottom_right");
}

// The band of a mask whose diagonal begins at key `diagonal`.
Band band_at(const Problem& problem, std::int64_t diagonal) {
    const std::string& word = problem.word("mask");
    Band band;
    if (word == "none") return band;
    band.has_high = true;
    band.has_low = word.starts_with("window");
    band.high = diagonal + (band.has_low ? problem.integer("right") : 0);
    band.low = band.has_low ? diagonal - problem.integer("left") : 0;
    if (problem.has_attribute(kHigh)) band.high = problem.integer(kHigh);
    if (problem.has_attribute(kLow)) band.low = problem.integer(kLow);
    return band;
}

Band band_of(const Problem& problem, std::int64_t q_len, std::int64_t kv_len) {
    Band band = band_at(problem, is_bottom_right(problem) ? kv_len - q_len : 0);
    if (!band.has_high) return band;
    // Bounds beyond the keys have the same effect as these, and small bounds keep sums small.
    band.high = std::min(band.high, kv_len);
    band.low = band.has_low ? std::max(band.low, -q_len) : 0;
    return band;
}

}  // namespace

std::int64_t Band::first_key(std::int64_t row, std::int64_t kv_len) const {
    return has_low ? std::clamp<std::int64_t>(row + low, 0, kv_len) : 0;
}

std::int64_t Band::end_key(std::int64_t row, std::int64_t kv_len) const {
    return has_high ? std::clamp<std::int64_t>(row + high + 1, 0, kv_len) : kv_len;
}

Strides strides_of(const Tensor& tensor) {
    return {tensor.dims[kBatch].stride, tensor.dims[kHead].stride, tensor.dims[kRow].stride};
}

View::View(const Problem& problem)
    : b(problem.extent("b")),
      q_heads(problem.extent("q_heads")),
      kv_heads(problem.extent("kv_heads")),
      q_len(problem.extent("q_len")),
      kv_len(problem.extent("kv_len")),
      d(problem.extent("d")),
      dv(problem.integer("dv")),
      is_packed(problem.has_attribute("packed")),
      total_q(is_packed ? problem.extent("total_q") : b * q_len),
      total_kv(is_packed ? problem.extent("total_kv") : b * kv_len),
      type(problem.tensors[kQ].dtype),
      element_bytes(static_cast<std::int64_t>(size_bytes(type))),
      is_tf32(problem.word("compute") == "tf32"),
      band(band_of(problem, q_len, kv_len)),
      unaligned(band_at(problem, 0)),
      ends_at_bottom_right(is_bottom_right(problem)),
      has_lse(!problem.tensors[kLse].is_absent) {
    for (std::size_t i = 0; i < strides.size(); ++i) {
        strides[i] = strides_of(problem.tensors[i]);
        align[i] = problem.tensors[i].alignment_bytes;
    }
}

namespace {

std::int64_t offset_at(const View& view, int tensor, std::int64_t b) {
    const FillPlace place{.tensor = tensor, .col = b, .cols = view.b + 1};
    return static_cast<std::int64_t>(fill_value(offsets_fill(view, tensor), DType::i32, place));
}

// The number of pairs for the sequence lengths that tests and timing use.
double packed_pairs(const View& view) {
    double pairs = 0;
    for (std::int64_t b = 0; b < view.b; ++b) {
        View one = view;
        one.is_packed = false;
        one.b = 1;
        one.q_len = offset_at(view, kQOffsets, b + 1) - offset_at(view, kQOffsets, b);
        one.kv_len = offset_at(view, kKvOffsets, b + 1) - offset_at(view, kKvOffsets, b);
        one.band = view.band_of_lengths(one.q_len, one.kv_len);
        pairs += one.visible_pairs();
    }
    return pairs;
}

}  // namespace

Fill offsets_fill(const View& view, int tensor) {
    return tensor == kQOffsets ? Fill::offsets(view.total_q, view.b, view.q_len)
                               : Fill::offsets(view.total_kv, view.b, view.kv_len);
}

Band View::band_of_lengths(std::int64_t queries, std::int64_t keys) const {
    Band result = unaligned;
    const std::int64_t diagonal = ends_at_bottom_right ? keys - queries : 0;
    if (result.has_high) result.high += diagonal;
    if (result.has_low) result.low += diagonal;
    return result;
}

Sequence sequence_of(const View& view, std::span<const std::vector<double>> tensors, std::int64_t b) {
    if (!view.is_packed) return {0, 0, view.q_len, view.kv_len, view.band};
    const auto offset = [&](int tensor, std::int64_t at) {
        return static_cast<std::int64_t>(tensors[static_cast<std::size_t>(tensor)][static_cast<std::size_t>(at)]);
    };
    const std::int64_t first_q = offset(kQOffsets, b), first_kv = offset(kKvOffsets, b);
    const std::int64_t q_len = offset(kQOffsets, b + 1) - first_q, kv_len = offset(kKvOffsets, b + 1) - first_kv;
    return {first_q, first_kv, q_len, kv_len, view.band_of_lengths(q_len, kv_len)};
}

RowPlace place_of(const View& view, std::span<const std::vector<double>> tensors, std::int64_t line) {
    if (!view.is_packed) return {line / view.q_len / view.q_heads, line / view.q_len % view.q_heads, line % view.q_len};
    const auto& offsets = tensors[kQOffsets];
    const auto row = static_cast<double>(line % view.total_q);
    const auto after = std::upper_bound(offsets.begin(), offsets.end(), row);
    const std::int64_t b = after - offsets.begin() - 1;
    return {b, line / view.total_q, line % view.total_q - static_cast<std::int64_t>(*(after - 1))};
}

double View::visible_pairs() const {
    if (is_packed) return packed_pairs(*this);
    const auto heads = static_cast<double>(b * q_heads);
    if (!is_masked()) return heads * static_cast<double>(q_len) * static_cast<double>(kv_len);
    double pairs = 0;
    for (std::int64_t row = 0; row < q_len; ++row)
        pairs += static_cast<double>(std::max<std::int64_t>(band.end_key(row, kv_len) - band.first_key(row, kv_len), 0));
    return heads * pairs;
}

double computed_pairs(const View& view, std::int64_t block_q, std::int64_t block_k) {
    double tiles = 0;
    for (std::int64_t first = 0; first < view.q_len; first += block_q) {
        const std::int64_t last = std::min(first + block_q, view.q_len) - 1;
        const std::int64_t begin = view.band.first_key(first, view.kv_len) / block_k;
        const std::int64_t end = ceil_div(view.band.end_key(last, view.kv_len), block_k);
        tiles += static_cast<double>(std::max<std::int64_t>(end - begin, 0));
    }
    return tiles * static_cast<double>(view.b * view.q_heads * block_q * block_k);
}

std::optional<std::string> refuses_grid(const View& view, std::int64_t block_q) {
    const std::int64_t tiles = ceil_div(view.q_len, block_q);
    if (view.b * view.q_heads <= kMostBlocks / tiles) return std::nullopt;
    return "the queries have more than 2^31 - 1 tiles of " + std::to_string(block_q) + " rows";
}

std::vector<Problem> edge_case_problems(const Problem& problem) {
    constexpr std::int64_t kMostRows = 700, kMostKeys = 1500, kDecodeRows = 64;
    const View view(problem);
    const Spec base = spec_of(problem);
    std::vector<Problem> neighbours;
    const auto add = [&](std::int64_t q_len, std::int64_t kv_len, bool gaps) {
        Spec spec = base;
        spec.b = std::min<std::int64_t>(view.b, 2);
        spec.kv_heads = std::min<std::int64_t>(view.kv_heads, 2);
        spec.q_heads = *spec.kv_heads * view.group();
        spec.q_len = std::max<std::int64_t>(q_len, 1);
        spec.kv_len = std::max<std::int64_t>(kv_len, 1);
        if (view.is_packed) {
            spec.b = 5;
            spec.total_q = 3 * spec.q_len + 1;
            spec.total_kv = 3 * *spec.kv_len + 1;
        }
        if (gaps) {
            const std::int64_t row = 2 * std::max(view.d, view.dv), heads = std::max(spec.q_heads, *spec.kv_heads);
            const std::int64_t length = std::max({spec.q_len, *spec.kv_len, spec.total_q.value_or(0), spec.total_kv.value_or(0)});
            spec.strides.fill(spec.is_bshd ? Strides{length * heads * row, row, heads * row}
                                           : Strides{length * heads * row, length * row, row});
        }
        neighbours.push_back(make_problem(spec));
    };
    const std::int64_t keys = std::min(view.kv_len, kMostKeys);
    if (view.is_packed) add(1, 1, false);            // includes a case in which some sequences have no rows
    if (view.q_len * view.group() <= kDecodeRows) {  // families for few rows refuse problems with more rows
        for (const std::int64_t kv_len : {std::int64_t{1}, std::int64_t{63}, std::int64_t{257}, keys + 1}) {
            add(view.q_len, kv_len, false);
        }
        add(view.q_len, keys, true);
    } else {
        const std::int64_t rows = std::min(view.q_len, kMostRows);
        add(rows + 1, keys + 1, false);
        add(rows, keys - 1, true);
        add(65, 129, false);
        add(255, 77, false);
        add(1, 300, false);
        add(190, 1, false);
    }
    std::erase_if(neighbours, [&](const Problem& near) { return near.class_key() != problem.class_key(); });
    return neighbours;
}

namespace {

Subproblem rows_of(const Problem& problem, std::int64_t b, std::int64_t kv_head, std::int64_t first) {
    constexpr std::int64_t kRows = 16;
    const View view(problem);
    const std::int64_t count = std::min(kRows, view.q_len - first);
    const std::int64_t head = kv_head * view.group();
    const auto at = [&](int tensor, std::int64_t h, std::int64_t row) {
        const Strides& strides = view.strides[static_cast<std::size_t>(tensor)];
        return b * strides.batch + h * strides.head + row * strides.row;
    };
    Subproblem part{problem,
                    {at(kQ, head, first), at(kK, kv_head, 0), at(kV, kv_head, 0), at(kO, head, first),
                     view.has_lse ? (b * view.q_heads + head) * view.q_len + first : 0}};
    part.problem.set_extent("b", 1);
    part.problem.set_extent("q_heads", 1);
    part.problem.set_extent("kv_heads", 1);
    part.problem.set_extent("q_len", count);
    for (Tensor& tensor : part.problem.tensors) {
        if (tensor.is_absent) continue;
        tensor.dims[kBatch].extent = tensor.dims[kHead].extent = 1;
        if (tensor.name == "q" || tensor.name == "o" || tensor.name == "lse") tensor.dims[kRow].extent = count;
    }
    if (view.band.has_low) part.problem.attributes.push_back({kLow, view.band.low + first});
    if (view.band.has_high) part.problem.attributes.push_back({kHigh, view.band.high + first});
    return part;
}

// One head of queries, of all sequences.
Subproblem head_of(const Problem& problem, std::int64_t head) {
    const View view(problem);
    const auto at = [&](int tensor, std::int64_t of) { return of * view.strides[static_cast<std::size_t>(tensor)].head; };
    const std::int64_t kv_head = head / view.group();
    Subproblem part{problem,
                    {at(kQ, head), at(kK, kv_head), at(kV, kv_head), at(kO, head), view.has_lse ? head * view.total_q : 0, 0, 0}};
    part.problem.set_extent("q_heads", 1);
    part.problem.set_extent("kv_heads", 1);
    for (Tensor& tensor : part.problem.tensors)
        if (!tensor.is_absent && tensor.dims.size() > 1) tensor.dims[kHead].extent = 1;
    return part;
}

}  // namespace

std::vector<Subproblem> subproblems(const Problem& problem, std::uint64_t seed) {
    constexpr int kRandomParts = 24;
    const View view(problem);
    Random random(seed);
    const auto below = [&](std::int64_t count) {
        return static_cast<std::int64_t>(random.below(static_cast<std::size_t>(count)));
    };
    if (view.is_packed) return {head_of(problem, 0), head_of(problem, below(view.q_heads)), head_of(problem, view.q_heads - 1)};
    std::vector<Subproblem> parts = {rows_of(problem, 0, 0, 0),
                                     rows_of(problem, view.b - 1, view.kv_heads - 1, std::max<std::int64_t>(view.q_len - 16, 0)),
                                     rows_of(problem, view.b / 2, view.kv_heads / 2, view.q_len / 2 / 128 * 128)};
    for (int i = 0; i < kRandomParts; ++i)
        parts.push_back(rows_of(problem, below(view.b), below(view.kv_heads), below(view.q_len)));
    return parts;
}

std::vector<Binding> facts(const Problem& problem) {
    const View view(problem);
    return {{"element_type", view.type},
            {"tf32", std::int64_t{view.is_tf32}},
            {"d", view.d},
            {"dv", view.dv},
            {"has_low", std::int64_t{view.band.has_low}},
            {"has_high", std::int64_t{view.band.has_high}},
            {"align_q", view.align[kQ]},
            {"align_k", view.align[kK]},
            {"align_v", view.align[kV]},
            {"align_o", view.align[kO]}};
}

namespace {

I32Arg i32(std::int64_t value) {
    return {narrow<std::int32_t>(value)};
}

}  // namespace

std::vector<Argument> packing_arguments(const View& view) {
    return {TensorArg{kQOffsets}, TensorArg{kKvOffsets}, i32(view.total_q), i32(view.total_kv),
            I32Arg{view.ends_at_bottom_right}};
}

std::vector<Binding> facts_with_packing(const Problem& problem) {
    std::vector<Binding> all = facts(problem);
    all.push_back({"packed", std::int64_t{View(problem).is_packed}});
    return all;
}

std::vector<Argument> arguments(const Problem& problem) {
    const View view(problem);
    const Band& band = view.is_packed ? view.unaligned : view.band;
    std::vector<Argument> all = {TensorArg{kQ},     TensorArg{kK}, TensorArg{kV},     TensorArg{kO},     TensorArg{kLse},
                                 ScalarArg{kScale}, i32(view.b),   i32(view.q_heads), i32(view.group()), i32(view.q_len),
                                 i32(view.kv_len),  i32(band.low), i32(band.high)};
    for (const Strides& strides : view.strides) {
        for (const std::int64_t stride : {strides.batch, strides.head, strides.row}) all.push_back(I64Arg{stride});
    }
    if (view.is_packed) {
        const std::vector<Argument> packing = packing_arguments(view);
        all.insert(all.end(), packing.begin(), packing.end());
    }
    return all;
}

}  // namespace autotune::attention
