#include "src/runtime/api/log.h"

#include <cxxabi.h>

#include <chrono>
#include <thread>

#include "src/runtime/process/process_end.h"

namespace autotune::runtime {
namespace {

// A limit for the memory, because a file may have any number of damaged rows.
constexpr std::size_t kMostSubjects = 1024;
constexpr std::chrono::seconds kMostWait{2};

// Initial-exec: other models allocate at the first use, which ends the process if no memory is left.
[[gnu::tls_model("initial-exec")]] thread_local const Log* speaking = nullptr;

// Counts a call of the caller's function, however it ends.
class Call {
  public:
    Call(const Log& log, std::atomic<int>& calls) : calls_(calls) {
        calls_.fetch_add(1);
        speaking = &log;
    }
    ~Call() {
        speaking = nullptr;
        calls_.fetch_sub(1);
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

  private:
    std::atomic<int>& calls_;
};

}  // namespace

bool Log::is_speaking() noexcept {
    return speaking != nullptr;
}

bool Log::is_speaking_here() const noexcept {
    return speaking == this;
}

void Log::say(autotune_log_level level, const std::string& message) const {
    if (function_.load(std::memory_order_relaxed) == nullptr || level < level_ || is_speaking()) return;
    const process_end::Callback callback;
    if (!callback.is_allowed()) return;
    const Call call(*this, calls_);
    // Read after the call is counted: either this reads NULL, or silence() sees the counted call and waits for it.
    const autotune_log_function function = function_.load();
    if (function == nullptr) return;
    try {
        function(user_, level, message.c_str());
    } catch (const abi::__forced_unwind&) {
        throw;  // the thread is ending, and catching this would end the process
    } catch (...) {
        // If the caller's function throws, the library's call does not fail.
    }
}

void Log::silence() noexcept {
    function_.store(nullptr);
    const int own = is_speaking_here() ? 1 : 0;
    const auto begun = std::chrono::steady_clock::now();
    while (calls_.load() > own && std::chrono::steady_clock::now() - begun < kMostWait)
        std::this_thread::sleep_for(std::chrono::microseconds(100));
}

void Log::warn_once(const std::string& subject, const std::string& message) {
    if (is_speaking()) return;  // the message would be dropped, and must not count as logged
    {
        const std::lock_guard lock(mutex_);
        if (said_.size() >= kMostSubjects || !said_.insert(subject).second) return;
    }
    warn(message);
}

}  // namespace autotune::runtime
