#pragma once

#include "kernel_templates/gemm/family_parts.h"
#include "src/core/config.h"
#include "src/core/device.h"
#include "src/core/family.h"

namespace autotune::wgmma {

// The launch parameters that are predicted fastest for a problem (Family::relauncher): ring, parts of K, order of tiles, and what
// is fetched early. Legal where the compile parameters are.
Relaunched relaunched(const Config& from, const gemm::Gemm& g, const Device& device);

}  // namespace autotune::wgmma
