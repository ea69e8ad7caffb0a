#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "kernel_templates/gemm/family_parts.h"
#include "kernel_templates/gemm/gemm_problem.h"
#include "src/core/search_space.h"

// What follows from a family's Shape, whatever else it has, where its members have these names.
namespace autotune::gemm {

template <class Shape>
BlockOrder order_of(const Shape& s) {
    return {s.block_m, s.block_n, s.raster, s.swizzle_stride};
}

// Blocks of one part of K.
template <class Shape>
std::int64_t tiles(const Gemm& g, const Shape& s) {
    return ceil_div(g.m, s.block_m) * ceil_div(g.n, s.block_n) * g.batch;
}

// How much of K a part is.
template <class Shape>
std::int64_t k_per_split(const Gemm& g, const Shape& s) {
    return round_up(ceil_div(g.k, s.split_k), s.block_k);
}

// Makes rules of what is asked of a config's Shape, which `shape_of` resolves.
template <class Shape>
constexpr auto rules_by(Shape (*shape_of)(const Config&)) {
    return [shape_of](auto holds) -> std::function<bool(const Config&)> {
        return [shape_of, holds = std::move(holds)](const Config& c) { return holds(shape_of(c)); };
    };
}

template <class Shape>
Constraint panel_rule(const Gemm& g, Shape (*shape_of)(const Config&)) {
    return {"a panel is narrower than two tiles, or no narrower than C",
            {"block_m", "block_n", "raster", "swizzle_stride"},
            rules_by(shape_of)([g](const Shape& s) { return order_of(s).is_proper(g); })};
}

template <class Shape>
Constraint warp_aspect_rule(Shape (*shape_of)(const Config&)) {
    return {"a warp's tile is more than 4 times as long as wide",
            {"block_m", "block_n", "warps_m", "warps_n"},
            rules_by(shape_of)([](const Shape& s) { return s.warp_m() <= 4 * s.warp_n() && s.warp_n() <= 4 * s.warp_m(); })};
}

// The plan of a kernel with a block for each tile, given the standard arguments and the order of tiles.
template <class Shape>
LaunchPlan tile_plan(const Problem& problem, const Shape& s, std::int64_t dynamic_smem_bytes) {
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
