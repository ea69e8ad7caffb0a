#pragma once

#include <map>
#include <optional>
#include <string>

#include "src/core/error.h"
#include "src/core/system/clock.h"
#include "tuner/session/engine/gpu_worker_session.h"
#include "tuner/worker/journal.h"

namespace autotune::tuner {

// What all problems of a run share: the loop, the GPU worker, what the journal remembers.
struct RunShared {
    Engine& engine;
    GpuWorkerHost& host;
    std::optional<Journal> journal;             // opened once the GPU's lock is held
    std::map<std::string, Instance> instances;  // harness, references and what was compiled ahead, by identity
};

// Adds the time of its own life to a sum.
class PhaseTimer {
  public:
    explicit PhaseTimer(double& sum_s) : sum_s_(sum_s), from_(Clock::now()) {}
    ~PhaseTimer() { sum_s_ += seconds_since(from_); }
    PhaseTimer(const PhaseTimer&) = delete;
    PhaseTimer& operator=(const PhaseTimer&) = delete;

  private:
    double& sum_s_;
    Clock::time_point from_;
};

// Whether an error of one problem is one of all problems of a run: a card that is ill, a store that fails.
bool ends_all(ErrorCode code);

// What the tensor cores' peak rate takes, in microseconds; 0 if it is not known.
double multiply_us(const Op& op, const Problem& problem, const Device& device);
// Options of a session with what follows from the problem and the device: its limits, and which reference is worth its time: some
// seconds, and no more than half of the budget, if there is one.
GpuWorkerSession::Options session_options(const Problem& problem, const TuneServices& services, double budget_s = 0);
// Renders with what the services hold, compiles with urgency 0 and waits.
Instance compile_now(RunShared& shared, const jit::Rendered& rendered);
// Begins to compile what will be needed, after everything more urgent. It stands among the instances once it is done; a failure
// is said again by who needs it.
void compile_ahead(RunShared& shared, jit::Rendered rendered);
// What judges candidates: compiles the harness, which the GPU worker gets, and the problem's reference, which is returned.
Instance compile_judges(RunShared& shared, const Problem& problem);

}  // namespace autotune::tuner
