#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "kernel_templates/gemm/op/gemm_problem.h"
#include "kernel_templates/gemm/shared/family_parts.h"
#include "kernel_templates/parameter_table.h"
#include "src/core/space/search_space.h"

// Functions that accept any resolved config whose members have these names.
namespace autotune::gemm {

template <class ResolvedConfig>
BlockOrder order_of(const ResolvedConfig& s) {
    return {s.block_m, s.block_n, s.raster, s.swizzle_stride};
}

// Number of blocks for one part of K.
template <class ResolvedConfig>
std::int64_t tiles(const Gemm& g, const ResolvedConfig& s) {
    return ceil_div(g.m, s.block_m) * ceil_div(g.n, s.block_n) * g.batch;
}

// The k of each part.
template <class ResolvedConfig>
std::int64_t k_per_split(const Gemm& g, const ResolvedConfig& s) {
    return round_up(ceil_div(g.k, s.split_k), s.block_k);
}

template <class ResolvedConfig>
Constraint panel_rule(const Gemm& g) {
    return {"a panel is narrower than two tiles, or no narrower than C",
            {"block_m", "block_n", "raster", "swizzle_stride"},
            rules_by<ResolvedConfig>()([g](const ResolvedConfig& s) { return order_of(s).is_proper(g); })};
}

template <class ResolvedConfig>
Constraint warp_aspect_rule() {
    return {"a warp's tile is more than 4 times as long as wide",
            {"block_m", "block_n", "warps_m", "warps_n"},
            rules_by<ResolvedConfig>()(
                [](const ResolvedConfig& s) { return s.warp_m() <= 4 * s.warp_n() && s.warp_n() <= 4 * s.warp_m(); })};
}

// The plan of a kernel with a block for each tile, from the standard arguments and the order of tiles.
template <class ResolvedConfig>
LaunchPlan tile_plan(const Problem& problem, const ResolvedConfig& s, std::int64_t dynamic_smem_bytes) {
    const Gemm g(problem);
    LaunchPlan plan;
    if (g.m == 0 || g.n == 0 || g.batch == 0) return plan;
    LaunchStep step;
    step.grid = one_dimension(tiles(g, s));
    step.block = one_dimension(s.threads());
    step.dynamic_smem_bytes = static_cast<std::size_t>(dynamic_smem_bytes);
    step.arguments = arguments(problem);
    step.arguments.emplace_back(i32(s.raster));
    step.arguments.emplace_back(i32(order_of(s).group(g)));
    plan.steps.push_back(std::move(step));
    return plan;
}

}  // namespace autotune::gemm
