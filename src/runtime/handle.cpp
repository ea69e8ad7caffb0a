#include "src/runtime/handle.h"

#include <cxxabi.h>

#include <algorithm>
#include <limits>
#include <set>
#include <thread>

#include "kernel_templates/empty_sum.h"
#include "kernel_templates/offers.h"
#include "src/core/error.h"
#include "src/core/processors.h"
#include "src/gpu/borrowed_context.h"
#include "src/gpu/ownership.h"
#include "src/runtime/fork.h"
#include "src/runtime/no_cancel.h"
#include "src/runtime/process_end.h"

namespace autotune::runtime {
namespace {

// More than the general kernels take that divide K, whatever the extents: tiles are few where they do. A plan that takes more
// copies large operands first; beside what that takes, an allocation is short.
constexpr std::size_t kReservedScratchBytes = std::size_t{64} << 20;
// Of plans, each of some 6 to 16 KB: a program that asks for 20,000 numbers of rows would keep 200 MB of them.
constexpr std::size_t kMostPlanBytes = std::size_t{16} << 20;
// Of the loaded kernels of a problem, where the fastest takes more scratch than there is: each takes some 20 us.
constexpr std::size_t kStandInsTried = 4;
// Of those predicted fastest, where the compiler's report disqualifies the first: each is compiled to read its report.
constexpr std::size_t kInsteadTried = 4;
// By how much such another may be slower, as predicted. An allocation of a gigabyte takes the caller some 2 ms.
constexpr double kMostLossUs = 10'000;

Workspaces::Request request_of(const Plan& plan, std::uint64_t context_id, gpu::StreamHandle stream) {
    return {context_id, stream, plan.workspace_bytes(), plan.workspace_zero_bytes()};
}

// A failure that another candidate would meet too.
bool is_final(const Error& error) {
    const auto* driver = dynamic_cast<const gpu::DriverError*>(&error);
    if (driver != nullptr) return driver->severity() != gpu::Severity::refused;
    return error.code() == ErrorCode::internal;
}

}  // namespace

Handle::Handle(Settings settings, const std::vector<GeneralKernel>& general)
    : settings_(std::move(settings)),
      log_(settings_),
      driver_(gpu::Driver::load()),
      reach_(gpu::Reach::of(driver_)),
      winners_(settings_, catalogue_, log_),
      gate_(settings_.on_miss == AUTOTUNE_ON_MISS_BACKGROUND),
      instances_(settings_, catalogue_, driver_, log_, gate_),
      workspaces_(driver_),
      plans_(kMostPlanBytes),
      fork_generation_(fork_generation()),
      background_(static_cast<unsigned>(std::clamp(usable_processors() / 2, 1, 8))) {
    process_end::watch(process_end::After::driver_opened);
    if (!settings_.warning.empty()) log_.warn(settings_.warning);
    if (settings_.on_miss != AUTOTUNE_ON_MISS_BACKGROUND) return;
    load_general_kernels(general);
    if (const auto current = gpu::current_context(*driver_))
        reserve_scratch({.context_id = current->id, .bytes = kReservedScratchBytes});
    background_.start();  // a thread takes longer to make than a call may take
}

bool Handle::is_foreign() const noexcept {
    return fork_generation_ != fork_generation();
}

std::uint64_t Handle::current_context_id() const {
    const auto id = gpu::current_context_id(*driver_);
    if (!id)
        throw Failure(AUTOTUNE_NO_CONTEXT,
                      "no CUDA context is current on this thread; make one current (cudaSetDevice and a first "
                      "runtime call, or cuCtxSetCurrent): the library creates none");
    return *id;
}

gpu::CurrentContext Handle::current_context() const {
    const std::uint64_t id = current_context_id();
    return {id, gpu::current_ordinal(*driver_)};
}

const Device& Handle::device_of(int ordinal) {
    const std::lock_guard lock(devices_mutex_);
    const auto found = devices_.find(ordinal);
    if (found != devices_.end()) return found->second;
    return devices_.emplace(ordinal, driver_->device(ordinal)).first->second;
}

void Handle::check_supported(const PlanRequest& request) {
    const gpu::CurrentContext context = current_context();
    runtime::check_supported(catalogue_, request.problem(catalogue_), device_of(context.ordinal));
}

// A caller's description in values of our own. A scalar that the problem leaves to each call may be zero in all of them: the
// problem that says so has kernels that do not read what the scalar multiplies.
Handle::PlanSpec Handle::spec_of(const PlanLookup& lookup) const {
    PlanSpec spec{lookup.key, lookup.context, lookup.request.problem(catalogue_), {}, std::nullopt};
    spec.form = lookup.request.form();
    for (std::size_t i = 0; i < spec.problem.scalars.size(); ++i) {
        const std::string& name = spec.problem.scalars[i].name;
        if (!spec.problem.has_attribute(name) || spec.problem.attribute(name) != AttributeValue("any")) continue;
        spec.zeroed = lookup.request.with_word(catalogue_, name, "zero");
        spec.zero_scalar = i;
        break;
    }
    return spec;
}

std::shared_ptr<Plan> Handle::bind(const Chosen& chosen, const Problem& problem, const PlanSpec& spec) {
    const std::string name(chosen.instance ? chosen.instance->candidate.family : empty_sum_family().name());
    const Family* family = catalogue_.find_family(name);
    if (family == nullptr) internal_error("no family " + name);
    return std::make_shared<Plan>(Plan::Parts{driver_, chosen.instance, *family, problem, device_of(spec.context.ordinal),
                                              spec.context.id, chosen.origin, chosen.recorded_us, chosen.recorded_rival_us,
                                              chosen.regret, spec.form, errors_, chosen.when_zero, spec.zero_scalar, reach_});
}

std::shared_ptr<Plan> Handle::bind_found(const ResolvedCandidate& found, const std::shared_ptr<const Instance>& instance,
                                         Attempt& attempt) {
    auto plan = bind({instance, found.origin, found.recorded_us, found.recorded_rival_us, found.regret, attempt.when_zero},
                     attempt.problem, attempt.spec);
    attempt.source = found.source;
    return plan;
}

// Infinity where its family has no opinion.
double Handle::predicted_us(const Candidate& candidate, const Problem& problem, const Device& device) const {
    const auto us = catalogue_.find_family(candidate.family)->predict_us(problem, candidate.config, device);
    return us.value_or(std::numeric_limits<double>::infinity());
}

// A stored winner that will not compile or load any more is a warning, and the next candidate's turn. It is also the next one's
// turn after one that nobody measured for this problem and the tuner would not measure either: it spills, say, and takes three
// times as long. But not where the next one is predicted to be slower than that: eighty bytes spilled are no reason to take a
// kernel without wgmma.
std::shared_ptr<Plan> Handle::first_usable(const std::vector<ResolvedCandidate>& candidates, Attempt& attempt) {
    const Device& device = device_of(attempt.spec.context.ordinal);
    const auto warn = [&](const ResolvedCandidate& found, const char* why) {
        if (!attempt.failure) attempt.failure = std::current_exception();
        log_.warn(found.candidate.to_string() + " cannot serve " + attempt.problem.key() + ": " + why);
    };
    for (const ResolvedCandidate& found : candidates) {
        if (attempt.disqualified && predicted_us(found.candidate, attempt.problem, device) > attempt.disqualified->likely_us)
            continue;
        try {
            const auto instance = instances_.make(found, attempt.problem, device);
            if (found.source != Source::none && !instance->rejected.empty()) {
                log_.say(AUTOTUNE_LOG_INFO, found.candidate.to_string() + " is passed over: " + instance->rejected);
                const double likely_us = predicted_us(found.candidate, attempt.problem, device) * instance->slowdown;
                if (!attempt.disqualified || likely_us < attempt.disqualified->likely_us)
                    attempt.disqualified = DisqualifiedCandidate{found, instance, likely_us};
                continue;
            }
            return bind_found(found, instance, attempt);
        } catch (const Error& error) {
            if (is_final(error)) throw;
            warn(found, error.what());
        } catch (const Failure& error) {
            warn(found, error.what());
        }
    }
    return nullptr;
}

// A kernel of its own for calls in which the scalar is zero is worth compiling where somebody tuned one. nullptr otherwise.
Handle::Shared Handle::best_when_zero(const PlanSpec& spec) {
    if (!spec.zeroed || winners_.is_pinned(*spec.zeroed)) return nullptr;
    Attempt attempt{*spec.zeroed, spec, nullptr, nullptr};
    return first_usable(winners_.stored(*spec.zeroed, device_of(spec.context.ordinal)), attempt);
}

// The best for the first problem of a weight, say; but not where that would have to be compiled and one that serves all its
// problems would not: a server had those compiled before.
std::vector<ResolvedCandidate> Handle::untuned(const Problem& problem, const Device& device, std::size_t count) {
    std::vector<ResolvedCandidate> own = winners_.untuned_first(problem, device, count);
    if (!own.empty() && instances_.is_compiled(own.front(), problem, device)) return own;
    std::vector<ResolvedCandidate> shared = winners_.untuned(problem, device, Winners::ExactWinner::absent, count);
    if (own.empty() || (!shared.empty() && instances_.is_compiled(shared.front(), problem, device))) return shared;
    return own;
}

// There is nothing to look up, and nothing is faster.
Handle::Shared Handle::of_nothing(const PlanSpec& spec, bool if_loaded) {
    Chosen chosen{nullptr, AUTOTUNE_ORIGIN_DEFAULT};
    chosen.regret = 0;
    const Device& device = device_of(spec.context.ordinal);
    const Candidate candidate{std::string(empty_sum_family().name()), {}};
    if (!catalogue_.op_of(spec.problem).empty_sums(spec.problem)->empty()) {
        chosen.instance = if_loaded ? instances_.find(candidate, spec.problem, device)
                                    : instances_.make({candidate, AUTOTUNE_ORIGIN_DEFAULT, ""}, spec.problem, device);
        if (!chosen.instance) return nullptr;
    }
    return bind(chosen, spec.problem, spec);
}

// Defaults are looked for only where no other candidate serves: predicting all of them takes longer than everything else.
Handle::Shared Handle::best(const PlanSpec& spec) {
    if (catalogue_.op_of(spec.problem).empty_sums(spec.problem)) return of_nothing(spec, false);
    const Device& device = device_of(spec.context.ordinal);
    Attempt attempt{spec.problem, spec, best_when_zero(spec), nullptr};
    std::shared_ptr<Plan> plan;
    if (winners_.is_pinned(spec.problem)) {
        plan = first_usable({winners_.pinned(spec.problem, device)}, attempt);
    } else {
        plan = first_usable(winners_.stored(spec.problem, device), attempt);
        if (!plan) plan = first_usable(untuned(spec.problem, device, 1), attempt);
        if (!plan && attempt.disqualified) plan = first_usable(untuned(spec.problem, device, kInsteadTried), attempt);
        if (!plan) plan = first_usable(winners_.defaults(spec.problem, device), attempt);
        if (!plan && attempt.disqualified)
            plan = bind_found(attempt.disqualified->found, attempt.disqualified->instance, attempt);
    }
    if (!plan) std::rethrow_exception(attempt.failure);
    if (attempt.source == Source::none) return plan;
    const bool is_fallback = (attempt.failure || attempt.disqualified) && attempt.source == Source::family_default;
    plan->count_calls(winners_.note_miss(spec.problem, device.identity, is_fallback ? Source::fallback : attempt.source));
    return plan;
}

Handle::Shared Handle::made(const PlanKey& key) const {
    const Reading reading;
    const CachedPlan* const cached = plans_.find(key, reading);
    const bool is_made = cached != nullptr && cached->kind == CachedPlan::Kind::made && cached->generation == generation_;
    return is_made ? cached->plan : nullptr;
}

std::optional<Handle::CachedPlan> Handle::cached_for(const PlanKey& key) const {
    const Reading reading;
    const CachedPlan* const found = plans_.find(key, reading);
    return found == nullptr ? std::nullopt : std::optional(*found);
}

// Threads that ask for one problem get the plan of the first; those that ask for others do not wait.
Handle::Shared Handle::make(const PlanSpec& spec) {
    if (Shared known = made(spec.key)) return known;
    return making_.run(spec.key, [&]() -> Shared {
        if (Shared known = made(spec.key)) return known;
        const std::uint64_t generation = generation_;  // a refresh from here on makes the plan an old one
        Shared plan = best(spec);
        if (!has_planned_.exchange(true)) process_end::watch(process_end::After::planned);
        const bool stays = settings_.on_miss == AUTOTUNE_ON_MISS_NOT_PLANNED || settings_.on_miss == AUTOTUNE_ON_MISS_LOADED_ONLY;
        plans_.assign(spec.key, {plan, generation, CachedPlan::Kind::made, nullptr, stays});
        return plan;
    });
}

Handle::Shared Handle::plan(const PlanRequest& request) {
    const gpu::CurrentContext context = current_context();
    const PlanKey key = request.key(context.id);
    if (Shared known = made(key)) return known;
    const process_end::Section section;
    return make(spec_of({request, key, context}));
}

void Handle::refresh() {
    if (winners_.refresh()) ++generation_;
}

// Loads the kernel that plans of a served problem take into the context, or what they fall back on; says which.
std::string Handle::make_ready(const WarmupEntry& served, const PlanSpec& spec) {
    PlanSpec own = spec;
    own.problem = served.problem;
    own.zeroed.reset();
    Attempt attempt{own.problem, own, nullptr, nullptr};
    if (first_usable({served.found}, attempt))
        return instance_key(catalogue_, own.problem, device_of(own.context.ordinal), served.found.candidate);
    return best(own)->candidate();
}

std::size_t Handle::warm(const PlanRequest& request) {
    const process_end::Section section;
    struct Counted {
        explicit Counted(std::atomic<int>& given) : count(given) { ++count; }
        ~Counted() { --count; }
        Counted(const Counted&) = delete;
        Counted& operator=(const Counted&) = delete;
        std::atomic<int>& count;
    };
    const Counted counted(warming_);
    const gpu::CurrentContext context = current_context();
    const PlanSpec spec = spec_of({request, request.key(context.id), context});
    if (const auto sums = catalogue_.op_of(spec.problem).empty_sums(spec.problem)) {
        make(spec);
        return sums->empty() ? 0 : 1;
    }
    const Device& device = device_of(context.ordinal);
    std::vector<WarmupEntry> served = winners_.serving(spec.problem, device);
    if (spec.zeroed) {
        for (WarmupEntry& each : winners_.serving(*spec.zeroed, device)) served.push_back(std::move(each));
    }
    std::mutex mutex;
    std::exception_ptr failure;
    std::set<std::string> loaded;
    const gpu::BorrowedContext borrowed(driver_);
    Background workers(static_cast<unsigned>(usable_compilers(0)));  // ends before what its threads use
    for (const WarmupEntry& each : served) {
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

// A kernel that was compiled for a wider problem serves this one too, with code that it does not need.
Handle::Shared Handle::best_loaded_stand_in(const PlanLookup& lookup, const PlanSpec& spec, const char* because,
                                            Scratch* scratch) {
    if (catalogue_.op_of(spec.problem).empty_sums(spec.problem))
        if (Shared plan = of_nothing(spec, true)) return plan;
    Shared fastest;
    const auto is_enough = [&](const Shared& plan) {
        if (scratch == nullptr) return true;
        const Workspaces::Request request = request_of(*plan, spec.context.id, scratch->stream);
        if (workspaces_.holds(request)) return !fastest || plan->predicted_us() <= fastest->predicted_us() + kMostLossUs;
        if (!fastest) fastest = plan, scratch->lacking = request;
        return false;
    };
    const auto of = [&](const Problem& problem) {
        Shared plan = loaded_plan(spec, problem, 1, is_enough);
        return plan || !fastest ? plan : loaded_plan(spec, problem, kStandInsTried, is_enough);
    };
    if (Shared plan = of(spec.problem)) return plan;
    for (const Problem& wider : lookup.request.wider_problems(catalogue_))
        if (Shared plan = of(wider)) return plan;
    if (fastest) {
        scratch->lacking.reset();  // the call asks for it
        return fastest;
    }
    throw Failure(AUTOTUNE_NOT_PLANNED, "no kernel that is loaded can do " + spec.problem.key() + ", and " + because +
                                            "; make its plan before with autotune_" + spec.problem.op + "_plan()");
}

Handle::Shared Handle::loaded_plan(const PlanSpec& spec, const Problem& problem, std::size_t count, const Judge& is_enough) {
    const Device& device = device_of(spec.context.ordinal);
    for (const auto& instance : instances_.loaded_for(problem, device, count)) {
        try {
            const Shared plan = bind({instance, AUTOTUNE_ORIGIN_LOADED}, problem, spec);
            if (is_enough(plan)) return plan;
        } catch (const Error& error) {
            if (is_final(error)) throw;
            log_.warn(instance->candidate.to_string() + " cannot serve " + problem.key() + ": " + error.what());
        }
    }
    return nullptr;
}

// The best kernel is made on a thread of the library, whether or not another can stand in for it until then.
Handle::Shared Handle::in_background(const PlanLookup& lookup, const CachedPlan* known, gpu::StreamHandle stream) {
    const auto spec = std::make_shared<const PlanSpec>(spec_of(lookup));
    Scratch scratch{stream};
    Shared plan = known != nullptr ? known->plan : nullptr;
    if (!plan) {
        if (const auto wider = lookup.request.wider_key(lookup.context.id))
            if (const auto general = cached_for(*wider)) plan = general->plan;
    }
    std::exception_ptr failure;
    const auto is_awaited = std::make_shared<std::atomic<bool>>(false);
    try {
        if (!plan) plan = best_loaded_stand_in(lookup, *spec, "its own is being compiled", &scratch);
        plans_.assign(lookup.key, {plan, generation_, CachedPlan::Kind::stand_in, is_awaited});
    } catch (const Failure&) {
        failure = std::current_exception();
    }
    const auto work = [this, spec, context = gpu::BorrowedContext(driver_), lacking = scratch.lacking] {
        try {
            context.make_current();
            if (lacking) reserve_scratch(*lacking);
            make(*spec);
        } catch (const abi::__forced_unwind&) {
            throw;
        } catch (...) {
            log_.warn("in the background: " + describe_current_exception().message);
        }
    };
    try {
        background_.add(work);
        is_awaited->store(true, std::memory_order_relaxed);
    } catch (const std::exception&) {  // no thread or no memory for it: a later call tries again
    }
    if (failure) std::rethrow_exception(failure);
    return plan;
}

// `known`: a stand-in or an older plan that was found for the key, or nullptr.
Handle::Shared Handle::on_miss(const PlanLookup& lookup, const CachedPlan* known, gpu::StreamHandle stream) {
    const bool capturing = gpu::is_capturing(*driver_, stream);
    if (settings_.on_miss == AUTOTUNE_ON_MISS_COMPILE && !capturing) return make(spec_of(lookup));
    if (settings_.on_miss == AUTOTUNE_ON_MISS_BACKGROUND && !capturing) return in_background(lookup, known, stream);
    if (known != nullptr) return known->plan;
    if (const auto wider = lookup.request.wider_key(lookup.context.id)) {
        if (const auto general = cached_for(*wider)) return general->plan;
    }
    if (settings_.on_miss == AUTOTUNE_ON_MISS_NOT_PLANNED) {
        const Problem problem = lookup.request.problem(catalogue_);
        const auto sums = catalogue_.op_of(problem).empty_sums(problem);
        if (sums && sums->empty()) return make(spec_of(lookup));  // nothing is looked up, compiled or loaded
        throw Failure(AUTOTUNE_NOT_PLANNED,
                      "there is no plan for " + problem.key() + "; make it before with autotune_" + problem.op + "_plan()");
    }
    const char* const because = capturing ? "the stream is being captured" : "options.on_miss allows no other";
    Shared plan = best_loaded_stand_in(lookup, spec_of(lookup), because, nullptr);
    plans_.assign(lookup.key, {plan, generation_, CachedPlan::Kind::stand_in});
    return plan;
}

// Whether a call may run what is kept without asking what else there is.
bool Handle::may_serve(const CachedPlan& cached) const noexcept {
    if (cached.generation != generation_.load(std::memory_order_relaxed)) return false;
    if (cached.kind == CachedPlan::Kind::made || (cached.is_awaited && cached.is_awaited->load(std::memory_order_relaxed)))
        return true;
    return settings_.on_miss == AUTOTUNE_ON_MISS_LOADED_ONLY || settings_.on_miss == AUTOTUNE_ON_MISS_NOT_PLANNED;
}

// A call whose plan is not there, or is not the best.
autotune_status Handle::run_missing(const PlanLookup& lookup, const MakeCall& make_call, gpu::StreamHandle stream) {
    const NoCancel no_cancel;
    const process_end::Section section;
    std::optional<LoadGate::Call> must_be_short;
    if (settings_.on_miss == AUTOTUNE_ON_MISS_BACKGROUND) must_be_short.emplace(gate_);
    const std::optional<CachedPlan> known = cached_for(lookup.key);
    Shared plan;
    try {
        plan = known && may_serve(*known) ? known->plan : on_miss(lookup, known ? &*known : nullptr, stream);
    } catch (const gpu::DriverError&) {
        refuse_foreign_stream(stream);
        throw;
    }
    return run(*plan, make_call(*plan), lookup.context.id, stream);
}

// What does not compile is a warning: other kernels may do.
void Handle::load_general_kernel(const GeneralKernel& general, const Device& device, bool into_context) {
    const Problem problem = catalogue_.problem(general.request);
    const Family& family = *catalogue_.find_family(general.family);
    if (&family != &empty_sum_family() && family.refuses(problem, device)) return;
    try {
        const Candidate candidate{general.family, family.default_config(problem, device)};
        if (candidate.config.empty() && &family != &empty_sum_family()) return;
        instances_.make({candidate, AUTOTUNE_ORIGIN_DEFAULT, ""}, problem, device, into_context);
    } catch (const abi::__forced_unwind&) {
        throw;
    } catch (...) {
        log_.warn("a general kernel for " + problem.class_key() + ": " + describe_current_exception().message);
    }
}

// For every device's architecture, and into the context that is current, if one is.
void Handle::load_general_kernels(const std::vector<GeneralKernel>& kernels) {
    const auto current = gpu::current_context(*driver_);
    const auto borrowed = current ? std::optional<gpu::BorrowedContext>(driver_) : std::nullopt;
    std::set<std::string> archs;
    Background workers(static_cast<unsigned>(usable_compilers(0)));
    const auto load_on = [&](int ordinal) {
        const Device& device = device_of(ordinal);
        if (!archs.insert(device.arch()).second) return;
        const bool into_context = current && current->ordinal == ordinal;
        for (const GeneralKernel& general : kernels) {
            workers.add([this, &device, &borrowed, general, into_context] {
                if (into_context) borrowed->make_current();
                load_general_kernel(general, device, into_context);
            });
        }
    };
    if (current) load_on(current->ordinal);
    for (int ordinal = 0; ordinal < driver_->device_count(); ++ordinal) load_on(ordinal);
    workers.wait();
}

// To ask the driver for memory takes longer than a call may take. Where there is none, a call that needs it asks itself.
void Handle::reserve_scratch(const Workspaces::Request& request) {
    try {
        const LoadGate::Turn turn(gate_);
        workspaces_.reserve(request);
    } catch (const gpu::DriverError& error) {
        log_.warn(std::string("no scratch memory is reserved: ") + error.what());
    }
}

// What the driver says of a stream of another context has many names.
void Handle::refuse_foreign_stream(gpu::StreamHandle stream) const {
    if (gpu::is_stream_of_another_context(*driver_, stream)) throw Failure(AUTOTUNE_INVALID_ARGUMENT, Plan::kForeignStream);
}

autotune_status Handle::run(const Plan& plan, const Plan::Call& call, std::uint64_t context_id, gpu::StreamHandle stream) {
    if (plan.workspace_bytes() == 0) return plan.run(call, stream);
    Workspace workspace;
    try {
        workspace = workspaces_.get(request_of(plan, context_id, stream));
    } catch (const gpu::DriverError&) {
        refuse_foreign_stream(stream);
        throw;
    }
    Plan::Call with_workspace = call;
    with_workspace.workspace = workspace.address;
    with_workspace.workspace_bytes = workspace.bytes;
    return plan.run(with_workspace, stream);
}

autotune_status Handle::tuned(const PlanRequest& request, const MakeCall& make_call, gpu::StreamHandle stream) {
    const std::uint64_t context_id = current_context_id();
    const PlanKey key = request.key(context_id);
    {
        const Reading reading;
        if (const CachedPlan* const cached = plans_.find(key, reading); cached != nullptr && may_serve(*cached))
            return run(*cached->plan, make_call(*cached->plan), context_id, stream);
    }
    return run_missing({request, key, {context_id, gpu::current_ordinal(*driver_)}}, make_call, stream);
}

autotune_status Handle::tuned(const PlanRequest& request, const Plan::Call& call, gpu::StreamHandle stream) {
    const std::uint64_t context_id = current_context_id();
    const PlanKey key = request.key(context_id);
    {
        const Reading reading;
        if (const CachedPlan* const cached = plans_.find(key, reading); cached != nullptr && may_serve(*cached))
            return run(*cached->plan, call, context_id, stream);
    }
    return run_missing(
        {request, key, {context_id, gpu::current_ordinal(*driver_)}}, [&call](const Plan&) { return call; }, stream);
}

}  // namespace autotune::runtime
