#pragma once

#include <chrono>

namespace autotune {

// A clock that never goes back, for phases, deadlines and budgets.
using Clock = std::chrono::steady_clock;
inline double seconds_since(Clock::time_point from) {
    return std::chrono::duration<double>(Clock::now() - from).count();
}

}  // namespace autotune
