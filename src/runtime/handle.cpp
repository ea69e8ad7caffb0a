#include "src/runtime/handle.h"

#include <algorithm>
#include <limits>

#include "src/core/error.h"
#include "src/runtime/fork.h"

namespace autotune::runtime {
namespace {

// A failure that another candidate would meet too.
bool is_final(const Error& error) {
    const auto* driver = dynamic_cast<const gpu::DriverError*>(&error);
    if (driver != nullptr) return driver->severity() != gpu::Severity::refused;
    return error.code() == ErrorCode::internal;
}

}  // namespace

Handle::Handle(Settings settings)
    : settings_(std::move(settings)),
      log_(settings_),
      driver_(gpu::Driver::load()),
      winners_(settings_, catalogue_, log_),
      instances_(settings_, catalogue_, driver_, log_),
      workspaces_(driver_),
      fork_generation_(fork_generation()) {
    if (!settings_.warning.empty()) log_.warn(settings_.warning);
}

bool Handle::is_foreign() const noexcept {
    return fork_generation_ != fork_generation();
}

gpu::CurrentContext Handle::current_context() const {
    const auto context = gpu::current_context(*driver_);
    if (!context)
        throw Failure(AUTOTUNE_NO_CONTEXT,
                      "no CUDA context is current on this thread; make one current (cudaSetDevice and a first "
                      "runtime call, or cuCtxSetCurrent): the library creates none");
    return *context;
}

const Device& Handle::device_of(int ordinal) {
    const std::lock_guard lock(devices_mutex_);
    const auto found = devices_.find(ordinal);
    if (found != devices_.end()) return found->second;
    return devices_.emplace(ordinal, driver_->device(ordinal)).first->second;
}

void Handle::check_supported(const Ask& ask) {
    const gpu::CurrentContext context = current_context();
    runtime::check_supported(catalogue_, ask.problem(catalogue_), device_of(context.ordinal));
}

Handle::Shared Handle::bind(const Chosen& chosen, const Problem& problem, const Wanted& wanted) {
    const std::string& name = chosen.instance->candidate.family;
    const Family* family = catalogue_.find_family(name);
    check(family != nullptr, "no family " + name);
    return std::make_shared<const Plan>(Plan::Parts{driver_, chosen.instance, *family, problem, device_of(wanted.context.ordinal),
                                                    wanted.context.id, chosen.origin, chosen.recorded_us,
                                                    chosen.recorded_rival_us, wanted.ask.form(), errors_});
}

// A stored winner that will not compile or load any more is a warning, and the next candidate's turn.
Handle::Shared Handle::first_that_works(const std::vector<Found>& candidates, const Problem& problem, const Wanted& wanted,
                                        std::exception_ptr& failure) {
    const Device& device = device_of(wanted.context.ordinal);
    const auto warn = [&](const Found& found, const char* why) {
        if (!failure) failure = std::current_exception();
        log_.warn(found.candidate.to_string() + " cannot serve " + problem.key() + ": " + why);
    };
    for (const Found& found : candidates) {
        try {
            return bind({instances_.make(found, problem, device), found.origin, found.recorded_us, found.recorded_rival_us},
                        problem, wanted);
        } catch (const Error& error) {
            if (is_final(error)) throw;
            warn(found, error.what());
        } catch (const Failure& error) {
            warn(found, error.what());
        }
    }
    return nullptr;
}

// Defaults are looked for only where no stored winner serves: predicting all of them takes longer than everything else.
Handle::Shared Handle::best(const Problem& problem, const Wanted& wanted) {
    const Device& device = device_of(wanted.context.ordinal);
    std::exception_ptr failure;
    Shared plan;
    if (winners_.is_pinned(problem)) {
        plan = first_that_works({winners_.pinned(problem, device)}, problem, wanted, failure);
    } else {
        plan = first_that_works(winners_.stored(problem, device), problem, wanted, failure);
        if (!plan) plan = first_that_works(winners_.likely_default(problem, device), problem, wanted, failure);
        if (!plan) plan = first_that_works(winners_.defaults(problem, device), problem, wanted, failure);
    }
    if (!plan) std::rethrow_exception(failure);
    if (plan->origin() == AUTOTUNE_ORIGIN_NEAR || plan->origin() == AUTOTUNE_ORIGIN_DEFAULT)
        winners_.note_miss(problem, device.identity);
    return plan;
}

const Handle::Shared* Handle::made(const PlanKey& key) const {
    const Shared* const kept = plans_.find(key);
    return kept != nullptr && (*kept)->origin() != AUTOTUNE_ORIGIN_LOADED ? kept : nullptr;
}

// Threads that ask for one problem get the plan of the first; those that ask for others do not wait.
Handle::Shared Handle::make(const Wanted& wanted) {
    if (const Shared* kept = made(wanted.key)) return *kept;
    return making_.run(wanted.key, [&]() -> Shared {
        if (const Shared* kept = made(wanted.key)) return *kept;
        const Problem problem = wanted.ask.problem(catalogue_);
        const gpu::RelaxedCapture relaxed(*driver_);
        return *plans_.assign(wanted.key, best(problem, wanted));
    });
}

Handle::Shared Handle::plan(const Ask& ask) {
    const gpu::CurrentContext context = current_context();
    return make({ask, ask.key(context.id), context});
}

// A kernel that was compiled for a wider problem serves this one too, with code that it does not need.
Handle::Shared Handle::any_loaded(const Wanted& wanted, const char* because) {
    const Problem problem = wanted.ask.problem(catalogue_);
    if (Shared plan = loaded_plan(wanted, problem)) return plan;
    if (const auto wider = wanted.ask.wider_problem(catalogue_)) {
        if (Shared plan = loaded_plan(wanted, *wider)) return plan;
    }
    throw Failure(AUTOTUNE_NOT_PLANNED, "no kernel that is loaded can do " + problem.key() + ", and " + because +
                                            "; make its plan before with autotune_" + problem.op + "_plan()");
}

// The loaded kernel that is predicted fastest; nullptr if none can do it.
Handle::Shared Handle::loaded_plan(const Wanted& wanted, const Problem& problem) {
    const Device& device = device_of(wanted.context.ordinal);
    auto loaded = instances_.loaded_for(problem, device);
    const auto predicted = [&](const std::shared_ptr<const Instance>& instance) {
        const Family* family = catalogue_.find_family(instance->candidate.family);
        return family->predict_us(problem, instance->candidate.config, device).value_or(std::numeric_limits<double>::infinity());
    };
    std::stable_sort(loaded.begin(), loaded.end(), [&](const auto& a, const auto& b) { return predicted(a) < predicted(b); });
    const gpu::RelaxedCapture relaxed(*driver_);
    for (const auto& instance : loaded) {
        try {
            return *plans_.assign(wanted.key, bind({instance, AUTOTUNE_ORIGIN_LOADED}, problem, wanted));
        } catch (const Error& error) {
            if (is_final(error)) throw;
            log_.warn(instance->candidate.to_string() + " cannot serve " + problem.key() + ": " + error.what());
        }
    }
    return nullptr;
}

// `kept`: a stand-in that was found for the key, or nullptr.
Handle::Shared Handle::on_miss(const Wanted& wanted, const Shared* kept, gpu::StreamHandle stream) {
    const bool capturing = gpu::is_capturing(*driver_, stream);
    if (settings_.on_miss == AUTOTUNE_ON_MISS_COMPILE && !capturing) return make(wanted);
    if (kept != nullptr) return *kept;
    if (const auto wider = wanted.ask.wider_key(wanted.context.id)) {
        if (const Shared* general = plans_.find(*wider)) return *general;
    }
    if (settings_.on_miss == AUTOTUNE_ON_MISS_NOT_PLANNED) {
        const Problem problem = wanted.ask.problem(catalogue_);
        throw Failure(AUTOTUNE_NOT_PLANNED,
                      "there is no plan for " + problem.key() + "; make it before with autotune_" + problem.op + "_plan()");
    }
    return any_loaded(wanted, capturing ? "the stream is being captured" : "options.on_miss allows no other");
}

// `made` owns a plan that is not kept; the plan is one of the two.
const Plan& Handle::find_or_make(const Wanted& wanted, gpu::StreamHandle stream, Shared& made) {
    const Shared* kept = plans_.find(wanted.key);
    if (kept == nullptr || ((*kept)->origin() == AUTOTUNE_ORIGIN_LOADED && settings_.on_miss == AUTOTUNE_ON_MISS_COMPILE)) {
        made = on_miss(wanted, kept, stream);
        return *made;
    }
    return **kept;
}

autotune_status Handle::run(const Plan& plan, const Plan::Call& call, std::uint64_t context_id, gpu::StreamHandle stream) {
    if (plan.workspace_bytes() == 0) return plan.run(call, stream);
    const Workspace workspace = workspaces_.get({context_id, stream, &plan, plan.workspace_bytes(), plan.workspace_zero_bytes()});
    Plan::Call with_workspace = call;
    with_workspace.workspace = workspace.address;
    with_workspace.workspace_bytes = workspace.bytes;
    return plan.run(with_workspace, stream);
}

autotune_status Handle::tuned(const Ask& ask, const MakeCall& make_call, gpu::StreamHandle stream) {
    const gpu::CurrentContext context = current_context();
    Shared made;
    const Plan& plan = find_or_make({ask, ask.key(context.id), context}, stream, made);
    return run(plan, make_call(plan), context.id, stream);
}

autotune_status Handle::tuned(const Ask& ask, const Plan::Call& call, gpu::StreamHandle stream) {
    const gpu::CurrentContext context = current_context();
    Shared made;
    const Plan& plan = find_or_make({ask, ask.key(context.id), context}, stream, made);
    return run(plan, call, context.id, stream);
}

}  // namespace autotune::runtime
