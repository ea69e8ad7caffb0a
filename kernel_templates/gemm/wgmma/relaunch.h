#pragma once

#include "kernel_templates/gemm/shared/family_parts.h"
#include "src/core/family/family.h"
#include "src/core/problem/device.h"
#include "src/core/space/config.h"

namespace autotune::wgmma {

// The launch parameters with the least predicted time for a problem (Family::relauncher): ring, parts of K, order of tiles, and
// what is fetched early. The result is legal if the compile parameters are legal.
Relaunched relaunched(const Config& from, const gemm::Gemm& g, const Device& device);

}  // namespace autotune::wgmma
