#include "src/runtime/process/background.h"

#include <cxxabi.h>

#include <system_error>
#include <utility>

#include "src/runtime/process/late_destroy.h"
#include "src/runtime/process/process_end.h"
#include "src/runtime/process/quiet_thread.h"

namespace autotune::runtime {
namespace {

// Waking a thread costs the caller of add() some 50 us on a virtual machine. So a thread that expects more work polls instead.
constexpr std::chrono::microseconds kNap{100};
constexpr std::chrono::milliseconds kNapsAfterWork{20};

}  // namespace

// Counts a thread as working, until its work ends or unwinds the thread. REQUIRES: the lock is held when it begins and ends.
class Background::Busy {
  public:
    explicit Busy(Background& pool) : pool_(pool) { ++pool_.busy_; }
    ~Busy() {
        --pool_.busy_;
        if (pool_.queue_.empty() && pool_.busy_ == 0) pool_.is_idle_.notify_all();
    }
    Busy(const Busy&) = delete;
    Busy& operator=(const Busy&) = delete;

  private:
    Background& pool_;
};

Background::~Background() {
    {
        const std::lock_guard lock(mutex_);
        is_ending_ = true;
        queue_.clear();
    }
    has_work_.notify_all();
    const process_end::Waiting waiting;
    for (std::thread& thread : threads_) thread.join();
}

void Background::start() {
    const std::lock_guard lock(mutex_);
    try {
        while (alive_ < most_threads_) start_thread();
    } catch (const std::system_error&) {
        // If no thread could start, add() tries again.
    }
}

void Background::add(std::function<void()> work) {
    std::unique_lock lock(mutex_);
    queue_.push_back(std::move(work));
    if (busy_ + queue_.size() > alive_ && alive_ < most_threads_) {
        try {
            start_thread();
        } catch (...) {
            if (alive_ == 0) {
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
    const process_end::Waiting waiting;
    std::unique_lock lock(mutex_);
    while (!queue_.empty() || busy_ > 0) {
        if (alive_ == 0) start_thread();  // the work has ended the last thread
        is_idle_.wait(lock);
    }
}

// REQUIRES: mutex_ is held.
void Background::start_thread() {
    threads_.reserve(threads_.size() + 1);
    threads_.push_back(start_quiet_thread([this] { serve(); }));
    ++alive_;
}

// Polls for work as long as more is likely to come.
void Background::nap(std::unique_lock<std::mutex>& lock, std::chrono::steady_clock::time_point until) {
    while (!is_ending_ && queue_.empty() && std::chrono::steady_clock::now() < until) {
        ++napping_;
        lock.unlock();
        std::this_thread::sleep_for(kNap);
        lock.lock();
        --napping_;
    }
}

// Counts a thread until it ends. REQUIRES: the lock is held when it ends.
class Background::Alive {
  public:
    explicit Alive(Background& pool) : pool_(pool) {}
    ~Alive() {
        if (--pool_.alive_ == 0) pool_.is_idle_.notify_all();
    }
    Alive(const Alive&) = delete;
    Alive& operator=(const Alive&) = delete;

  private:
    Background& pool_;
};

// REQUIRES: the queue is not empty.
void Background::do_one(std::unique_lock<std::mutex>& lock) {
    const std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    const Busy busy(*this);
    // Locks again before `busy` is destroyed, however the work ends.
    struct Unlocked {
        explicit Unlocked(std::unique_lock<std::mutex>& given) : lock(given) { lock.unlock(); }
        ~Unlocked() { lock.lock(); }
        Unlocked(const Unlocked&) = delete;
        Unlocked& operator=(const Unlocked&) = delete;
        std::unique_lock<std::mutex>& lock;
    };
    const Unlocked unlocked(lock);
    try {
        const process_end::Section section;
        work();
    } catch (const abi::__forced_unwind&) {
        LateDestroy::settle_elsewhere();
        throw;
    } catch (...) {
        // No caller waits for the result. The next call works without the result.
    }
    LateDestroy::settle_elsewhere();
}

void Background::serve() {
    std::unique_lock lock(mutex_);
    const Alive alive(*this);  // destroyed before the lock
    std::chrono::steady_clock::time_point nap_until{};
    while (true) {
        nap(lock, nap_until);
        has_work_.wait(lock, [&] { return is_ending_ || !queue_.empty(); });
        if (is_ending_) return;
        do_one(lock);
        nap_until = std::chrono::steady_clock::now() + kNapsAfterWork;
    }
}

}  // namespace autotune::runtime
