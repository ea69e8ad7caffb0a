#pragma once

#include <atomic>
#include <cstdint>

namespace autotune::runtime {

// Marks a thread as reading, without a lock, data that other threads may remove. Removed data is freed once every thread that may
// have seen it has left its Reading: see freed_by(). One record per thread, for all maps of the process. Nests.
class Reading {
  public:
    Reading() noexcept : record_(mine()) {
        // Sequentially consistent, like the reads and changes of a map: either this thread sees the change, or the changing
        // thread sees its record.
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

    // Advances the time. A Reading that begins later does not see what was removed before this call.
    static std::uint64_t next() noexcept { return now_.fetch_add(1) + 1; }
    // The latest time that is over: every Reading that began before it has ended.
    static std::uint64_t over() noexcept;

  private:
    struct alignas(64) Record {
        std::atomic<std::uint64_t> since{0};  // 0: not reading
        int depth = 0;                        // nesting; used by its own thread only
        std::atomic<bool> is_taken{true};
        Record* next = nullptr;
    };

    // nullptr if there is no memory for one.
    static Record* mine() noexcept {
        Record* const own = own_;
        return own != nullptr ? own : take();
    }
    static Record* take() noexcept;
    static void give_back(void* record) noexcept;
    static void in_child() noexcept;
    static void enter_anonymously() noexcept;
    static void leave_anonymously() noexcept;

    // Initial-exec: other models allocate at the first use, which ends the process if no memory is left.
    [[gnu::tls_model("initial-exec")]] static thread_local constinit Record* own_;
    static std::atomic<std::uint64_t> now_;
    static std::atomic<Record*> all_;  // records are never freed: a thread that ends leaves its own to another
    static std::atomic<long> anonymous_;

    Record* const record_;
};

}  // namespace autotune::runtime
