#include "src/runtime/load/load_gate.h"

#include <thread>

namespace autotune::runtime {

// A turn polls. Otherwise calls would have to wake it when they end, and would take longer.
LoadGate::Turn::Turn(LoadGate& gate) {
    if (!gate.is_used_) return;
    lock_ = std::unique_lock(gate.mutex_);
    const auto begun = std::chrono::steady_clock::now();
    while (gate.calls_.load(std::memory_order_relaxed) > 0 && std::chrono::steady_clock::now() - begun < kMostWait)
        std::this_thread::sleep_for(std::chrono::microseconds(20));
}

}  // namespace autotune::runtime
