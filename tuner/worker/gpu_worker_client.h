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

// How long each stage of a request may take. The worker says which stage it enters.
struct StageLimits {
    double start_s = 60;  // driver, context
    double load_s = 20;   // a cubin into the driver
    double launch_s = 2;  // the first launch of a candidate
    double verify_s = 20;
    double time_s = 20;
    double reference_s = 120;
};

// What became of a request.
struct GpuWorkerReply {
    enum class Kind { answered, crashed, timed_out };
    Kind kind = Kind::answered;
    Json body;           // of an answer
    std::string stage;   // where it died
    int slot = -1;       // whose stage it was; -1: nobody's
    std::string detail;  // one sentence
    // The machine did it, not the candidate: a limit in wall time, a process that others ended, a card or a driver that fails.
    bool by_circumstance = false;
};

// The coordinator's end of the GPU worker: at most one process, one request at a time. A worker that passes a stage's limit,
// dies or reports a sticky error is killed; the next request starts another one. Limits do not count the time in which others had
// the processors. A worker that others end before it has a context is started again, twice at most; the third end in a row is an
// Error{system}. Throws Error{gpu_unhealthy} if a killed worker does not go away in 5 s, Error{no_gpu}, Error{gpu_in_use} or
// Error{gpu_unhealthy} if a new one cannot get a context.
class GpuWorkerClient {
  public:
    // Every process is told of `families` before anything else.
    explicit GpuWorkerClient(WorkerSettings settings, std::vector<FamilyDefinition> families = {})
        : settings_(std::move(settings)), families_(std::move(families)) {}
    ~GpuWorkerClient();

    // Starts the process now, so that its context is made while other things happen.
    void start();
    // REQUIRES: no request is under way.
    void send(const Message& request, const StageLimits& limits);
    // The outcome of the request, once; nullopt while it is under way.
    std::optional<GpuWorkerReply> take_reply();

    void add_to(std::vector<pollfd>& fds) const;
    void serve();
    std::optional<Clock::time_point> next_deadline() const;
    // Ends the process at once, whatever it is doing.
    void stop();

    // Raised with every new process, but for those that take the place of one that never had a context: what the last one held on
    // the GPU is gone.
    int generation() const { return generation_; }
    bool running() const { return process_ != nullptr; }
    // Text of what the worker learned at its start: {"driver", "free_bytes", ...}; null before that.
    const Json& hello() const { return hello_; }
    // How long workers were at their answers, all together: the rest of the time they waited for a request.
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
    std::vector<FamilyDefinition> families_;  // that are no part of the binary
    std::unique_ptr<WorkerProcess> process_;
    StageLimits limits_;
    std::string stage_;
    int slot_ = -1;
    std::optional<Clock::time_point> deadline_;
    double waited_before_s_ = 0;  // for a processor, when the stage began
    double granted_s_ = 0;        // of that, what the stage's limit was extended by
    bool busy_ = false;
    bool ready_ = false;
    Message early_request_;  // sent before the process was ready, for the one that takes its place
    int restarts_ = 0;       // since a process was ready
    std::optional<GpuWorkerReply> reply_;
    Json hello_;
    double busy_seconds_ = 0;
    int generation_ = 0;
};

}  // namespace autotune::tuner
