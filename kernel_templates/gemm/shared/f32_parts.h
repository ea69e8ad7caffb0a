#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernel_templates/gemm/shared/family_parts.h"
#include "kernel_templates/gemm/shared/tile_shapes.h"
#include "src/core/family/family.h"

// Host code that the gemm families for f32 operands share.
namespace autotune::gemm {

// The facts of every family without the accumulator's type, which is f32.
std::vector<Binding> f32_facts(const Problem& problem);

// The number of tf32 products per f32 product: 1 for compute tf32, 3 for tf32x3; nullopt for other words.
std::optional<int> tf32_terms(const Problem& problem);

// Sums of fewer tf32x3 products than this are computed on CUDA cores: with so few, truncation in the tensor cores and the omitted
// product exceed SGEMM's rounding errors.
inline constexpr std::int64_t kLeastSplitK = 256;
// Why a kernel that splits operands into tf32 parts cannot do the problem.
std::optional<std::string> refuses_short_sums(const Problem& problem);

// Why a kernel that counts in 32 bits, with tiles of at least this many rows and columns, cannot do the problem.
std::optional<std::string> refuses_large(const Gemm& g, std::int64_t least_rows, std::int64_t least_columns);

// Bytes of split-K's parts in the workspace, which begin at its first byte: part after part, with rows padded to four elements. 0
// without split-K.
std::size_t partial_sums_bytes(const Gemm& g, std::int64_t split_k);
// The step that adds the parts to C (add_parts.cuh).
LaunchStep add_parts_step(const Problem& problem, const Gemm& g, std::int64_t split_k);

// The launch of a kernel with a block for each tile and part of K.
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
