#include "kernel_templates/gemm/wgmma/launch.h"

#include <algorithm>
#include <array>

#include "kernel_templates/gemm/op/gemm_problem.h"
#include "kernel_templates/gemm/shared/hopper_rules.h"
#include "src/core/integer_math.h"

namespace autotune::wgmma {

using gemm::i32;
using std::int64_t;

namespace {

struct Workspace {
    std::size_t counters = 0, partial = 0, packed_a = 0, packed_b = 0, bytes = 0, zero_bytes = 0;
};

Workspace workspace_of(const Problem& problem, const ResolvedConfig& s, const Grid& grid) {
    gemm::WorkspaceLayout layout;
    Workspace w;
    if (grid.parts != 1) {
        if (s.reduce_kernel == 0) {
            const int64_t counters = grid.tiles * s.cluster_blocks() * s.groups_per_tile();
            w.counters = layout.take(counters * 4);
            w.zero_bytes = static_cast<std::size_t>(counters) * 4;
        }
        const int64_t slots = s.cluster_blocks() * (grid.parts == 0 ? 2 * grid.clusters : grid.tiles * grid.parts);
        w.partial = layout.take(slots * s.block_m * s.block_n * s.sum_bytes);
    }
    const TypedMatrix a = matrix_view(problem.tensors[gemm::kA]);
    const TypedMatrix b = matrix_view(problem.tensors[gemm::kB]);
    if (a.alignment_bytes < 16) w.packed_a = layout.take(gemm::packed_bytes(a));
    if (b.alignment_bytes < 16) w.packed_b = layout.take(gemm::packed_bytes(b));
    w.bytes = layout.bytes();
    return w;
}

// The tensor map of a stored operand, or of its packed copy if its rows are not aligned.
TensorMapArg map_of(const TypedMatrix& o, int index, std::size_t packed, std::array<int64_t, 2> box) {
    return o.alignment_bytes < 16 ? gemm::packed_tile_map(o, packed, box) : gemm::tile_map(o, index, box);
}

// The box of one TMA load, for a tile that `shares` blocks load together. K-major boxes are a span along K by a share of the
// tile's rows, MN-major boxes a span along M or N by a share of block_k.
std::array<int64_t, 2> box_of(const ResolvedConfig& s, bool k_major, int64_t extent, int64_t shares) {
    return k_major ? std::array<int64_t, 2>{s.widest_span(), extent / shares}
                   : std::array<int64_t, 2>{s.span(extent), s.block_k / shares};
}

// Blocks fetch at most this much into L2 before their turn, because a short previous kernel leaves little time. More would take
// bandwidth from a previous kernel that reads weights, and L2 would not keep it until the turn.
constexpr int64_t kEarlyBytes = 8 << 20;

int64_t early_steps(const ResolvedConfig& s, const Grid& grid) {
    if (s.in_bytes != 2) return s.prefetch_steps;
    const int64_t rows = s.cluster_m * s.block_m + s.cluster_n * s.block_n;
    const int64_t step_bytes = grid.clusters * s.cluster_k * rows * s.step_bytes();
    return std::min(s.prefetch_steps, std::max<int64_t>(1, kEarlyBytes / step_bytes));
}

LaunchStep main_step(const Problem& problem, const ResolvedConfig& s, const Grid& grid, const Workspace& w,
                     const Device& device) {
    const Gemm g(problem);
    const std::array<TypedMatrix, 3> o = gemm::matrices(problem);
    const bool swap = s.swap_ab != 0;
    const auto map_a = [&](int64_t extent, int64_t shares) {
        return map_of(o[0], 0, w.packed_a, box_of(s, !g.trans_a, extent, shares));
    };
    const auto map_b = [&](int64_t extent, int64_t shares) {
        return map_of(o[1], 1, w.packed_b, box_of(s, g.trans_b, extent, shares));
    };
    const TensorMapArg map_x = swap ? map_b(s.block_m, s.cluster_n) : map_a(s.block_m, s.cluster_n);
    TensorMapArg map_c = map_x;  // unused without tma_store
    if (s.tma_store != 0 && swap) map_c = map_of(o[2], 2, 0, {64, s.span_c()});
    if (s.tma_store != 0 && !swap) map_c = map_of(o[2], 2, 0, {s.span_c(), 64 * s.bands()});
    const int64_t blocks = grid.clusters * s.cluster_blocks();
    LaunchStep step;
    step.grid = {narrow<std::uint32_t>(blocks), 1, 1};
    step.block = {narrow<std::uint32_t>(s.threads()), 1, 1};
    step.cluster = {narrow<std::uint32_t>(s.cluster_blocks()), 1, 1};
    step.dynamic_smem_bytes = static_cast<std::size_t>(s.smem_bytes(s.stages));
    step.programmatic_dependent = s.pdl != 0;
    step.arguments = {map_x,
                      swap ? map_a(s.block_n, s.cluster_m) : map_b(s.block_n, s.cluster_m),
                      map_c,
                      TensorArg{2},
                      ScalarArg{0},
                      ScalarArg{1},
                      i32(g.m),
                      i32(g.n),
                      i32(g.k),
                      I64Arg{o[2].ld},
                      i32(g.batch),
                      I64Arg{o[2].batch_stride},
                      WorkspaceArg{w.counters},
                      WorkspaceArg{w.partial},
                      i32(s.stages),
                      i32(grid.count_m),
                      i32(grid.count_n),
                      i32(grid.whole),
                      i32(s.group),
                      i32(s.raster),
                      i32(grid.parts),
                      i32(s.evict_first),
                      i32(early_steps(s, grid)),
                      i32(s.prefetch_all != 0 ? device.identity.sm_count - blocks : 0)};
    return step;
}

// The second kernel: 128 threads for every two quads of a consumer warpgroup's sums.
LaunchStep reduce_step(const Problem& problem, const ResolvedConfig& s, const Grid& grid, const Workspace& w) {
    const Gemm g(problem);
    const TypedMatrix c = matrix_view(problem.tensors[gemm::kC]);
    const int64_t pairs_of_quads = s.bands() * s.block_n / 16;
    LaunchStep step;
    step.entry = "_reduce";
    step.grid = {narrow<std::uint32_t>(grid.tiles * s.sharing_blocks() * s.groups_per_tile() * pairs_of_quads), 1, 1};
    step.block = {128, 1, 1};
    step.programmatic_dependent = s.pdl != 0;
    step.arguments = {TensorArg{gemm::kC},
                      ScalarArg{0},
                      ScalarArg{1},
                      i32(g.m),
                      i32(g.n),
                      I64Arg{c.ld},
                      i32(g.batch),
                      I64Arg{c.batch_stride},
                      WorkspaceArg{w.partial},
                      i32(grid.count_m),
                      i32(grid.count_n),
                      i32(s.group),
                      i32(s.raster),
                      i32(grid.parts)};
    return step;
}

}  // namespace

LaunchPlan plan(const Problem& problem, const ResolvedConfig& s, const Device& device) {
    const Gemm g(problem);
    LaunchPlan plan;
    if (g.m == 0 || g.n == 0 || g.k == 0 || g.batch == 0) return plan;
    const Grid grid(g, s, device);
    const Workspace w = workspace_of(problem, s, grid);
    plan.workspace_bytes = w.bytes;
    plan.workspace_zero_bytes = w.zero_bytes;
    if (g.align_a < 16) plan.steps.push_back(gemm::pack_step(matrix_view(problem.tensors[gemm::kA]), gemm::kA, w.packed_a));
    if (g.align_b < 16) plan.steps.push_back(gemm::pack_step(matrix_view(problem.tensors[gemm::kB]), gemm::kB, w.packed_b));
    plan.steps.push_back(main_step(problem, s, grid, w, device));
    if (s.reduce_kernel != 0) plan.steps.push_back(reduce_step(problem, s, grid, w));
    return plan;
}

}  // namespace autotune::wgmma
