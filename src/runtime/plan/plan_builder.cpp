#include "src/runtime/plan/plan_builder.h"

#include <cxxabi.h>

#include <limits>
#include <mutex>
#include <set>
#include <utility>

#include "src/core/system/processors.h"
#include "src/dispatch/offers.h"
#include "src/gpu/driver/borrowed_context.h"
#include "src/runtime/plan/bind.h"
#include "src/runtime/process/background.h"
#include "src/runtime/process/process_end.h"

namespace autotune::runtime {
namespace {

using dispatch::Dispatcher;
using dispatch::Origin;
using dispatch::ResolvedCandidate;
using dispatch::Source;
using dispatch::WarmupEntry;

// How many alternatives are tried, fastest predicted first, if the compiler's report disqualifies the first candidate: each must
// be compiled to get its report.
constexpr std::size_t kInsteadTried = 4;

autotune_origin public_origin(Origin origin) {
    switch (origin) {
        case Origin::exact:
            return AUTOTUNE_ORIGIN_EXACT;
        case Origin::shipped:
            return AUTOTUNE_ORIGIN_SHIPPED;
        case Origin::near:
            return AUTOTUNE_ORIGIN_NEAR;
        case Origin::family_default:
            return AUTOTUNE_ORIGIN_DEFAULT;
        case Origin::pinned:
            return AUTOTUNE_ORIGIN_PINNED;
        case Origin::label:
            return AUTOTUNE_ORIGIN_LABEL;
    }
    return AUTOTUNE_ORIGIN_DEFAULT;
}

ChosenInstance chosen(const ResolvedCandidate& found, const std::shared_ptr<const Instance>& instance,
                      const SharedPlan& when_zero) {
    return {instance, public_origin(found.origin), found.recorded_us, found.recorded_rival_us, found.regret, when_zero};
}

}  // namespace

SharedPlan PlanBuilder::make(const PlanSpec& spec) {
    if (SharedPlan known = cache_.made(spec.key)) return known;
    return making_.run(spec.key, [&]() -> SharedPlan {
        if (SharedPlan known = cache_.made(spec.key)) return known;
        // Read before the work begins, so that the plan counts as old if a refresh follows.
        const std::uint64_t generation = cache_.generation();
        SharedPlan plan = build(spec);
        if (!has_planned_.exchange(true)) process_end::watch(process_end::After::planned);
        cache_.keep(spec.key, plan, generation);
        return plan;
    });
}

// Tries candidates in order. Defaults come last and only if no other candidate serves, because predicting all of them takes
// longest.
SharedPlan PlanBuilder::build(const PlanSpec& spec) {
    const Problem& problem = spec.problem;
    if (services_.catalogue.op_of(problem).empty_sums(problem)) return bind_empty_sum(services_, spec, EmptySumKernel::load);
    Dispatcher& dispatcher = services_.dispatcher;
    const Device& device = services_.device(spec.context.ordinal);
    Attempt attempt{problem, spec, build_when_zero(spec)};
    std::shared_ptr<Plan> plan;
    if (dispatcher.pin().holds_for(problem)) {
        plan = first_usable({{dispatcher.pin().candidate(problem, device), Origin::pinned}}, attempt);
    } else {
        plan = first_usable(dispatcher.stored().winners(problem, device), attempt);
        if (!plan) plan = first_usable(untuned(problem, device, 1), attempt);
        if (!plan && attempt.disqualified) plan = first_usable(untuned(problem, device, kInsteadTried), attempt);
        if (!plan) plan = first_usable(dispatcher.defaults(problem, device), attempt);
        if (!plan && attempt.disqualified) plan = bind_disqualified(attempt);
    }
    if (!plan) std::rethrow_exception(attempt.failure);
    if (attempt.source == Source::none) return plan;
    const bool is_fallback = (attempt.failure || attempt.disqualified) && attempt.source == Source::family_default;
    plan->count_calls(services_.misses.note(problem, device, is_fallback ? Source::fallback : attempt.source));
    return plan;
}

// If a scalar may be zero, calls with zero get a kernel of their own only if that problem has a stored winner. Returns nullptr
// otherwise.
SharedPlan PlanBuilder::build_when_zero(const PlanSpec& spec) {
    if (!spec.zeroed || services_.dispatcher.pin().holds_for(*spec.zeroed)) return nullptr;
    Attempt attempt{*spec.zeroed, spec};
    return first_usable(services_.dispatcher.stored().winners(*spec.zeroed, services_.device(spec.context.ordinal)), attempt);
}

// If a stored winner no longer compiles or loads, there is a warning, and the next candidate is tried. The next one is also tried
// if the compiler's report disqualifies a candidate without a measured time, for example because spills make it three times as
// slow. A next candidate that is predicted to be even slower is skipped: eighty spilled bytes are no reason to take a kernel
// without wgmma.
std::shared_ptr<Plan> PlanBuilder::first_usable(const std::vector<ResolvedCandidate>& candidates, Attempt& attempt) {
    const Device& device = services_.device(attempt.spec.context.ordinal);
    const auto warn = [&](const ResolvedCandidate& found, const char* why) {
        if (!attempt.failure) attempt.failure = std::current_exception();
        services_.log.warn(found.candidate.to_string() + " cannot serve " + attempt.problem.key() + ": " + why);
    };
    std::optional<DisqualifiedCandidate>& disqualified = attempt.disqualified;
    for (const ResolvedCandidate& found : candidates) {
        if (disqualified && predicted_us(found.candidate, attempt.problem, device) > disqualified->likely_us) continue;
        try {
            const auto instance = services_.instances.make(found, attempt.problem, device);
            if (found.source == Source::none || instance->rejected.empty()) {
                auto plan = bind(services_, chosen(found, instance, attempt.when_zero), attempt.problem, attempt.spec);
                attempt.source = found.source;
                return plan;
            }
            services_.log.say(AUTOTUNE_LOG_INFO, found.candidate.to_string() + " is passed over: " + instance->rejected);
            const double likely_us = predicted_us(found.candidate, attempt.problem, device) * instance->slowdown;
            if (!disqualified || likely_us < disqualified->likely_us)
                disqualified = DisqualifiedCandidate{found, instance, likely_us};
        } catch (const Error& error) {
            if (is_final(error)) throw;
            warn(found, error.what());
        } catch (const Failure& error) {
            warn(found, error.what());
        }
    }
    return nullptr;
}

std::shared_ptr<Plan> PlanBuilder::bind_disqualified(Attempt& attempt) {
    const DisqualifiedCandidate& last = *attempt.disqualified;
    auto plan = bind(services_, chosen(last.found, last.instance, attempt.when_zero), attempt.problem, attempt.spec);
    attempt.source = last.found.source;
    return plan;
}

// Usually the best candidate comes first. If it must still be compiled, but a kernel for all row counts is already compiled
// (because a server has warmed it), that kernel comes first. For processes that must agree, neither the order of problems nor the
// compiled kernels matter.
std::vector<ResolvedCandidate> PlanBuilder::untuned(const Problem& problem, const Device& device, std::size_t count) {
    Dispatcher& dispatcher = services_.dispatcher;
    Instances& instances = services_.instances;
    if (!services_.settings.label.empty()) return dispatcher.untuned(problem, device, Dispatcher::ExactWinner::absent, count);
    std::vector<ResolvedCandidate> own = dispatcher.untuned_first(problem, device, count);
    if (!own.empty() && instances.is_compiled(own.front(), problem, device)) return own;
    std::vector<ResolvedCandidate> shared = dispatcher.untuned(problem, device, Dispatcher::ExactWinner::absent, count);
    if (own.empty() || (!shared.empty() && instances.is_compiled(shared.front(), problem, device))) return shared;
    return own;
}

// Returns infinity if the family makes no prediction.
double PlanBuilder::predicted_us(const Candidate& candidate, const Problem& problem, const Device& device) const {
    const auto us = services_.catalogue.find_family(candidate.family)->predict_us(problem, candidate.config, device);
    return us.value_or(std::numeric_limits<double>::infinity());
}

// Loads the kernel that plans of the entry's problem use, or its fallback, into the context; returns which one.
std::string PlanBuilder::make_ready(const WarmupEntry& entry, const PlanSpec& spec) {
    PlanSpec own = spec;
    own.problem = entry.problem;
    own.zeroed.reset();
    Attempt attempt{own.problem, own};
    if (first_usable({entry.found}, attempt))
        return instance_key(services_.catalogue, own.problem, services_.device(own.context.ordinal), entry.found.candidate);
    return build(own)->candidate();
}

std::size_t PlanBuilder::warm(const PlanSpec& spec) {
    if (const auto sums = services_.catalogue.op_of(spec.problem).empty_sums(spec.problem)) {
        make(spec);
        return sums->empty() ? 0 : 1;
    }
    const Device& device = services_.device(spec.context.ordinal);
    std::vector<WarmupEntry> entries = services_.dispatcher.serving(spec.problem, device);
    if (spec.zeroed) {
        for (WarmupEntry& each : services_.dispatcher.serving(*spec.zeroed, device)) entries.push_back(std::move(each));
    }
    std::mutex mutex;
    std::exception_ptr failure;
    std::set<std::string> loaded;
    const gpu::BorrowedContext borrowed(services_.driver);
    // The threads of `workers` end before the objects that they use are destroyed.
    Background workers(static_cast<unsigned>(usable_compilers(0)));
    for (const WarmupEntry& each : entries) {
        workers.add([&] {
            try {
                borrowed.make_current();
                std::string ready = make_ready(each, spec);
                const std::lock_guard lock(mutex);
                loaded.insert(std::move(ready));
            } catch (const abi::__forced_unwind&) {
                throw;
            } catch (...) {
                const std::lock_guard lock(mutex);
                failure = std::current_exception();
            }
        });
    }
    workers.wait();
    if (failure) std::rethrow_exception(failure);
    return loaded.size();
}

}  // namespace autotune::runtime
