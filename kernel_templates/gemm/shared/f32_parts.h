#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernel_templates/gemm/shared/family_parts.h"
#include "kernel_templates/gemm/shared/tile_shapes.h"
#include "src/core/family/family.h"

// What the families of gemm with f32 operands share on the host.
namespace autotune::gemm {

// Those of every family but the accumulator's type, which is f32.
std::vector<Binding> f32_facts(const Problem& problem);

// How many products of tf32 parts make one of f32: 1 for compute tf32, 3 for tf32x3; nullopt for what is neither.
std::optional<int> tf32_terms(const Problem& problem);

// tf32x3 with sums of fewer products than this is left to CUDA cores: what tensor cores cut off and the split leaves out is more
// there than SGEMM's roundings are.
inline constexpr std::int64_t kLeastSplitK = 256;
// Why a kernel that splits operands into tf32 parts does not do the problem.
std::optional<std::string> refuses_short_sums(const Problem& problem);

// Why a kernel that counts in 32 bits, with tiles of at least so many rows and columns, cannot do the problem.
std::optional<std::string> refuses_large(const Gemm& g, std::int64_t least_rows, std::int64_t least_columns);

// Bytes of the parts of split-K in the workspace, from its first byte on: rows padded to four elements, part after part. 0
// without.
std::size_t partial_sums_bytes(const Gemm& g, std::int64_t split_k);
// The step that makes C of them (add_parts.cuh).
LaunchStep add_parts_step(const Problem& problem, const Gemm& g, std::int64_t split_k);

// What a kernel with a block for each tile and part of K is launched with.
struct SplitLaunch {
    std::int64_t blocks, threads, smem_bytes;
    std::int64_t raster, group;  // the order of tiles
    std::int64_t split_k, k_per_split;
};
LaunchPlan split_plan(const Problem& problem, const SplitLaunch& launch);

template <class ResolvedConfig>
LaunchPlan split_plan(const Problem& problem, const ResolvedConfig& s, std::int64_t smem_bytes) {
    const Gemm g(problem);
    return split_plan(problem, SplitLaunch{tiles(g, s) * s.split_k, s.threads(), smem_bytes, s.raster, order_of(s).group(g),
                                           s.split_k, k_per_split(g, s)});
}

}  // namespace autotune::gemm
