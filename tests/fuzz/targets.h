#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace autotune::fuzz {

// What is fed with bytes that an enemy or a bad disk may have made. It returns, or throws what it documents, which is caught
// inside; everything else (a crash, another exception, a sanitizer's complaint, seconds of time) is a bug.
struct Target {
    std::string_view name;  // also of the folder of its seeds
    void (*feed)(std::string_view input);
};
std::span<const Target> targets();

}  // namespace autotune::fuzz
