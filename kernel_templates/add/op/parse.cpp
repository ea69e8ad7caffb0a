#include <algorithm>
#include <array>

#include "kernel_templates/add/op/add_problem.h"
#include "kernel_templates/request.h"
#include "src/core/error.h"

namespace autotune::add {
namespace {

// Parses "N" or "SxK". S contiguous rows of K are S*K elements, so both spellings name one problem.
std::int64_t parse_length(const std::string& shape) {
    if (shape.find('x') == std::string::npos) return parse_shape(shape, "N", {0, kLongest}).extents[0];
    const std::vector<std::int64_t> extents = parse_shape(shape, "SxK", {0, kLongest}).extents;
    std::int64_t length = 0;
    if (__builtin_mul_overflow(extents[0], extents[1], &length) || length > kLongest) {
        refuse("shape '" + shape + "' has more than 2^40 elements; make it smaller");
    }
    return length;
}

Tensor make_tensor(const char* name, Access access, const Spec& spec, int alignment_bytes) {
    Tensor tensor;
    tensor.name = name;
    tensor.dtype = spec.type;
    tensor.access = access;
    tensor.dims = {{spec.length, 1}};
    tensor.alignment_bytes = alignment_bytes;
    return tensor;
}

// The number of elements of a description's tensor, whose dimensions must be contiguous.
std::int64_t described_length(const TensorDescription& tensor) {
    std::int64_t length = 1;
    if (std::any_of(tensor.dims.begin(), tensor.dims.end(), [](const Dim& dim) { return dim.extent == 0; })) return 0;
    for (std::size_t i = tensor.dims.size(); i-- > 0;) {
        const Dim& dim = tensor.dims[i];
        if (dim.extent != 1 && dim.stride != length)
            refuse("tensor " + tensor.name + " has gaps or is not row-major; add takes contiguous tensors");
        if (__builtin_mul_overflow(length, dim.extent, &length) || length > kLongest)
            refuse("tensor " + tensor.name + " has more than 2^40 elements; make it smaller");
    }
    return length;
}

// A family's tile: elements that a block processes at once.
std::int64_t tile_of(const View& view, const Config& config) {
    if (const auto bytes = config.find("tile_bytes")) return *bytes / view.element_bytes;
    return config.find("threads").value_or(256) * config.find("vec").value_or(1) * config.find("unroll").value_or(1);
}

}  // namespace

Problem make_problem(const Spec& spec) {
    const auto& [a, b, c] = spec.alignments;
    Problem problem;
    problem.op = "add";
    problem.extents = {{"n", spec.length}};
    problem.tensors = {make_tensor("a", Access::in, spec, a), make_tensor("b", Access::in, spec, b),
                       make_tensor("c", Access::out, spec, c)};
    problem.attributes = {{"dtype", std::string(to_string(spec.type))},
                          {"align", std::to_string(a) + "," + std::to_string(b) + "," + std::to_string(c)}};
    return problem;
}

Problem parse(const Op& op, const ProblemRequest& request) {
    const RequestOptions options(op, request);
    if (request.shape.find('*') != std::string::npos) {
        refuse("shape '" + request.shape + "': add has no batch; give all elements as one length, N or SxK");
    }
    Spec spec;
    spec.length = parse_length(request.shape);
    const std::string word = options.word("dtype", "f32");
    const std::optional<DType> type = parse_dtype(word);
    check(type.has_value(), "add allows the unknown type '" + word + "'");
    spec.type = *type;
    const std::vector<int> alignments = parse_alignments(options, size_bytes(*type), {"a", "b", "c"});
    std::copy(alignments.begin(), alignments.end(), spec.alignments.begin());
    return make_problem(spec);
}

DescribedProblem described(const Op& op, const ProblemDescription& description) {
    const DescribedTensors tensors(op, description);
    Spec spec;
    spec.type = tensors.at("a").dtype;
    spec.length = described_length(tensors.at("a"));
    if (spec.type != DType::f32 && spec.type != DType::f16 && spec.type != DType::bf16)
        refuse("tensor a is " + std::string(to_string(spec.type)) + "; add takes f32, f16 and bf16");
    const std::array<const char*, 3> names = {"a", "b", "c"};
    for (std::size_t i = 0; i < names.size(); ++i) {
        const TensorDescription& tensor = tensors.at(names[i]);
        const std::string what = "tensor " + tensor.name;
        if (tensor.dtype != spec.type)
            refuse(what + " is " + std::string(to_string(tensor.dtype)) + " but a is " + std::string(to_string(spec.type)) +
                   "; add wants one type for all");
        const std::int64_t length = described_length(tensor);
        if (length != spec.length)
            refuse(what + " has " + std::to_string(length) + " elements but a has " + std::to_string(spec.length));
        spec.alignments[i] = tensor.alignment_bytes;
    }
    return {make_problem(spec), {kA, kB, kC}};
}

std::vector<Problem> edge_case_problems(const Op& op, const Problem& problem, const Config& config) {
    const std::int64_t tile = tile_of(View(problem), config);
    constexpr std::int64_t kManyTiles = 2000;  // a grid-stride loop processes fewer tiles than this in one round
    std::vector<Problem> neighbours;
    const std::array<std::int64_t, 7> lengths = {1, 7, tile - 1, tile, tile + 1, 3 * tile + 17, kManyTiles * tile + 5};
    for (const std::int64_t length : lengths) {
        ProblemRequest request{problem.op, std::to_string(length), {}};
        for (const Attribute& attribute : problem.attributes) request.options[attribute.name] = to_string(attribute.value);
        neighbours.push_back(op.problem(request));
    }
    return neighbours;
}

}  // namespace autotune::add
