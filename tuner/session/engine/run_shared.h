#pragma once

#include <map>
#include <optional>
#include <string>

#include "src/core/error.h"
#include "src/core/system/clock.h"
#include "tuner/session/engine/gpu_worker_session.h"
#include "tuner/worker/journal.h"

namespace autotune::tuner {

// Shared by all problems of a run: the loop, the GPU worker, the journal.
struct RunShared {
    Engine& engine;
    GpuWorkerHost& host;
    std::optional<Journal> journal;             // opened once the GPU's lock is held
    std::map<std::string, Instance> instances;  // harness, references and instances that were compiled ahead, by identity
};

// Adds the duration of its lifetime to a sum.
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

// Whether an error ends the whole run: an unhealthy card, a store that fails.
bool ends_all(ErrorCode code);

// The time at the tensor cores' peak rate, in microseconds; 0 if that is unknown.
double multiply_us(const Op& op, const Problem& problem, const Device& device);
// Options of a session with the values that follow from problem and device: its limits, and whether a reference is affordable,
// which may take some seconds but no more than half of the budget, if there is one.
GpuWorkerSession::Options session_options(const Problem& problem, const TuneServices& services, double budget_s = 0);
// Renders for the services' target, compiles with urgency 0 and waits.
Instance compile_now(RunShared& shared, const jit::Rendered& rendered);
// Starts to compile an instance that will be needed later, after everything more urgent. It is then among the instances; a
// failure is reported again to the caller that needs the instance.
void compile_ahead(RunShared& shared, jit::Rendered rendered);
// Compiles the kernels that verify candidates: the harness, which goes to the GPU worker, and the problem's reference, which is
// returned.
Instance compile_judges(RunShared& shared, const Problem& problem);

}  // namespace autotune::tuner
