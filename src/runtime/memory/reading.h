#pragma once

#include <atomic>
#include <cstdint>

namespace autotune::runtime {

// A thread that reads, without a lock, what other threads may take away. What was taken away before is freed once every thread
// that may have seen it has left its Reading: see freed_by(). One record a thread, for all maps of the process. Nests.
class Reading {
  public:
    Reading() noexcept : record_(mine()) {
        // Sequentially consistent, as the reads of a map and its changes are: this thread sees the change, or its record is seen.
        if (record_ == nullptr)
            enter_anonymously();
        else if (record_->depth++ == 0)
            record_->since.exchange(now_.load(std::memory_order_acquire));
    }
    ~Reading() {
        if (record_ == nullptr)
            leave_anonymously();
        else if (--record_->depth == 0)
            record_->since.store(0, std::memory_order_release);
    }
    Reading(const Reading&) = delete;
    Reading& operator=(const Reading&) = delete;

    // The time after which threads begin that do not see what was taken away before this call.
    static std::uint64_t next() noexcept { return now_.fetch_add(1) + 1; }
    // Times up to this one are over: no thread reads that began before it.
    static std::uint64_t over() noexcept;

  private:
    struct alignas(64) Record {
        std::atomic<std::uint64_t> since{0};  // 0: it does not read
        int depth = 0;                        // of its own thread
        std::atomic<bool> is_taken{true};
        Record* next = nullptr;
    };

    // nullptr where there is no memory for one.
    static Record* mine() noexcept {
        Record* const own = own_;
        return own != nullptr ? own : take();
    }
    static Record* take() noexcept;
    static void give_back(void* record) noexcept;
    static void in_child() noexcept;
    static void enter_anonymously() noexcept;
    static void leave_anonymously() noexcept;

    // Initial-exec: the first use of another kind allocates, which ends the process where there is no memory left.
    [[gnu::tls_model("initial-exec")]] static thread_local constinit Record* own_;
    static std::atomic<std::uint64_t> now_;
    static std::atomic<Record*> all_;  // none is ever freed: a thread that ends leaves its own to another
    static std::atomic<long> anonymous_;

    Record* const record_;
};

}  // namespace autotune::runtime
