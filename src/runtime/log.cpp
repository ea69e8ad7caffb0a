#include "src/runtime/log.h"

namespace autotune::runtime {
namespace {

// Initial-exec: the first use of another kind allocates, which ends the process where there is no memory left.
[[gnu::tls_model("initial-exec")]] thread_local bool speaking = false;

}  // namespace

bool Log::is_speaking() noexcept {
    return speaking;
}

void Log::say(autotune_log_level level, const std::string& message) const noexcept {
    if (function_ == nullptr || level < level_ || speaking) return;
    speaking = true;
    try {
        function_(user_, level, message.c_str());
    } catch (...) {
        // The caller's failure to listen is no failure of the library's call.
    }
    speaking = false;
}

void Log::warn_once(const std::string& subject, const std::string& message) {
    if (speaking) return;  // dropped, and so not yet said
    {
        const std::lock_guard lock(mutex_);
        if (!said_.insert(subject).second) return;
    }
    warn(message);
}

}  // namespace autotune::runtime
