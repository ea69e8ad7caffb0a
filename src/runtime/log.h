#pragma once

#include <autotune/autotune.h>

#include <mutex>
#include <set>
#include <string>

#include "src/runtime/settings.h"

namespace autotune::runtime {

// Hands messages to the caller's function, if there is one. Thread-safe.
class Log {
  public:
    explicit Log(const Settings& settings) : function_(settings.log), user_(settings.log_user), level_(settings.log_level) {}

    void say(autotune_log_level level, const std::string& message) const {
        if (function_ != nullptr && level >= level_) function_(user_, level, message.c_str());
    }
    void warn(const std::string& message) const { say(AUTOTUNE_LOG_WARNING, message); }
    // The first of each subject is heard: a database that stays locked is one warning, not one a call.
    void warn_once(const std::string& subject, const std::string& message) {
        {
            const std::lock_guard lock(mutex_);
            if (!said_.insert(subject).second) return;
        }
        warn(message);
    }

  private:
    autotune_log_function function_;
    void* user_;
    autotune_log_level level_;
    std::mutex mutex_;
    std::set<std::string> said_;
};

}  // namespace autotune::runtime
