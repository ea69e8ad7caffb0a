#pragma once

#include <autotune/autotune.h>

#include <atomic>
#include <mutex>
#include <set>
#include <string>

#include "src/runtime/api/settings.h"

namespace autotune::runtime {

// Hands messages to the caller's function, if there is one. That function may use the library, so nobody speaks while holding a
// lock that a call of the library takes; it may throw, which does no harm. Messages of the calls that it makes are dropped, so
// that a function which causes a message does not hear itself. It is not called once exit() has begun. A function that ends its
// thread (pthread_exit, as Python does with threads that outlive its interpreter) unwinds through the library. Thread-safe.
class Log {
  public:
    explicit Log(const Settings& settings) : function_(settings.log), user_(settings.log_user), level_(settings.log_level) {}

    // REQUIRES for all three: no lock is held.
    void say(autotune_log_level level, const std::string& message) const;
    void warn(const std::string& message) const { say(AUTOTUNE_LOG_WARNING, message); }
    // The first of each subject is heard: a database that stays locked is one warning, not one a call. Throws std::bad_alloc.
    void warn_once(const std::string& subject, const std::string& message);

    // From now on nobody is called. Waits for calls on other threads, but not for ever: such a call may wait for this thread.
    void silence() noexcept;

    // Whether this thread is inside the caller's function. It must not wait for another thread then: that one may be inside the
    // function too and wait for this one.
    static bool is_speaking() noexcept;
    // Whether it is inside a call that this object made.
    bool is_speaking_here() const noexcept;

  private:
    std::atomic<autotune_log_function> function_;
    void* user_;
    autotune_log_level level_;
    mutable std::atomic<int> calls_{0};  // of the function, at this moment
    std::mutex mutex_;
    std::set<std::string> said_;
};

}  // namespace autotune::runtime
