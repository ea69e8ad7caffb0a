#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kernel_templates/gemm/shared/family_parts.h"
#include "src/core/family/launch_plan.h"
#include "src/core/space/config.h"
#include "src/core/space/search_space.h"

// Host code of the families that feed wgmma by TMA: TMA's view of an operand, and rules for clusters. Each family has its own
// ResolvedConfig.
namespace autotune::gemm {

// Why A, B and C as stored cannot have tensor maps; nullopt if they can. Operands that are first copied into rows of whole chunks
// may have any layout.
std::optional<std::string> refuses_maps(const Problem& problem);

// The tensor map of a stored matrix with boxes of box[0] neighbouring elements (a swizzle span) by box[1] rows.
TensorMapArg tile_map(const TypedMatrix& stored, int index, std::array<std::int64_t, 2> box);
// The tensor map of the packed copy of an operand, at an offset of the workspace.
TensorMapArg packed_tile_map(const TypedMatrix& stored, std::size_t offset_bytes, std::array<std::int64_t, 2> box);

// Makes constraints from predicates on the resolved config.
template <class ResolvedConfig>
auto rules_on(const Gemm& g) {
    return [g](auto holds) -> std::function<bool(const Config&)> {
        return [g, holds = std::move(holds)](const Config& c) { return holds(ResolvedConfig(c, g)); };
    };
}

template <class ResolvedConfig>
Constraint cluster_rule(const Gemm& g) {
    return {"a cluster has more than 8 blocks, or both shares tiles and divides K",
            {"cluster_m", "cluster_n", "cluster_k"},
            rules_on<ResolvedConfig>(g)([](const ResolvedConfig& s) {
                return s.sharing_blocks() <= 8 && (s.cluster_k == 1 || s.sharing_blocks() == 1);
            })};
}

template <class ResolvedConfig>
Constraint swizzle_share_rule(const Gemm& g) {
    return {"a block's share of a tile is not whole swizzle patterns",
            {"block_m", "block_n", "block_k", "cluster_m", "cluster_n", "swap_ab"},
            rules_on<ResolvedConfig>(g)([g](const ResolvedConfig& s) {
                // If the operand is stored along M or N, blocks share its rows, which are along K.
                const bool x_k_major = s.swap_ab != 0 ? g.trans_b : !g.trans_a;
                const bool y_k_major = s.swap_ab != 0 ? !g.trans_a : g.trans_b;
                return (x_k_major ? s.block_m : s.block_k) % (8 * s.cluster_n) == 0 &&
                       (y_k_major ? s.block_n : s.block_k) % (8 * s.cluster_m) == 0;
            })};
}

}  // namespace autotune::gemm
