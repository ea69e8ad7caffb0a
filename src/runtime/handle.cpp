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

void Handle::check_supported(const Ask& ask) {
    const gpu::CurrentContext context = current_context();
    runtime::check_supported(catalogue_, ask.problem(catalogue_), device_of(context.ordinal));
}

// A caller's description in values of our own. A scalar that the problem leaves to each call may be zero in all of them: the
// problem that says so has kernels that do not read what the scalar multiplies.
Handle::Order Handle::order_of(const Wanted& wanted) const {
    Order order{wanted.key, wanted.context, wanted.ask.problem(catalogue_), {}, std::nullopt};
    order.form = wanted.ask.form();
    for (std::size_t i = 0; i < order.problem.scalars.size(); ++i) {
        const std::string& name = order.problem.scalars[i].name;
        if (!order.problem.has_attribute(name) || order.problem.attribute(name) != AttributeValue("any")) continue;
        order.zeroed = wanted.ask.with_word(catalogue_, name, "zero");
        order.zero_scalar = i;
        break;
    }
    return order;
}

std::shared_ptr<Plan> Handle::bind(const Chosen& chosen, const Problem& problem, const Order& order) {
    const std::string name(chosen.instance ? chosen.instance->candidate.family : empty_sum_family().name());
    const Family* family = catalogue_.find_family(name);
    if (family == nullptr) internal_error("no family " + name);
    return std::make_shared<Plan>(Plan::Parts{driver_, chosen.instance, *family, problem, device_of(order.context.ordinal),
                                              order.context.id, chosen.origin, chosen.recorded_us, chosen.recorded_rival_us,
                                              chosen.regret, order.form, errors_, chosen.when_zero, order.zero_scalar, reach_});
}

std::shared_ptr<Plan> Handle::bind_found(const Found& found, const std::shared_ptr<const Instance>& instance, Attempt& attempt) {
    auto plan = bind({instance, found.origin, found.recorded_us, found.recorded_rival_us, found.regret, attempt.when_zero},
                     attempt.problem, attempt.order);
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
std::shared_ptr<Plan> Handle::first_that_works(const std::vector<Found>& candidates, Attempt& attempt) {
    const Device& device = device_of(attempt.order.context.ordinal);
    const auto warn = [&](const Found& found, const char* why) {
        if (!attempt.failure) attempt.failure = std::current_exception();
        log_.warn(found.candidate.to_string() + " cannot serve " + attempt.problem.key() + ": " + why);
    };
    for (const Found& found : candidates) {
        if (attempt.unfit && predicted_us(found.candidate, attempt.problem, device) > attempt.unfit->likely_us) continue;
        try {
            const auto instance = instances_.make(found, attempt.problem, device);
            if (found.source != Source::none && !instance->rejected.empty()) {
                log_.say(AUTOTUNE_LOG_INFO, found.candidate.to_string() + " is passed over: " + instance->rejected);
                const double likely_us = predicted_us(found.candidate, attempt.problem, device) * instance->slowdown;
                if (!attempt.unfit || likely_us < attempt.unfit->likely_us) attempt.unfit = Unfit{found, instance, likely_us};
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
Handle::Shared Handle::best_when_zero(const Order& order) {
    if (!order.zeroed || winners_.is_pinned(*order.zeroed)) return nullptr;
    Attempt attempt{*order.zeroed, order, nullptr, nullptr};
    return first_that_works(winners_.stored(*order.zeroed, device_of(order.context.ordinal)), attempt);
}

// The best for the first problem of a weight, say; but not where that would have to be compiled and one that serves all its
// problems would not: a server had those compiled before.
std::vector<Found> Handle::untuned(const Problem& problem, const Device& device, std::size_t count) {
    std::vector<Found> own = winners_.untuned_first(problem, device, count);
    if (!own.empty() && instances_.is_compiled(own.front(), problem, device)) return own;
    std::vector<Found> shared = winners_.untuned(problem, device, Winners::Own::is_none, count);
    if (own.empty() || (!shared.empty() && instances_.is_compiled(shared.front(), problem, device))) return shared;
    return own;
}

// There is nothing to look up, and nothing is faster.
Handle::Shared Handle::of_nothing(const Order& order, bool if_loaded) {
    Chosen chosen{nullptr, AUTOTUNE_ORIGIN_DEFAULT};
    chosen.regret = 0;
    const Device& device = device_of(order.context.ordinal);
    const Candidate candidate{std::string(empty_sum_family().name()), {}};
    if (!catalogue_.op_of(order.problem).empty_sums(order.problem)->empty()) {
        chosen.instance = if_loaded ? instances_.find(candidate, order.problem, device)
                                    : instances_.make({candidate, AUTOTUNE_ORIGIN_DEFAULT, ""}, order.problem, device);
        if (!chosen.instance) return nullptr;
    }
    return bind(chosen, order.problem, order);
}

// Defaults are looked for only where no other candidate serves: predicting all of them takes longer than everything else.
Handle::Shared Handle::best(const Order& order) {
    if (catalogue_.op_of(order.problem).empty_sums(order.problem)) return of_nothing(order, false);
    const Device& device = device_of(order.context.ordinal);
    Attempt attempt{order.problem, order, best_when_zero(order), nullptr};
    std::shared_ptr<Plan> plan;
    if (winners_.is_pinned(order.problem)) {
        plan = first_that_works({winners_.pinned(order.problem, device)}, attempt);
    } else {
        plan = first_that_works(winners_.stored(order.problem, device), attempt);
        if (!plan) plan = first_that_works(untuned(order.problem, device, 1), attempt);
        if (!plan && attempt.unfit) plan = first_that_works(untuned(order.problem, device, kInsteadTried), attempt);
        if (!plan) plan = first_that_works(winners_.defaults(order.problem, device), attempt);
        if (!plan && attempt.unfit) plan = bind_found(attempt.unfit->found, attempt.unfit->instance, attempt);
    }
    if (!plan) std::rethrow_exception(attempt.failure);
    if (attempt.source == Source::none) return plan;
    const bool is_fallback = (attempt.failure || attempt.unfit) && attempt.source == Source::family_default;
    plan->count_calls(winners_.note_miss(order.problem, device.identity, is_fallback ? Source::fallback : attempt.source));
    return plan;
}

Handle::Shared Handle::made(const PlanKey& key) const {
    const Reading reading;
    const Kept* const kept = plans_.find(key, reading);
    const bool is_made = kept != nullptr && kept->kind == Kept::Kind::made && kept->generation == generation_;
    return is_made ? kept->plan : nullptr;
}

std::optional<Handle::Kept> Handle::kept_for(const PlanKey& key) const {
    const Reading reading;
    const Kept* const found = plans_.find(key, reading);
    return found == nullptr ? std::nullopt : std::optional(*found);
}

// Threads that ask for one problem get the plan of the first; those that ask for others do not wait.
Handle::Shared Handle::make(const Order& order) {
    if (Shared known = made(order.key)) return known;
    return making_.run(order.key, [&]() -> Shared {
        if (Shared known = made(order.key)) return known;
        const std::uint64_t generation = generation_;  // a refresh from here on makes the plan an old one
        Shared plan = best(order);
        if (!has_planned_.exchange(true)) process_end::watch(process_end::After::planned);
        const bool stays = settings_.on_miss == AUTOTUNE_ON_MISS_NOT_PLANNED || settings_.on_miss == AUTOTUNE_ON_MISS_LOADED_ONLY;
        plans_.assign(order.key, {plan, generation, Kept::Kind::made, nullptr, stays});
        return plan;
    });
}

Handle::Shared Handle::plan(const Ask& ask) {
    const gpu::CurrentContext context = current_context();
    const PlanKey key = ask.key(context.id);
    if (Shared known = made(key)) return known;
    const process_end::Section section;
    return make(order_of({ask, key, context}));
}

void Handle::refresh() {
    if (winners_.refresh()) ++generation_;
}

// Loads the kernel that plans of a served problem take into the context, or what they fall back on; says which.
std::string Handle::make_ready(const Served& served, const Order& order) {
    Order own = order;
    own.problem = served.problem;
    own.zeroed.reset();
    Attempt attempt{own.problem, own, nullptr, nullptr};
    if (first_that_works({served.found}, attempt))
        return instance_key(catalogue_, own.problem, device_of(own.context.ordinal), served.found.candidate);
    return best(own)->candidate();
}

std::size_t Handle::warm(const Ask& ask) {
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
    const Order order = order_of({ask, ask.key(context.id), context});
    if (const auto sums = catalogue_.op_of(order.problem).empty_sums(order.problem)) {
        make(order);
        return sums->empty() ? 0 : 1;
    }
    const Device& device = device_of(context.ordinal);
    std::vector<Served> served = winners_.serving(order.problem, device);
    if (order.zeroed) {
        for (Served& each : winners_.serving(*order.zeroed, device)) served.push_back(std::move(each));
    }
    std::mutex mutex;
    std::exception_ptr failure;
    std::set<std::string> loaded;
    const gpu::BorrowedContext borrowed(driver_);
    Background workers(static_cast<unsigned>(usable_compilers(0)));  // ends before what its threads use
    for (const Served& each : served) {
        workers.add([&] {
            try {
                borrowed.make_current();
                std::string ready = make_ready(each, order);
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
Handle::Shared Handle::any_loaded(const Wanted& wanted, const Order& order, const char* because, Scratch* scratch) {
    if (catalogue_.op_of(order.problem).empty_sums(order.problem))
        if (Shared plan = of_nothing(order, true)) return plan;
    Shared fastest;
    const auto is_enough = [&](const Shared& plan) {
        if (scratch == nullptr) return true;
        const Workspaces::Request request = request_of(*plan, order.context.id, scratch->stream);
        if (workspaces_.holds(request)) return !fastest || plan->predicted_us() <= fastest->predicted_us() + kMostLossUs;
        if (!fastest) fastest = plan, scratch->lacking = request;
        return false;
    };
    const auto of = [&](const Problem& problem) {
        Shared plan = loaded_plan(order, problem, 1, is_enough);
        return plan || !fastest ? plan : loaded_plan(order, problem, kStandInsTried, is_enough);
    };
    if (Shared plan = of(order.problem)) return plan;
    for (const Problem& wider : wanted.ask.wider_problems(catalogue_))
        if (Shared plan = of(wider)) return plan;
    if (fastest) {
        scratch->lacking.reset();  // the call asks for it
        return fastest;
    }
    throw Failure(AUTOTUNE_NOT_PLANNED, "no kernel that is loaded can do " + order.problem.key() + ", and " + because +
                                            "; make its plan before with autotune_" + order.problem.op + "_plan()");
}

Handle::Shared Handle::loaded_plan(const Order& order, const Problem& problem, std::size_t count, const Judge& is_enough) {
    const Device& device = device_of(order.context.ordinal);
    for (const auto& instance : instances_.loaded_for(problem, device, count)) {
        try {
            const Shared plan = bind({instance, AUTOTUNE_ORIGIN_LOADED}, problem, order);
            if (is_enough(plan)) return plan;
        } catch (const Error& error) {
            if (is_final(error)) throw;
            log_.warn(instance->candidate.to_string() + " cannot serve " + problem.key() + ": " + error.what());
        }
    }
    return nullptr;
}

// The best kernel is made on a thread of the library, whether or not another can stand in for it until then.
Handle::Shared Handle::in_background(const Wanted& wanted, const Kept* known, gpu::StreamHandle stream) {
    const auto order = std::make_shared<const Order>(order_of(wanted));
    Scratch scratch{stream};
    Shared plan = known != nullptr ? known->plan : nullptr;
    if (!plan) {
        if (const auto wider = wanted.ask.wider_key(wanted.context.id))
            if (const auto general = kept_for(*wider)) plan = general->plan;
    }
    std::exception_ptr failure;
    const auto is_awaited = std::make_shared<std::atomic<bool>>(false);
    try {
        if (!plan) plan = any_loaded(wanted, *order, "its own is being compiled", &scratch);
        plans_.assign(wanted.key, {plan, generation_, Kept::Kind::stand_in, is_awaited});
    } catch (const Failure&) {
        failure = std::current_exception();
    }
    const auto work = [this, order, context = gpu::BorrowedContext(driver_), lacking = scratch.lacking] {
        try {
            context.make_current();
            if (lacking) reserve_scratch(*lacking);
            make(*order);
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
Handle::Shared Handle::on_miss(const Wanted& wanted, const Kept* known, gpu::StreamHandle stream) {
    const bool capturing = gpu::is_capturing(*driver_, stream);
    if (settings_.on_miss == AUTOTUNE_ON_MISS_COMPILE && !capturing) return make(order_of(wanted));
    if (settings_.on_miss == AUTOTUNE_ON_MISS_BACKGROUND && !capturing) return in_background(wanted, known, stream);
    if (known != nullptr) return known->plan;
    if (const auto wider = wanted.ask.wider_key(wanted.context.id)) {
        if (const auto general = kept_for(*wider)) return general->plan;
    }
    if (settings_.on_miss == AUTOTUNE_ON_MISS_NOT_PLANNED) {
        const Problem problem = wanted.ask.problem(catalogue_);
        const auto sums = catalogue_.op_of(problem).empty_sums(problem);
        if (sums && sums->empty()) return make(order_of(wanted));  // nothing is looked up, compiled or loaded
        throw Failure(AUTOTUNE_NOT_PLANNED,
                      "there is no plan for " + problem.key() + "; make it before with autotune_" + problem.op + "_plan()");
    }
    const char* const because = capturing ? "the stream is being captured" : "options.on_miss allows no other";
    Shared plan = any_loaded(wanted, order_of(wanted), because, nullptr);
    plans_.assign(wanted.key, {plan, generation_, Kept::Kind::stand_in});
    return plan;
}

// Whether a call may run what is kept without asking what else there is.
bool Handle::may_serve(const Kept& kept) const noexcept {
    if (kept.generation != generation_.load(std::memory_order_relaxed)) return false;
    if (kept.kind == Kept::Kind::made || (kept.is_awaited && kept.is_awaited->load(std::memory_order_relaxed))) return true;
    return settings_.on_miss == AUTOTUNE_ON_MISS_LOADED_ONLY || settings_.on_miss == AUTOTUNE_ON_MISS_NOT_PLANNED;
}

// A call whose plan is not there, or is not the best.
autotune_status Handle::run_missing(const Wanted& wanted, const MakeCall& make_call, gpu::StreamHandle stream) {
    const NoCancel no_cancel;
    const process_end::Section section;
    std::optional<LoadGate::Call> must_be_short;
    if (settings_.on_miss == AUTOTUNE_ON_MISS_BACKGROUND) must_be_short.emplace(gate_);
    const std::optional<Kept> known = kept_for(wanted.key);
    Shared plan;
    try {
        plan = known && may_serve(*known) ? known->plan : on_miss(wanted, known ? &*known : nullptr, stream);
    } catch (const gpu::DriverError&) {
        refuse_foreign_stream(stream);
        throw;
    }
    return run(*plan, make_call(*plan), wanted.context.id, stream);
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

autotune_status Handle::tuned(const Ask& ask, const MakeCall& make_call, gpu::StreamHandle stream) {
    const std::uint64_t context_id = current_context_id();
    const PlanKey key = ask.key(context_id);
    {
        const Reading reading;
        if (const Kept* const kept = plans_.find(key, reading); kept != nullptr && may_serve(*kept))
            return run(*kept->plan, make_call(*kept->plan), context_id, stream);
    }
    return run_missing({ask, key, {context_id, gpu::current_ordinal(*driver_)}}, make_call, stream);
}

autotune_status Handle::tuned(const Ask& ask, const Plan::Call& call, gpu::StreamHandle stream) {
    const std::uint64_t context_id = current_context_id();
    const PlanKey key = ask.key(context_id);
    {
        const Reading reading;
        if (const Kept* const kept = plans_.find(key, reading); kept != nullptr && may_serve(*kept))
            return run(*kept->plan, call, context_id, stream);
    }
    return run_missing(
        {ask, key, {context_id, gpu::current_ordinal(*driver_)}}, [&call](const Plan&) { return call; }, stream);
}

}  // namespace autotune::runtime
