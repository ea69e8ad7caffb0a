#pragma once

#include <memory>
#include <string>

#include "src/gpu/nvrtc.h"

namespace autotune::test {

// Where a test searches NVRTC: AUTOTUNE_NVRTC, else the folders that the command searches, and those of this build.
gpu::Nvrtc::Search nvrtc_search(int driver_major = 0);

// The real compiler, or nullptr and why there is none, for a test that is then skipped. Throws instead where
// AUTOTUNE_REQUIRE_NVRTC is 1, as `tools/dev test` sets it: a test that is skipped there proves nothing.
std::shared_ptr<const gpu::Nvrtc> nvrtc_or_skip(std::string& why);

}  // namespace autotune::test
