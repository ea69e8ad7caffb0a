#include "src/runtime/api/handle.h"

#include <cxxabi.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "src/core/system/processors.h"
#include "src/gpu/driver/borrowed_context.h"
#include "src/runtime/process/fork.h"
#include "src/runtime/process/no_cancel.h"
#include "src/runtime/process/process_end.h"

namespace autotune::runtime {
namespace {

// General kernels never need more, because they divide K only if tiles are few. A plan that needs more copies large operands
// first, which takes much longer than an allocation.
constexpr std::size_t kReservedScratchBytes = std::size_t{64} << 20;

// Raises the counter by one during its lifetime.
class Counted {
  public:
    explicit Counted(std::atomic<int>& count) : count_(count) { ++count_; }
    ~Counted() { --count_; }
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;

  private:
    std::atomic<int>& count_;
};

}  // namespace

Handle::Handle(Settings settings, const std::vector<GeneralKernel>& general)
    : services_(std::move(settings)),
      cache_(services_.settings.on_miss),
      builder_(services_, cache_),
      stand_ins_(services_),
      fork_generation_(fork_generation()),
      background_(static_cast<unsigned>(std::clamp(usable_processors() / 2, 1, 8))),
      pick_up_(services_, cache_) {
    process_end::watch(process_end::After::driver_opened);
    if (!services_.settings.warning.empty()) services_.log.warn(services_.settings.warning);
    start_looking();
    if (services_.settings.on_miss != AUTOTUNE_ON_MISS_BACKGROUND) return;
    stand_ins_.load_general_kernels(general);
    if (const auto current = gpu::current_context(*services_.driver))
        stand_ins_.reserve_scratch({.context_id = current->id, .bytes = kReservedScratchBytes});
    background_.start();  // The threads start now, because starting one takes longer than a call may take.
}

// Starts to look for new winners, because a program that records its misses expects winners to be stored while it runs.
void Handle::start_looking() {
    const Settings& settings = services_.settings;
    if (!settings.record_misses || settings.database.empty()) return;
    try {
        looks_.emplace(settings.look_interval, [this] { pick_up_.look(); });
    } catch (const std::system_error& error) {
        services_.log.warn(std::string("no thread looks for new winners (") + error.what() +
                           "): autotune_refresh() finds them, autotune_flush_misses() writes the misses");
    }
}

bool Handle::is_foreign() const noexcept {
    return fork_generation_ != fork_generation();
}

std::uint64_t Handle::current_context_id() const {
    const auto id = gpu::current_context_id(*services_.driver);
    if (!id)
        throw Failure(AUTOTUNE_NO_CONTEXT,
                      "no CUDA context is current on this thread; make one current (cudaSetDevice and a first "
                      "runtime call, or cuCtxSetCurrent): the library creates none");
    return *id;
}

PlanLookup Handle::lookup(const PlanRequest& request) const {
    const std::uint64_t id = current_context_id();
    return {request, request.key(id), {id, gpu::current_ordinal(*services_.driver)}};
}

void Handle::check_supported(const PlanRequest& request) {
    current_context_id();
    const int ordinal = gpu::current_ordinal(*services_.driver);
    dispatch::check_supported(services_.catalogue, request.problem(services_.catalogue), services_.device(ordinal));
}

SharedPlan Handle::plan(const PlanRequest& request) {
    const std::uint64_t context_id = current_context_id();
    const PlanKey key = request.key(context_id);
    if (SharedPlan known = cache_.made(key)) return known;
    const process_end::Section section;
    return builder_.make(spec_of({request, key, {context_id, gpu::current_ordinal(*services_.driver)}}, services_.catalogue));
}

void Handle::refresh() {
    // If two threads refresh, the second returns only when the first one's refresh is done.
    const std::lock_guard lock(refreshing_);
    if (!services_.dispatcher.refresh()) return;
    for (const auto& [key, cached] : cache_.made_plans()) cached->mark_outdated();
    cache_.begin_generation();
}

std::size_t Handle::warm(const PlanRequest& request) {
    const process_end::Section section;
    const Counted counted(warming_);
    return builder_.warm(spec_of(lookup(request), services_.catalogue));
}

// The cached plan of a wider problem that serves this one too, or nullptr.
SharedPlan Handle::wider_plan(const PlanLookup& lookup) const {
    const auto wider = lookup.request.wider_key(lookup.context.id);
    const auto general = wider ? cache_.copy(*wider) : std::nullopt;
    return general ? general->plan : nullptr;
}

// Lets a thread of the library make the best plan. Until then another kernel serves if one can.
SharedPlan Handle::in_background(const PlanLookup& lookup, const CachedPlan* known, gpu::StreamHandle stream) {
    const auto spec = std::make_shared<const PlanSpec>(spec_of(lookup, services_.catalogue));
    Scratch scratch{stream};
    SharedPlan plan = known != nullptr ? known->plan : wider_plan(lookup);
    std::exception_ptr failure;
    const auto is_awaited = std::make_shared<std::atomic<bool>>(false);
    try {
        if (!plan) plan = stand_ins_.best_loaded_stand_in(lookup.request, *spec, "its own is being compiled", &scratch);
        cache_.keep_stand_in(lookup.key, plan, is_awaited);
    } catch (const Failure&) {
        failure = std::current_exception();
    }
    const auto work = [this, spec, context = gpu::BorrowedContext(services_.driver), lacking = scratch.lacking] {
        try {
            context.make_current();
            if (lacking) stand_ins_.reserve_scratch(*lacking);
            builder_.make(*spec);
        } catch (const abi::__forced_unwind&) {
            throw;
        } catch (...) {
            services_.log.warn("in the background: " + describe_current_exception().message);
        }
    };
    try {
        background_.add(work);
        is_awaited->store(true, std::memory_order_relaxed);
    } catch (const std::exception&) {  // If there is no thread or no memory, a later call tries again.
    }
    if (failure) std::rethrow_exception(failure);
    return plan;
}

// For policies that serve only planned problems. A problem without an output needs no look-up, compilation or loading.
SharedPlan Handle::not_planned(const PlanLookup& lookup) {
    const Problem problem = lookup.request.problem(services_.catalogue);
    const auto sums = services_.catalogue.op_of(problem).empty_sums(problem);
    if (sums && sums->empty()) return builder_.make(spec_of(lookup, services_.catalogue));
    throw Failure(AUTOTUNE_NOT_PLANNED,
                  "there is no plan for " + problem.key() + "; make it before with autotune_" + problem.op + "_plan()");
}

// `known`: a stand-in or an older plan for this key, or nullptr.
SharedPlan Handle::on_miss(const PlanLookup& lookup, const CachedPlan* known, gpu::StreamHandle stream) {
    const autotune_on_miss policy = services_.settings.on_miss;
    const bool is_capturing = gpu::is_capturing(*services_.driver, stream);
    if (policy == AUTOTUNE_ON_MISS_COMPILE && !is_capturing) return builder_.make(spec_of(lookup, services_.catalogue));
    if (policy == AUTOTUNE_ON_MISS_BACKGROUND && !is_capturing) return in_background(lookup, known, stream);
    // Loaded kernels and older plans depend on earlier calls.
    if (!services_.settings.label.empty()) return not_planned(lookup);
    if (known != nullptr) return known->plan;
    if (SharedPlan general = wider_plan(lookup)) return general;
    if (policy == AUTOTUNE_ON_MISS_NOT_PLANNED) return not_planned(lookup);
    const char* const because = is_capturing ? "the stream is being captured" : "options.on_miss allows no other";
    const PlanSpec spec = spec_of(lookup, services_.catalogue);
    SharedPlan plan = stand_ins_.best_loaded_stand_in(lookup.request, spec, because, nullptr);
    cache_.keep_stand_in(lookup.key, plan);
    return plan;
}

// Runs a call that has no plan, or whose plan is not the best one.
autotune_status Handle::run_missing(const PlanLookup& lookup, const MakeCall& make_call, gpu::StreamHandle stream) {
    const NoCancel no_cancel;
    const process_end::Section section;
    std::optional<LoadGate::Call> must_be_short;
    if (services_.settings.on_miss == AUTOTUNE_ON_MISS_BACKGROUND) must_be_short.emplace(services_.gate);
    const std::optional<CachedPlan> known = cache_.copy(lookup.key);
    SharedPlan plan;
    try {
        plan = known && cache_.may_serve(*known) ? known->plan : on_miss(lookup, known ? &*known : nullptr, stream);
    } catch (const gpu::DriverError&) {
        refuse_foreign_stream(stream);
        throw;
    }
    return run(*plan, make_call(*plan), lookup.context.id, stream);
}

// The driver reports a stream of another context with many different error codes.
void Handle::refuse_foreign_stream(gpu::StreamHandle stream) const {
    if (gpu::is_stream_of_another_context(*services_.driver, stream))
        throw Failure(AUTOTUNE_INVALID_ARGUMENT, Plan::kForeignStream);
}

autotune_status Handle::run(const Plan& plan, const Plan::Call& call, std::uint64_t context_id, gpu::StreamHandle stream) {
    if (plan.workspace_bytes() == 0) return plan.run(call, stream);
    Workspace workspace;
    try {
        workspace = services_.workspaces.get(workspace_request(plan, context_id, stream));
    } catch (const gpu::DriverError&) {
        refuse_foreign_stream(stream);
        throw;
    }
    Plan::Call with_workspace = call;
    with_workspace.workspace = workspace.address;
    with_workspace.workspace_bytes = workspace.bytes;
    return plan.run(with_workspace, stream);
}

template <typename CallFor>
autotune_status Handle::run_cached(const PlanRequest& request, const CallFor& call_for, gpu::StreamHandle stream) {
    const std::uint64_t context_id = current_context_id();
    const PlanKey key = request.key(context_id);
    {
        const Reading reading;
        if (const CachedPlan* const cached = cache_.find(key, reading); cached != nullptr && cache_.may_serve(*cached))
            return run(*cached->plan, call_for(*cached->plan), context_id, stream);
    }
    return run_missing({request, key, {context_id, gpu::current_ordinal(*services_.driver)}}, call_for, stream);
}

autotune_status Handle::tuned(const PlanRequest& request, const MakeCall& make_call, gpu::StreamHandle stream) {
    return run_cached(request, make_call, stream);
}

autotune_status Handle::tuned(const PlanRequest& request, const Plan::Call& call, gpu::StreamHandle stream) {
    return run_cached(
        request, [&call](const Plan&) -> const Plan::Call& { return call; }, stream);
}

}  // namespace autotune::runtime
