#pragma once

#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>

#include "tuner/session/tune.h"
#include "tuner/session/tune/tune_run.h"
#include "tuner/worker/problem_claim.h"

namespace autotune::tuner {

// Tunes many problems, one after the other, on one pool and one GPU worker: while one is on the GPU, the next one compiles.
class ItemLoop {
  public:
    // REQUIRES: the services outlive it.
    ItemLoop(const TuneOptions& each, TuneServices& services)
        : each_(each), services_(services), engine_(services), host_(engine_), shared_{engine_, host_, {}, {}} {}

    Engine& engine() { return engine_; }
    // Starts a GPU worker that passes the canary.
    void prove_gpu();
    // Tunes item.problem, and fills in state, result, detail and seconds. `following` is called in each iteration of the loop for
    // the next problem, nullptr while it is unknown, so that it is begun in time. A problem that cannot be done is the item's
    // failure; throws Error for whatever ends a run: an unhealthy card, a store that fails. A problem that another process of
    // this host tunes for the same database becomes in_work; `is_again`: it was in_work before, and may have a winner by now.
    void tune(SweepItem& item, const std::function<const Problem*()>& following, bool is_again = false);
    // Waits for this time, or less if the user asks to stop.
    void rest(double seconds);
    // Whether the user asked to stop: nothing more should be tuned.
    bool stopped() const { return stopped_ || engine_.stopping(); }

  private:
    std::unique_ptr<TuneRun> begin(const Problem& problem, int urgency);
    void begin_next(const Problem& problem);
    void fail(SweepItem& item, const Error& error);
    bool claims() const;
    bool claim(const Problem& problem);
    void tune_claimed(SweepItem& item, const std::function<const Problem*()>& following);

    TuneOptions each_;
    TuneServices& services_;
    Engine engine_;
    GpuWorkerHost host_;
    RunShared shared_;
    std::unique_ptr<TuneRun> next_;                           // the run for the problem with next_key_
    std::future<std::unique_ptr<const Candidates>> listing_;  // the same
    std::string next_key_;
    std::optional<ProblemClaim> claim_;  // for the current item
    bool stopped_ = false;
};

}  // namespace autotune::tuner
