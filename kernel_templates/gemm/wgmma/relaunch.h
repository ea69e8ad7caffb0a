#pragma once

#include "kernel_templates/gemm/shared/family_parts.h"
#include "src/core/family/family.h"
#include "src/core/problem/device.h"
#include "src/core/space/config.h"

namespace autotune::wgmma {

// The launch parameters that are predicted fastest for a problem (Family::relauncher): ring, parts of K, order of tiles, and what
// is fetched early. Legal where the compile parameters are.
Relaunched relaunched(const Config& from, const gemm::Gemm& g, const Device& device);

}  // namespace autotune::wgmma
