#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "tools/cli/input/arguments.h"

namespace autotune::cli {

// A moment as RFC 3339 writes it: "2026-11-28T20:05:00Z", "2026-11-28T21:05:00.5+01:00". Throws Error{usage} naming `what`.
std::chrono::system_clock::time_point parse_instant(std::string_view text, const std::string& what);

// Checks for flags with such values.
FlagCheck instant_value();

}  // namespace autotune::cli
