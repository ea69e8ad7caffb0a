#pragma once

#include <poll.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/jit/cubin_cache.h"
#include "tuner/compile/compilers.h"
#include "tuner/worker/worker_process.h"
#include "tuner/worker/worker_settings.h"

namespace autotune::tuner {

// Compiles in worker processes, most urgent first, each instance once. Finished instances go into the cubin cache. Driven by the
// coordinator's poll loop; callbacks run inside submit() (cached) or serve(). A compile has a limit of processor time. Waiting
// for a processor does not count, except for a wall-time limit that is reached only if the machine hangs. If a compiler dies, the
// instance is compiled once more in a new process. If the system refuses processes, fewer run. Jobs of equal urgency alternate
// between clients, so that a lane with a long queue does not delay the others.
class CompilePool : public Compilers {
  public:
    struct Options {
        WorkerSettings workers;
        std::string cache_folder;  // empty: nothing is stored on disk
        // Receives each of these once: files for people that cannot be written, fewer compilers running than planned, a disk
        // cache that stores nothing.
        std::function<void(const std::string&)> warn{};
    };

    explicit CompilePool(Options options);
    ~CompilePool() override;

    void submit(Job job, Callback done) override;
    void cancel(int owner) override;
    // Serving throws Error{no_compiler} if no worker finds a compiler.
    void add_to(std::vector<pollfd>& fds) const override;
    void serve() override;
    std::optional<Clock::time_point> next_deadline() const override;
    void pause() override;
    void resume() override;
    std::size_t capacity() const override { return capacity_; }
    std::size_t pending() const override { return waiting_.size() + running(); }
    int compiled() const override { return compiled_; }
    double busy_seconds() const override { return busy_seconds_; }
    // From the first worker that reported it; starts one if none has.
    std::optional<std::string> nvrtc_version() override;

  private:
    struct Waiter {
        int owner;
        Callback done;
    };
    struct Pending {
        Job job;
        std::vector<Waiter> waiters;
        int deaths = 0;          // number of compilers that died with this job
        std::uint64_t turn = 0;  // position among the waiting jobs of its urgency
    };
    // For the jobs of one urgency.
    struct Turns {
        std::uint64_t begun = 0;             // turn of the job that was begun last
        std::map<int, std::uint64_t> given;  // last turn given to each client
    };
    struct Slot {
        std::unique_ptr<WorkerProcess> process;
        bool ready = false;
        std::string identity;  // identity of the job it runs; empty: idle
        Clock::time_point since, deadline;
        Clock::time_point look_at;  // when to read its processor time again
        double cpu_before_s = 0;    // processor time at the start of the job
    };
    // Why an instance's compiler ended.
    enum class End { too_long, at_a_standstill, died };
    std::size_t running() const;
    bool start_worker();
    bool has_used_its_time(Slot& slot);
    void warn(const std::string& text);
    void keep_in_cache(const jit::Compiled& compiled);
    void dispatch();
    void enqueue(const std::string& identity, int urgency);
    void raise_priority(const std::string& identity, int urgency);
    bool take_messages(Slot& slot);
    void give(Slot& slot, const std::string& identity);
    void handle(Slot& slot, const Message& message);
    void end_job(Slot& slot, CompileOutcome outcome);
    void discard_worker(Slot& slot, const std::string& reason, End end = End::died);
    void give_up(const std::string& identity, const std::string& reason, End end, bool by_others);
    static std::string source_of(const Slot& slot);
    void finish(const std::string& identity, const CompileOutcome& outcome);
    void keep(const Job& job, const CompileOutcome& outcome);
    std::vector<std::string> worker_arguments() const;

    Options options_;
    jit::CubinCache cache_;
    std::size_t capacity_;
    std::vector<std::unique_ptr<Slot>> slots_;
    std::map<std::string, Pending> jobs_;  // by identity, waiting and running
    std::deque<std::string> waiting_;      // identities, most urgent first
    std::map<int, Turns> turns_;           // by urgency
    std::string nvrtc_;
    bool paused_ = false;
    bool has_warned_ = false;  // whether it has warned that something cannot be stored
    Clock::time_point paused_at_;
    int compiled_ = 0;
    int deaths_in_a_row_ = 0;
    bool cache_is_full_ = false;  // whether the cache is full and the warning was given
    double busy_seconds_ = 0;
};

}  // namespace autotune::tuner
