#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace autotune::fuzz {

// Processes bytes that an attacker or a bad disk may have made. It returns, or throws documented exceptions, which are caught
// inside; everything else (a crash, another exception, a sanitizer's report, seconds of time) is a bug.
struct Target {
    std::string_view name;  // also the name of the folder of its seeds
    void (*feed)(std::string_view input);
};
std::span<const Target> targets();

}  // namespace autotune::fuzz
