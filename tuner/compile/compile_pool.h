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

// Compiles in worker processes, most urgent first, each instance once. Finished instances go through the cubin cache. Driven by
// the coordinator's poll loop; callbacks run inside submit() (cached) or serve(). A compile may use so much processor time and no
// more; how long it waits for a processor is no matter, but for a limit that only a machine at a standstill reaches. A compiler
// that dies is given the instance once more, in a new process. Where the system refuses a process, fewer run. Jobs of one urgency
// take turns by client, so that a lane with a long queue does not delay the others.
class CompilePool : public Compilers {
  public:
    struct Options {
        WorkerSettings workers;
        std::string cache_folder;  // empty: nothing is kept on disk
        // Hears, once each, what cannot be kept for people, that fewer compilers run than were to, and that the disk cache keeps
        // nothing.
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
    // As the first worker said it; starts one if none has spoken.
    std::optional<std::string> nvrtc_version() override;

  private:
    struct Waiter {
        int owner;
        Callback done;
    };
    struct Pending {
        Job job;
        std::vector<Waiter> waiters;
        int deaths = 0;          // of compilers that had it in hand
        std::uint64_t turn = 0;  // among the waiting jobs of its urgency
    };
    // Of the jobs of one urgency.
    struct Turns {
        std::uint64_t begun = 0;             // of the job that was begun last
        std::map<int, std::uint64_t> given;  // the last one by client
    };
    struct Slot {
        std::unique_ptr<WorkerProcess> process;
        bool ready = false;
        std::string identity;  // of the job in hand; empty: idle
        Clock::time_point since, deadline;
        Clock::time_point look_at;  // when its processor time is to be read again
        double cpu_before_s = 0;    // what it had used when it got the job
    };
    // How an instance's compiler came to an end.
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
    bool has_warned_ = false;  // of what cannot be kept
    Clock::time_point paused_at_;
    int compiled_ = 0;
    int deaths_in_a_row_ = 0;
    bool cache_is_full_ = false;  // and that was told
    double busy_seconds_ = 0;
};

}  // namespace autotune::tuner
