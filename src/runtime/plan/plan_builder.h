#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/dispatch/choice.h"
#include "src/runtime/load/instances.h"
#include "src/runtime/load/single_flight.h"
#include "src/runtime/plan/plan_cache.h"
#include "src/runtime/plan/plan_spec.h"
#include "src/runtime/plan/services.h"

namespace autotune::runtime {

// Makes the best plan of a problem: the first candidate, in the order of dispatch, whose code compiles and loads. Thread-safe.
class PlanBuilder {
  public:
    // REQUIRES: both outlive it.
    PlanBuilder(Services& services, PlanCache& cache) : services_(services), cache_(cache) {}

    // The best plan; the cache keeps it. If threads request the same problem, the first makes the plan for all; requests for
    // other problems do not wait. Throws Failure or Error if no candidate works.
    SharedPlan make(const PlanSpec& spec);
    // Loads every kernel that plans of this problem use when its first extent is 1 up to the problem's own. Returns how many
    // there are.
    std::size_t warm(const PlanSpec& spec);

  private:
    // A working candidate that the compiler's report disqualifies, kept in case there is no better one.
    struct DisqualifiedCandidate {
        dispatch::ResolvedCandidate found;
        std::shared_ptr<const Instance> instance;
        double likely_us = 0;  // the predicted time multiplied by the slowdown
    };
    // The candidates of one problem, tried one after the other.
    struct Attempt {
        const Problem& problem;
        const PlanSpec& spec;
        SharedPlan when_zero = nullptr;
        std::exception_ptr failure = nullptr;                              // the first
        dispatch::Source source = dispatch::Source::none;                  // source of the candidate that works
        std::optional<DisqualifiedCandidate> disqualified = std::nullopt;  // the best of the disqualified candidates
    };

    SharedPlan build(const PlanSpec& spec);
    SharedPlan build_when_zero(const PlanSpec& spec);
    // nullptr if none works. A measured candidate is never disqualified, whatever the compiler reports.
    std::shared_ptr<Plan> first_usable(const std::vector<dispatch::ResolvedCandidate>& candidates, Attempt& attempt);
    std::shared_ptr<Plan> bind_disqualified(Attempt& attempt);
    std::vector<dispatch::ResolvedCandidate> untuned(const Problem& problem, const Device& device, std::size_t count);
    double predicted_us(const Candidate& candidate, const Problem& problem, const Device& device) const;
    std::string make_ready(const dispatch::WarmupEntry& entry, const PlanSpec& spec);

    Services& services_;
    PlanCache& cache_;
    SingleFlight<PlanKey, SharedPlan, PlanKey::Hash> making_;
    std::atomic<bool> has_planned_{false};
};

}  // namespace autotune::runtime
