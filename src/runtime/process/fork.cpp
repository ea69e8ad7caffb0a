#include "src/runtime/process/fork.h"

#include <pthread.h>

#include <atomic>

namespace autotune::runtime {
namespace {

// Global, because the system reports a fork by a function without arguments.
std::atomic<int> generation{0};

void in_child() {
    generation.fetch_add(1, std::memory_order_relaxed);
}

const int registered = ::pthread_atfork(nullptr, nullptr, in_child);

}  // namespace

int fork_generation() noexcept {
    static_cast<void>(registered);
    return generation.load(std::memory_order_relaxed);
}

}  // namespace autotune::runtime
