#pragma once

#include <atomic>
#include <chrono>
#include <mutex>

namespace autotune::runtime {

// Keeps the driver free for calls that must be short. While a thread loads code, the driver makes launches of other threads wait,
// sometimes until a running kernel ends. Loads that several threads have begun by then run one after another, and the caller's
// next call waits for all of them. So only one load runs at a time, and none begins during such a call. Thread-safe.
class LoadGate {
  public:
    // `is_used`: false if no call needs to be short; then loads do not wait for each other either.
    explicit LoadGate(bool is_used) : is_used_(is_used) {}

    // Marks a call that must be short, for the lifetime of this object.
    class Call {
      public:
        explicit Call(LoadGate& gate) : gate_(gate) { gate_.calls_.fetch_add(1, std::memory_order_relaxed); }
        ~Call() { gate_.calls_.fetch_sub(1, std::memory_order_relaxed); }
        Call(const Call&) = delete;
        Call& operator=(const Call&) = delete;

      private:
        LoadGate& gate_;
    };

    // One step that keeps the driver busy, for the lifetime of this object. It waits for calls at most kMostWait, because calls
    // may follow each other without a gap. REQUIRES: this thread has no Turn.
    class Turn {
      public:
        explicit Turn(LoadGate& gate);

      private:
        std::unique_lock<std::mutex> lock_;
    };
    static constexpr std::chrono::milliseconds kMostWait{2};

  private:
    bool is_used_;
    std::atomic<int> calls_{0};
    std::mutex mutex_;  // of the turn
};

}  // namespace autotune::runtime
