#pragma once

#include <string_view>

namespace autotune::kernel_files {

// Included in front of every user's source: what nvcc's own headers give and NVRTC lacks.
inline constexpr std::string_view kPreludeName = "autotune_prelude.h";
std::string_view prelude();

// A stand-in for a header of the host's C++ library or of the toolkit that device code includes out of habit; empty: there is
// none.
std::string_view stub_header(std::string_view name);

}  // namespace autotune::kernel_files
