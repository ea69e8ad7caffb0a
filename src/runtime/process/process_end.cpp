#include "src/runtime/process/process_end.h"

#include <pthread.h>
#include <time.h>

#include <array>
#include <atomic>
#include <cstdlib>

#include "src/runtime/api/status.h"

namespace autotune::runtime::process_end {
namespace {

constexpr double kMostWait_s = 5;           // for the compiler
constexpr double kMostWaitForUser_s = 0.5;  // the time that the caller's log function gets
// At most this many handlers for each step, because a program may make thousands of handles
constexpr int kMostHandlers = 32;

constinit std::atomic<bool> begun{false};
constinit std::atomic<int> working{0};   // the number of threads that are in a Section but not in a Callback
constinit std::atomic<int> speaking{0};  // threads in a Callback
constinit std::array<std::atomic<int>, 4> handlers{};

// Initial-exec: other models allocate at the first use, which ends the process if no memory is left.
[[gnu::tls_model("initial-exec")]] thread_local int own_sections = 0;
[[gnu::tls_model("initial-exec")]] thread_local int own_callbacks = 0;
[[gnu::tls_model("initial-exec")]] thread_local bool is_exiting = false;

bool is_own_work() {
    return own_sections > 0 && own_callbacks == 0;
}

double now_s() {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Polls, so that leaving threads need not notify it, and a forked child finds no lock held.
void at_exit() {
    is_exiting = true;
    if (begun.exchange(true)) return;
    const int own_work = is_own_work() ? 1 : 0;
    const int own_speech = own_callbacks > 0 ? 1 : 0;
    const double start_s = now_s();
    while (true) {
        const double waited_s = now_s() - start_s;
        const bool waits_for_work = working.load() > own_work && waited_s < kMostWait_s;
        const bool waits_for_user = speaking.load() > own_speech && waited_s < kMostWaitForUser_s;
        if (!waits_for_work && !waits_for_user) return;
        constexpr timespec kNap{.tv_sec = 0, .tv_nsec = 100'000};
        ::nanosleep(&kNap, nullptr);
    }
}

// The child has no other threads.
void in_child() {
    working.store(is_own_work() ? 1 : 0);
    speaking.store(own_callbacks > 0 ? 1 : 0);
}

const int registered = ::pthread_atfork(nullptr, nullptr, in_child);

[[noreturn]] void refuse() {
    throw Failure(AUTOTUNE_NOT_PLANNED,
                  "the process is ending: exit() was called, so no kernel is looked up, compiled or loaded");
}

}  // namespace

void watch(After step) noexcept {
    static_cast<void>(registered);
    std::atomic<int>& count = handlers.at(static_cast<std::size_t>(step));
    if (count.load(std::memory_order_relaxed) >= kMostHandlers) return;
    count.fetch_add(1, std::memory_order_relaxed);
    std::atexit(at_exit);  // Without memory the next step tries again.
}

bool has_begun() noexcept {
    return begun.load(std::memory_order_relaxed);
}

Section::Section() {
    if (own_sections++ > 0) return;
    working.fetch_add(1);
    if (!begun.load() || is_exiting) return;
    --own_sections;
    working.fetch_sub(1);
    refuse();
}

Section::~Section() {
    if (--own_sections == 0) working.fetch_sub(1);
}

Waiting::Waiting() noexcept {
    if (is_own_work()) working.fetch_sub(1);
}

Waiting::~Waiting() {
    if (is_own_work()) working.fetch_add(1);
}

void check() {
    if (has_begun() && !is_exiting) refuse();
}

// A thread in a Section counts as logging, not as working, while it calls the caller's function.
Callback::Callback() noexcept {
    if (own_callbacks++ == 0) {
        speaking.fetch_add(1);
        if (own_sections > 0) working.fetch_sub(1);
    }
    is_allowed_ = !begun.load();
}

Callback::~Callback() {
    if (--own_callbacks > 0) return;
    if (own_sections > 0) working.fetch_add(1);
    speaking.fetch_sub(1);
}

}  // namespace autotune::runtime::process_end
