#pragma once

#include <autotune/autotune.h>

#include <atomic>
#include <mutex>
#include <set>
#include <string>

#include "src/runtime/api/settings.h"

namespace autotune::runtime {

// Passes messages to the caller's function, if there is one. That function may use the library, so nobody logs while holding a
// lock that a call of the library takes. It may throw, which has no effect. Messages of calls that it makes are dropped, so a
// function that causes a message is not called for it. It is not called once exit() has begun. If it ends its thread
// (pthread_exit, as Python does with threads that outlive its interpreter), the thread unwinds through the library. Thread-safe.
class Log {
  public:
    explicit Log(const Settings& settings) : function_(settings.log), user_(settings.log_user), level_(settings.log_level) {}

    // REQUIRES for all three: the caller holds no lock.
    void say(autotune_log_level level, const std::string& message) const;
    void warn(const std::string& message) const { say(AUTOTUNE_LOG_WARNING, message); }
    // Logs only the first message of each subject: a database that stays locked is one warning, not one per call. Throws
    // std::bad_alloc.
    void warn_once(const std::string& subject, const std::string& message);

    // From now on the function is not called. Waits for calls on other threads, but only for a limited time, because such a call
    // may wait for this thread.
    void silence() noexcept;

    // Whether this thread is inside the caller's function. Then it must not wait for another thread, which may be inside the
    // function too and wait for this one.
    static bool is_speaking() noexcept;
    // Whether this thread is inside a call that this object made.
    bool is_speaking_here() const noexcept;

  private:
    std::atomic<autotune_log_function> function_;
    void* user_;
    autotune_log_level level_;
    mutable std::atomic<int> calls_{0};  // calls of the function that are running now
    std::mutex mutex_;
    std::set<std::string> said_;
};

}  // namespace autotune::runtime
