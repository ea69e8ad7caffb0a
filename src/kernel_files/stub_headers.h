#pragma once

#include <string_view>

namespace autotune::kernel_files {

// Included before every user's source: declarations that nvcc's own headers have and NVRTC lacks.
inline constexpr std::string_view kPreludeName = "autotune_prelude.h";
std::string_view prelude();

// A replacement for a header of the host's C++ library or of the toolkit that device code often includes without need; empty:
// there is none.
std::string_view stub_header(std::string_view name);

}  // namespace autotune::kernel_files
