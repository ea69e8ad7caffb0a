#pragma once

#include <atomic>
#include <chrono>
#include <mutex>

namespace autotune::runtime {

// Keeps the driver free for calls that must be short. While a thread loads code the driver makes launches of other threads wait,
// some loads until a kernel that is running ends: those that several threads have begun by then follow each other just when the
// caller comes with its next call. So one load at a time is begun, and none while such a call is on its way. Thread-safe.
class LoadGate {
  public:
    // `is_used`: false where no call is short on purpose, so that loads need not wait for each other either.
    explicit LoadGate(bool is_used) : is_used_(is_used) {}

    // A call that must be short, as long as this lives.
    class Call {
      public:
        explicit Call(LoadGate& gate) : gate_(gate) { gate_.calls_.fetch_add(1, std::memory_order_relaxed); }
        ~Call() { gate_.calls_.fetch_sub(1, std::memory_order_relaxed); }
        Call(const Call&) = delete;
        Call& operator=(const Call&) = delete;

      private:
        LoadGate& gate_;
    };

    // One step of what keeps the driver busy, as long as this lives. It begins at the latest kMostWait after its turn has come,
    // since calls may follow each other without a gap. REQUIRES: this thread has no Turn.
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
