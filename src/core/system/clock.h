#pragma once

#include <chrono>

namespace autotune {

// Time that only goes forward: what phases, deadlines and budgets are measured with.
using Clock = std::chrono::steady_clock;
inline double seconds_since(Clock::time_point from) {
    return std::chrono::duration<double>(Clock::now() - from).count();
}

}  // namespace autotune
