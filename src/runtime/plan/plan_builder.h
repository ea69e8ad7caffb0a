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

// Makes the best plan of a problem: candidates from dispatch in their order, the first whose code compiles and loads.
// Thread-safe.
class PlanBuilder {
  public:
    // REQUIRES: both outlive it.
    PlanBuilder(Services& services, PlanCache& cache) : services_(services), cache_(cache) {}

    // The best plan, which the cache keeps from then on. Threads that want one problem get the plan of the first; those that want
    // others do not wait. Throws Failure or Error where no candidate works.
    SharedPlan make(const PlanSpec& spec);
    // Makes ready every kernel that plans of this problem take for a first extent of 1 up to the problem's own; how many there
    // are.
    std::size_t warm(const PlanSpec& spec);

  private:
    // Why a working candidate is not taken while there may be another: the compiler's report speaks against it.
    struct DisqualifiedCandidate {
        dispatch::ResolvedCandidate found;
        std::shared_ptr<const Instance> instance;
        double likely_us = 0;  // predicted, and slower for what disqualifies it
    };
    // The candidates of one problem, tried one after the other.
    struct Attempt {
        const Problem& problem;
        const PlanSpec& spec;
        SharedPlan when_zero = nullptr;
        std::exception_ptr failure = nullptr;                              // the first
        dispatch::Source source = dispatch::Source::none;                  // of the one that works
        std::optional<DisqualifiedCandidate> disqualified = std::nullopt;  // the best of those
    };

    SharedPlan build(const PlanSpec& spec);
    SharedPlan build_when_zero(const PlanSpec& spec);
    // nullptr if none of them works. What was measured is fit, whatever the compiler says of it.
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
