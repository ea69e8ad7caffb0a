#pragma once

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "src/jit/cubin_cache.h"
#include "tuner/compile/compilers.h"
#include "tuner/worker/protocol/worker_channel.h"

namespace autotune::tuner {

// The parent's compile pool, for a lane: it requests instances that the cubin cache does not have. It reads the lane's channel,
// because the loop waits on that, and forwards messages that are not about compiling.
class LaneCompilers : public Compilers {
  public:
    struct Options {
        std::string cache_folder;                   // empty: nothing is stored on disk
        std::size_t capacity = 1;                   // the capacity of the parent's pool
        bool needs_quiet = false;                   // pause() stops the parent's pool, for one lane at a time
        std::function<void(const Message&)> other;  // receives every message that is not about compiling
    };
    LaneCompilers(WorkerChannel& channel, Options options);

    void submit(Job job, Callback done) override;
    void cancel(int owner) override;
    void add_to(std::vector<pollfd>& fds) const override;
    void serve() override;
    std::optional<Clock::time_point> next_deadline() const override { return std::nullopt; }
    // Stops the compilers if they would disturb this lane, for one lane at a time. Blocks until it is this lane's turn.
    void pause() override;
    void resume() override;
    std::size_t capacity() const override { return options_.capacity; }
    std::size_t pending() const override { return jobs_.size(); }
    int compiled() const override { return compiled_; }
    double busy_seconds() const override { return busy_seconds_; }
    std::optional<std::string> nvrtc_version() override;

  private:
    struct Waiter {
        int owner;
        Callback done;
    };
    struct Pending {
        int urgency;
        std::vector<Waiter> waiters;
    };
    void handle(const Message& message);
    void finish(const Message& message);

    WorkerChannel& channel_;
    Options options_;
    jit::CubinCache cache_;
    std::map<std::string, Pending> jobs_;  // by identity
    std::string nvrtc_;
    bool has_asked_nvrtc_ = false;
    bool has_quiet_ = false;
    bool ends_ = false;  // set once the lane has to stop: no quiet will be granted
    int compiled_ = 0;
    double busy_seconds_ = 0;
};

}  // namespace autotune::tuner
