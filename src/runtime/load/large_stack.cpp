#include "src/runtime/load/large_stack.h"

#include <cxxabi.h>
#include <pthread.h>
#include <signal.h>

#include <exception>

#include "src/runtime/process/no_cancel.h"

namespace autotune::runtime {
namespace {

constexpr std::size_t kStackBytes = std::size_t{8} << 20;

struct Job {
    const std::function<void()>& work;
    std::exception_ptr failure;
};

void* run(void* argument) {
    auto& job = *static_cast<Job*>(argument);
    try {
        job.work();
    } catch (const abi::__forced_unwind&) {
        throw;
    } catch (...) {
        job.failure = std::current_exception();
    }
    return nullptr;
}

// Starts run(&job) on a thread that blocks every signal. Returns false if the system refuses a thread.
bool start(pthread_t& thread, Job& job) {
    pthread_attr_t attributes;
    if (::pthread_attr_init(&attributes) != 0) return false;
    sigset_t all, before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool is_started =
        ::pthread_attr_setstacksize(&attributes, kStackBytes) == 0 && ::pthread_create(&thread, &attributes, run, &job) == 0;
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    ::pthread_attr_destroy(&attributes);
    return is_started;
}

}  // namespace

void run_with_large_stack(const std::function<void()>& work) {
    const NoCancel no_cancel;  // the job lies on this thread's stack
    Job job{work, nullptr};
    pthread_t thread{};
    if (!start(thread, job)) return work();
    ::pthread_join(thread, nullptr);
    if (job.failure) std::rethrow_exception(job.failure);
}

}  // namespace autotune::runtime
