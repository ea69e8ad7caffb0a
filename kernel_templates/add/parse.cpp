#include <algorithm>
#include <array>

#include "kernel_templates/add/add_problem.h"
#include "kernel_templates/request.h"
#include "src/core/error.h"

namespace autotune::add {
namespace {

// What the database keeps of an extent.
constexpr std::int64_t kLongest = std::int64_t{1} << 40;

// "N", or "SxK": S contiguous rows of K are S*K elements, so both spellings name one problem.
std::int64_t parse_length(const std::string& shape) {
    if (shape.find('x') == std::string::npos) return parse_shape(shape, "N", {0, kLongest}).extents[0];
    const std::vector<std::int64_t> extents = parse_shape(shape, "SxK", {0, kLongest}).extents;
    std::int64_t length = 0;
    if (__builtin_mul_overflow(extents[0], extents[1], &length) || length > kLongest) {
        refuse("shape '" + shape + "' has more than 2^40 elements; make it smaller");
    }
    return length;
}

Operand make_operand(const std::string& name, Access access, DType type, std::int64_t length) {
    Operand operand;
    operand.name = name;
    operand.dtype = type;
    operand.access = access;
    operand.rows = 1;
    operand.cols = length;
    operand.ld = length;
    operand.batch_stride = length;
    return operand;
}

// A family's tile: elements that a block takes at once.
std::int64_t tile_of(const View& view, const Config& config) {
    if (const auto bytes = config.find("tile_bytes")) return *bytes / view.element_bytes;
    return config.find("threads").value_or(256) * config.find("vec").value_or(1) * config.find("unroll").value_or(1);
}

}  // namespace

Problem make_problem(const Op& op, const ProblemRequest& request) {
    const RequestOptions options(op, request);
    if (request.shape.find('*') != std::string::npos) {
        refuse("shape '" + request.shape + "': add has no batch; give all elements as one length, N or SxK");
    }
    const std::int64_t length = parse_length(request.shape);
    const std::string word = options.word("dtype", "f32");
    const std::optional<DType> type = parse_dtype(word);
    check(type.has_value(), "add allows the unknown type '" + word + "'");
    const std::array<int, 3> alignments = parse_alignments(options, size_bytes(*type));

    Problem problem;
    problem.op = op.name();
    problem.extents = {{"n", length}};
    problem.operands = {make_operand("a", Access::in, *type, length), make_operand("b", Access::in, *type, length),
                        make_operand("c", Access::out, *type, length)};
    std::string align;
    for (std::size_t i = 0; i < alignments.size(); ++i) {
        problem.operands[i].alignment_bytes = alignments[i];
        align += (i == 0 ? "" : ",") + std::to_string(alignments[i]);
    }
    problem.traits = {{"dtype", word}, {"align", align}};
    return problem;
}

std::vector<Problem> awkward_neighbours(const Op& op, const Problem& problem, const Config& config) {
    const std::int64_t tile = tile_of(View(problem), config);
    constexpr std::int64_t kManyTiles = 2000;  // more than a grid-stride loop takes in one round
    std::vector<Problem> neighbours;
    const std::array<std::int64_t, 7> lengths = {1, 7, tile - 1, tile, tile + 1, 3 * tile + 17, kManyTiles * tile + 5};
    for (const std::int64_t length : lengths) {
        ProblemRequest request{problem.op, std::to_string(length), {}};
        for (const Trait& trait : problem.traits) request.options[trait.name] = trait.value;
        neighbours.push_back(op.problem(request));
    }
    return neighbours;
}

}  // namespace autotune::add
