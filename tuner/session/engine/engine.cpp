#include "tuner/session/engine/engine.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "src/core/error.h"

namespace autotune::tuner {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLongestWait{100};  // a Ctrl-C between two checks is noticed after at most this delay

milliseconds until(const std::optional<Clock::time_point>& deadline, milliseconds limit) {
    if (!deadline) return limit;
    const auto left = std::chrono::ceil<milliseconds>(*deadline - Clock::now());
    return std::clamp(left, milliseconds(0), limit);
}

}  // namespace

Engine::Engine(TuneServices& services)
    : services_(services),
      state_folder_(private_folder_.or_named(services.workers.lock_folder)),
      lock_folders_{services.workers.host_lock_folder, state_folder_},
      own_pool_(services.compilers != nullptr ? nullptr
                                              : std::make_unique<CompilePool>(CompilePool::Options{
                                                    .workers = services.workers,
                                                    .cache_folder = private_folder_.or_named(services.workers.cache_folder),
                                                    .warn = [this](const std::string& text) { warn(text); }})),
      pool_(services.compilers != nullptr ? *services.compilers : *own_pool_),
      gpu_worker_(services.workers, services.catalogue.definitions()),
      nvrtc_(services.provenance.nvrtc) {}

void Engine::pump(milliseconds limit) {
    if (stopping()) throw Interrupted{};
    std::vector<pollfd> fds;
    pool_.add_to(fds);
    gpu_worker_.add_to(fds);
    for (const int fd : watched_) fds.push_back({fd, POLLIN, 0});
    limit = until(pool_.next_deadline(), until(gpu_worker_.next_deadline(), std::min(limit, kLongestWait)));
    const int ready = ::poll(fds.data(), fds.size(), static_cast<int>(limit.count()));
    check(ready >= 0 || errno == EINTR, std::string("poll: ") + std::strerror(errno));
    if (stopping()) throw Interrupted{};
    gpu_worker_.serve();
    pool_.serve();
    if (idle_hook_) idle_hook_();
}

GpuWorkerReply Engine::ask(const Message& request, const StageLimits& limits) {
    gpu_worker_.send(request, limits);
    while (true) {
        if (auto reply = gpu_worker_.take_reply()) return std::move(*reply);
        pump(kLongestWait);
    }
}

void Engine::wait_for(const std::function<bool()>& done) {
    while (!done()) pump(kLongestWait);
}

const std::string& Engine::nvrtc_version() {
    while (nvrtc_.empty()) {
        if (const auto version = pool_.nvrtc_version()) nvrtc_ = *version;
        if (nvrtc_.empty()) pump(kLongestWait);
    }
    return nvrtc_;
}

void Engine::acquire_gpu() {
    if (holds_gpu() || (lock_folders_.state.empty() && lock_folders_.host.empty())) return;
    bool warned = false;
    while (true) {
        GpuLock::Attempt attempt = GpuLock::try_take(lock_folders_, services_.device_uuid);
        lock_ = std::move(attempt.lock);
        if (!attempt.only_this_user.empty() && !std::exchange(has_warned_of_users_, true))
            warn("tuners of other users are not kept off this GPU: " + attempt.only_this_user +
                 "; ask an administrator for a folder /run/lock/autotune of mode 1777, or name another one in AUTOTUNE_LOCK_DIR");
        if (lock_) return;
        if (!attempt.failure.empty()) {
            goes_without_lock_ = true;
            warn("the lock of this GPU cannot be taken: " + attempt.failure +
                 ". The run goes on without it: do not time anything else on this GPU meanwhile, or name another folder in "
                 "XDG_STATE_HOME");
            return;
        }
        if (!warned)
            warn("another tuner is timing on this GPU (" + GpuLock::holder(lock_folders_, services_.device_uuid) +
                 "); waiting for it to finish");
        warned = true;
        pump(kLongestWait);
    }
}

void Engine::warn(const std::string& text) {
    if (services_.observer != nullptr) services_.observer->on_warning(text);
}

}  // namespace autotune::tuner
