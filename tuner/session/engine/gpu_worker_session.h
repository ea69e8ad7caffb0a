#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "src/core/statistics/trial.h"
#include "src/jit/cubin_cache.h"
#include "src/records/measuring_method.h"
#include "tuner/fixture/predecessor.h"
#include "tuner/fixture/reference.h"
#include "tuner/measure/racing.h"
#include "tuner/session/engine/engine.h"

namespace autotune::tuner {

using Instance = std::shared_ptr<const jit::Compiled>;

// The GPU worker for a run: restarted after a crash or a hang, and checked with a known kernel before it gets any other work.
// Throws Error{gpu_unhealthy} if the known kernel fails, or if too many candidates in a row killed the worker.
class GpuWorkerHost {
  public:
    explicit GpuWorkerHost(Engine& engine) : engine_(engine) {}
    void set_harness(Instance harness) { harness_ = std::move(harness); }
    // Makes sure that a worker runs that has passed the canary. Returns its generation.
    int ensure_healthy();
    // The outcome of a request; a death is counted in the series of different candidates.
    GpuWorkerReply ask(const Message& request, const StageLimits& limits);
    void note_success() { deaths_in_a_row_ = 0; }
    Engine& engine() { return engine_; }

  private:
    Engine& engine_;
    Instance harness_;
    int healthy_generation_ = 0;
    int deaths_in_a_row_ = 0;
};

// The outcome of opening or timing.
struct RunOutcome {
    TrialStatus status = TrialStatus::ok;
    std::string detail;
    std::optional<double> max_error;           // Verification's
    std::optional<double> accumulation_error;  // the same
    std::vector<double> sample_values;
    std::vector<double> samples_us;
    std::vector<std::vector<double>> steps_us;  // samples of the steps that were measured
    double opening_s = 0;                       // the worker's time before the steps
    bool verified = false;
    bool by_circumstance = false;  // Trial's
    bool ok() const { return status == TrialStatus::ok; }
    // Whether the candidate killed the worker. It then gets a second try in a new worker.
    bool died() const { return status == TrialStatus::crashed || status == TrialStatus::timed_out; }
};

// The result of `run`; if the worker died, the result of a second try in a new worker, because one death may have another cause.
template <class Run>
RunOutcome with_second_look(const Run& run) {
    const RunOutcome outcome = run();
    return outcome.died() ? run() : outcome;
}

// One problem on the GPU worker: operands, right values, opened candidates. Set up again automatically after the worker was
// replaced; candidates opened before are then gone (lost()).
class GpuWorkerSession {
  public:
    struct Options {
        int fixture = 0;  // sessions that exist at the same time have different numbers
        bool timing = true;
        MeasuringMethod method{};
        std::uint64_t seed = 1;
        double floor_us = 0;   // lower bound for any kernel: sets the limits
        double patience = 50;  // times the lower bound: slower candidates are useless
        bool affordable_reference = true;
        bool may_overlap = true;  // false: candidates are launched without programmatic dependent launch
    };
    GpuWorkerSession(GpuWorkerHost& host, const Problem& problem, Instance reference, const Options& options);
    ~GpuWorkerSession();
    GpuWorkerSession(const GpuWorkerSession&) = delete;
    GpuWorkerSession& operator=(const GpuWorkerSession&) = delete;

    // `steps` are measured in the same request, because each separate request is another wait.
    RunOutcome open(int slot, const Candidate& candidate, const Instance& instance, bool verify,
                    const std::vector<Step>& steps = {});
    RunOutcome open_rival(int slot, const std::string& name, bool verify);
    // Whether hundreds of runs of the opened candidate give the same bits.
    RunOutcome check_repeatability(int slot);
    // Stream times of single launches.
    RunOutcome sample(int slot, const Measurement& measurement);
    // Runs the kernel back to back for `seconds`.
    RunOutcome warm(int slot, double seconds);

    struct Round {
        std::vector<double> times_us;        // by slot
        std::vector<Conditions> conditions;  // the same
        int failed_slot = -1;                // the slot that was running when the worker died; -1: none
        std::string detail;
        bool ok = false;
    };
    struct Turn {
        double time_us = 3'000;  // of the GPU
        Predecessor after = Predecessor::filler;
    };
    // Times each slot once, in order.
    Round round(const std::vector<int>& slots, const Turn& turn);
    // A run without pauses, after fillers.
    struct Block {
        std::int64_t launches = 0;
        double launch_us = 0;  // stream time
        std::optional<double> joules_per_launch;
        Conditions conditions;
    };
    // nullopt if the worker died or could not run the kernel.
    std::optional<Block> block(int slot, double seconds);
    // Times a block with only fillers.
    std::optional<Block> filler_block(double seconds) { return block(-1, seconds); }
    // Starts the worker and sets up the problem on it, unless that is done. Throws Error if the device cannot hold the problem.
    void ensure();
    // Whether everything opened before is gone because the worker was replaced.
    bool lost() const;
    // How much of the right result is known, for comparison with candidates.
    Reference known() const { return known_; }

  private:
    RunOutcome outcome_of(const GpuWorkerReply& reply);
    StageLimits limits() const;

    GpuWorkerHost& host_;
    Problem problem_;
    Instance reference_;
    Options options_;
    int generation_ = 0;
    Reference known_ = Reference::none;
    std::set<std::string> told_;  // remarks about the reference, which a restarted worker repeats
};

}  // namespace autotune::tuner
