#pragma once

#include <poll.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/core/family/family_definition.h"
#include "src/core/statistics/trial.h"
#include "tuner/worker/worker_process.h"
#include "tuner/worker/worker_settings.h"

namespace autotune::tuner {

// How long each stage of a request may take. The worker reports which stage it enters.
struct StageLimits {
    double start_s = 60;  // driver, context
    double load_s = 20;   // the time to load a cubin into the driver
    double launch_s = 2;  // the time of the first launch of a candidate
    double verify_s = 20;
    double time_s = 20;
    double reference_s = 120;
};

// The outcome of a request.
struct GpuWorkerReply {
    enum class Kind { answered, crashed, timed_out };
    Kind kind = Kind::answered;
    Json body;           // of an answer
    std::string stage;   // where it died
    int slot = -1;       // the slot that the stage concerned, or -1
    std::string detail;  // one sentence
    // Caused by the machine, not by the candidate: a limit in wall time, a process killed by others, a card or a driver that
    // fails.
    bool by_circumstance = false;
};

// The coordinator's side of the GPU worker: at most one process, one request at a time. A worker that exceeds a stage's limit,
// dies or reports a sticky error is killed; the next request starts another one. Limits do not count the time in which other
// processes had the processors. A worker that others kill before it has a context is started again, at most twice; the third
// death in a row is an Error{system}. Throws Error{gpu_unhealthy} if a killed worker does not go away in 5 s, Error{no_gpu},
// Error{gpu_in_use} or Error{gpu_unhealthy} if a new one cannot get a context.
class GpuWorkerClient {
  public:
    // Every process receives `families` before anything else.
    explicit GpuWorkerClient(WorkerSettings settings, std::vector<FamilyDefinition> families = {})
        : settings_(std::move(settings)), families_(std::move(families)) {}
    ~GpuWorkerClient();

    // Starts the process now, so that its context is made while other things happen.
    void start();
    // REQUIRES: no request is running.
    void send(const Message& request, const StageLimits& limits);
    // The outcome of the request, once; nullopt while it is running.
    std::optional<GpuWorkerReply> take_reply();

    void add_to(std::vector<pollfd>& fds) const;
    void serve();
    std::optional<Clock::time_point> next_deadline() const;
    // Kills the process at once, whatever it is doing.
    void stop();

    // Raised with every new process, except one that replaces a process that never had a context. Everything that an older
    // generation held on the GPU is gone.
    int generation() const { return generation_; }
    bool running() const { return process_ != nullptr; }
    // The worker's first message, with what it found at its start: {"driver", "free_bytes", ...}; null before that.
    const Json& hello() const { return hello_; }
    // The total time that workers spent on requests; the rest of the time they waited for requests.
    double busy_seconds() const { return busy_seconds_; }

  private:
    void start_process();
    void restart(const std::string& how);
    void handle(const Message& message);
    void enter_stage(const std::string& stage, int slot);
    bool grant_waiting();
    void finish(GpuWorkerReply reply);
    void put_down();
    std::string source() const;
    void note(LogLevel level, const std::string& text);

    WorkerSettings settings_;
    std::vector<FamilyDefinition> families_;  // families that are not part of the binary
    std::unique_ptr<WorkerProcess> process_;
    StageLimits limits_;
    std::string stage_;
    int slot_ = -1;
    std::optional<Clock::time_point> deadline_;
    double waited_before_s_ = 0;  // the time that the worker had waited for a processor when the stage began
    double granted_s_ = 0;        // the part of the waiting time by which the stage's limit was extended
    bool busy_ = false;
    bool ready_ = false;
    Message early_request_;  // a request from before the process was ready; kept for a process that replaces this one
    int restarts_ = 0;       // restarts since a process was last ready
    std::optional<GpuWorkerReply> reply_;
    Json hello_;
    double busy_seconds_ = 0;
    int generation_ = 0;
};

}  // namespace autotune::tuner
