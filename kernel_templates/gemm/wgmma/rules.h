#pragma once

#include <cstdint>
#include <vector>

#include "kernel_templates/gemm/wgmma/geometry.h"
#include "src/core/space/search_space.h"

// The rules of every family that feeds wgmma through a ring and walks over tiles: which configs are legal on a problem.
namespace autotune::wgmma {

// Whether reading the one large operand bounds the problem.
bool has_few_rows(const Gemm& g);
// Whether C has rows that a TMA store takes.
bool tma_can_store(const Gemm& g);
// The most stages of a ring that fits beside the shape's other shared memory; at least 2.
std::int64_t deepest_ring(const ResolvedConfig& shape, const Device& device);

std::vector<Constraint> rules(const Gemm& g, const Device& device);
// The rules of overlap_epilogue, for families that have it: K is not divided, and there are steps under which a tile leaves.
std::vector<Constraint> whole_tile_rules(const Gemm& g, const Device& device);

}  // namespace autotune::wgmma
