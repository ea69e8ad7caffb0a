#include <algorithm>
#include <array>

#include "kernel_templates/gemm/op/gemm_problem.h"
#include "kernel_templates/gemm/shared/f32_parts.h"
#include "src/core/integer_math.h"

namespace autotune::gemm {
namespace {

struct Tile {
    std::int64_t m, n, k, stages;
};

// Families call their tile block_m, block_n, block_k. For a family without these names, extents around a usual tile are used.
Tile tile_of(const Config& config) {
    return {config.find("block_m").value_or(64), config.find("block_n").value_or(64), config.find("block_k").value_or(32),
            config.find("stages").value_or(2)};
}

struct Extents {
    std::int64_t m, n, k;
    std::int64_t batch = 1;
    std::int64_t padding = 0;  // the padding of a row, in units of 16 bytes
};

// A problem of the same class with other extents. Rows that would break its alignment are padded, so that the same instance can
// run it.
Problem at_extents(const Op& op, const Problem& problem, const Extents& extents) {
    const View view(problem);
    ProblemRequest request;
    request.op = problem.op;
    request.shape = std::to_string(extents.m) + "x" + std::to_string(extents.n) + "x" + std::to_string(extents.k);
    request.options["batch"] = std::to_string(extents.batch);
    for (const Attribute& attribute : problem.attributes) request.options[attribute.name] = to_string(attribute.value);
    const std::array<std::int64_t, 3> columns = {view.trans_a ? extents.m : extents.k, view.trans_b ? extents.k : extents.n,
                                                 extents.n};
    for (std::size_t i = 0; i < columns.size(); ++i) {
        const auto size = static_cast<std::int64_t>(size_bytes(problem.tensors[i].dtype));
        const std::int64_t ld = round_up(columns[i], problem.tensors[i].alignment_bytes / size) + extents.padding * 16 / size;
        request.options["ld" + problem.tensors[i].name] = std::to_string(ld);
    }
    Problem neighbour = op.problem(request);
    neighbour.scalars = problem.scalars;
    return neighbour;
}

}  // namespace

std::vector<Problem> edge_case_problems(const Op& op, const Problem& problem, const Config& config) {
    const Tile tile = tile_of(config);
    const std::int64_t pipeline = tile.k * tile.stages;
    const std::array<Extents, 7> wanted = {{
        {tile.m - 1, tile.n - 1, tile.k - 1},
        {tile.m + 1, tile.n + 1, tile.k + 1},
        {2 * tile.m + 1, tile.n - 1, pipeline + 1},
        {tile.m - 1, 2 * tile.n + 1, 3 * pipeline + tile.k - 1},
        {tile.m + 8, tile.n + 8, pipeline + tile.k, 1, 3},
        {tile.m, tile.n, tile.k + 8, 2, 1},
        {1, 1, 1},
    }};
    // Other families compute tf32x3 if the sum is short.
    const bool is_split = problem.word("compute") == kTf32x3 && View(problem).k >= kLeastSplitK;
    std::vector<Problem> neighbours;
    for (Extents extents : wanted) {
        extents.m = std::max<std::int64_t>(extents.m, 1);
        extents.n = std::max<std::int64_t>(extents.n, 1);
        extents.k = std::max<std::int64_t>(extents.k, 1) + (is_split ? kLeastSplitK : 0);
        neighbours.push_back(at_extents(op, problem, extents));
    }
    return neighbours;
}

}  // namespace autotune::gemm
