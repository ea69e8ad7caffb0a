#pragma once

#include <memory>
#include <string>

#include "src/gpu/nvrtc.h"

namespace autotune::test {

// Where tests search for NVRTC: AUTOTUNE_NVRTC, else the folders that the command searches, and those of this build.
gpu::Nvrtc::Search nvrtc_search(int driver_major = 0);

// The real compiler; or nullptr and the reason, for a test that is then skipped. Throws instead if AUTOTUNE_REQUIRE_NVRTC is 1,
// as `tools/dev test` sets it, because a skipped test proves nothing there.
std::shared_ptr<const gpu::Nvrtc> nvrtc_or_skip(std::string& why);

}  // namespace autotune::test
