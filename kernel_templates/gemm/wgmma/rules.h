#pragma once

#include <cstdint>
#include <vector>

#include "kernel_templates/gemm/wgmma/geometry.h"
#include "src/core/space/search_space.h"

// The rules of all families that feed wgmma through a ring and have persistent blocks: which configs are legal for a problem.
namespace autotune::wgmma {

// Whether reading the one large operand limits the time.
bool has_few_rows(const Gemm& g);
// Whether TMA can store the rows of C.
bool tma_can_store(const Gemm& g);
// The number of stages of the deepest ring that fits with the config's other shared memory; at least 2.
std::int64_t deepest_ring(const ResolvedConfig& shape, const Device& device);

std::vector<Constraint> rules(const Gemm& g, const Device& device);
// The rules of overlap_epilogue: K is not divided, and there are enough steps during which a tile can be stored.
std::vector<Constraint> whole_tile_rules(const Gemm& g, const Device& device);

}  // namespace autotune::wgmma
