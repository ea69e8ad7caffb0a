#include "src/runtime/process/periodic.h"

#include <cxxabi.h>

#include <utility>

#include "src/runtime/process/late_destroy.h"
#include "src/runtime/process/process_end.h"
#include "src/runtime/process/quiet_thread.h"

namespace autotune::runtime {

Periodic::Periodic(std::chrono::milliseconds interval, std::function<void()> work) : interval_(interval), work_(std::move(work)) {
    const std::lock_guard lock(mutex_);
    start_thread();
}

Periodic::~Periodic() {
    {
        const std::lock_guard lock(mutex_);
        is_ending_ = true;
    }
    ends_.notify_all();
    const process_end::Waiting waiting;
    for (std::thread& thread : threads_) thread.join();
}

// REQUIRES: mutex_ is held.
void Periodic::start_thread() {
    threads_.reserve(threads_.size() + 1);
    threads_.push_back(start_quiet_thread([this] { serve(); }));
}

void Periodic::serve() {
    std::unique_lock lock(mutex_);
    while (!ends_.wait_for(lock, interval_, [&] { return is_ending_; })) {
        lock.unlock();
        if (process_end::has_begun()) return;
        work_once();
        lock.lock();
    }
}

void Periodic::work_once() {
    try {
        const process_end::Section section;
        work_();
    } catch (const abi::__forced_unwind&) {
        LateDestroy::settle_elsewhere();
        const std::lock_guard lock(mutex_);
        try {
            if (!is_ending_) start_thread();
        } catch (...) {
            // If no other thread can be started, the work ends here.
        }
        throw;
    } catch (...) {
        // No caller waits for the work. It is tried again after the next interval.
    }
    LateDestroy::settle_elsewhere();
}

}  // namespace autotune::runtime
