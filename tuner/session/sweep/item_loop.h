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

// Many problems, one after the other, on one pool and one GPU worker: while one is on the GPU, the next one compiles.
class ItemLoop {
  public:
    // REQUIRES: the services outlive it.
    ItemLoop(const TuneOptions& each, TuneServices& services)
        : each_(each), services_(services), engine_(services), host_(engine_), shared_{engine_, host_, {}, {}} {}

    Engine& engine() { return engine_; }
    // A GPU worker that has passed the canary.
    void prove_gpu();
    // Tunes item.problem, and fills in state, result, detail and seconds. `following` is asked in each turn of the loop for the
    // problem that comes next, nullptr while it is not known; it is begun in time. A problem that nothing can do is the item's
    // failure; throws Error for what ends a run: a card that is ill, a store that fails. One that another process of this host
    // tunes for the same database is left in_work; `is_again`: it was, and may have a winner by now.
    void tune(SweepItem& item, const std::function<const Problem*()>& following, bool is_again = false);
    // Lets so much time pass, or less if the user asks to stop.
    void rest(double seconds);
    // Whether the user asked to stop: nothing more is to be tuned.
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
    std::unique_ptr<TuneRun> next_;                           // of the problem with next_key_
    std::future<std::unique_ptr<const Candidates>> listing_;  // the same
    std::string next_key_;
    std::optional<ProblemClaim> claim_;  // of the item at work
    bool stopped_ = false;
};

}  // namespace autotune::tuner
