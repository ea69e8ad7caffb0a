#include "src/runtime/background.h"

#include <signal.h>

#include <system_error>
#include <utility>

namespace autotune::runtime {
namespace {

// To wake a thread costs the caller of add() some 50 us on a virtual machine; one that naps looks for itself.
constexpr std::chrono::microseconds kNap{100};
constexpr std::chrono::milliseconds kNapsAfterWork{20};

}  // namespace

Background::~Background() {
    {
        const std::lock_guard lock(mutex_);
        is_ending_ = true;
        queue_.clear();
    }
    has_work_.notify_all();
    for (std::thread& thread : threads_) thread.join();
}

void Background::start() {
    const std::lock_guard lock(mutex_);
    try {
        while (threads_.size() < most_threads_) start_thread();
    } catch (const std::system_error&) {
        // add() tries again where there is none at all.
    }
}

void Background::add(std::function<void()> work) {
    std::unique_lock lock(mutex_);
    queue_.push_back(std::move(work));
    if (busy_ + queue_.size() > threads_.size() && threads_.size() < most_threads_) {
        try {
            start_thread();
        } catch (...) {
            if (threads_.empty()) {
                queue_.pop_back();
                throw;
            }
        }
    }
    const bool is_seen = queue_.size() <= napping_;
    lock.unlock();
    if (!is_seen) has_work_.notify_one();
}

void Background::wait() {
    std::unique_lock lock(mutex_);
    is_idle_.wait(lock, [&] { return queue_.empty() && busy_ == 0; });
}

// The new thread inherits the mask: the caller's signals stay with the caller's threads. REQUIRES: mutex_ is held.
void Background::start_thread() {
    sigset_t all, before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
        threads_.reserve(most_threads_);
        threads_.emplace_back([this] { serve(); });
    } catch (...) {
        ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
        throw;
    }
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// Until there is work, for as long as more is likely to come.
void Background::nap(std::unique_lock<std::mutex>& lock, std::chrono::steady_clock::time_point until) {
    while (!is_ending_ && queue_.empty() && std::chrono::steady_clock::now() < until) {
        ++napping_;
        lock.unlock();
        std::this_thread::sleep_for(kNap);
        lock.lock();
        --napping_;
    }
}

void Background::serve() {
    std::unique_lock lock(mutex_);
    std::chrono::steady_clock::time_point nap_until{};
    while (true) {
        nap(lock, nap_until);
        has_work_.wait(lock, [&] { return is_ending_ || !queue_.empty(); });
        if (is_ending_) return;
        const std::function<void()> work = std::move(queue_.front());
        queue_.pop_front();
        ++busy_;
        lock.unlock();
        try {
            work();
        } catch (...) {
            // Nobody waits for it, and the next call does without.
        }
        nap_until = std::chrono::steady_clock::now() + kNapsAfterWork;
        lock.lock();
        --busy_;
        if (queue_.empty() && busy_ == 0) is_idle_.notify_all();
    }
}

}  // namespace autotune::runtime
