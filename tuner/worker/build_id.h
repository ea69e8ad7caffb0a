#pragma once

#include <string>

namespace autotune::tuner {

// The build id that the linker wrote into this program, in hexadecimal; empty if it wrote none. A worker sends its own, so that
// the coordinator notices if the command was replaced while it ran.
std::string build_id();

}  // namespace autotune::tuner
