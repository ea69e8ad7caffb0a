#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "kernel_templates/catalogue.h"
#include "src/gpu/driver.h"
#include "src/runtime/background.h"
#include "src/runtime/instances.h"
#include "src/runtime/load_gate.h"
#include "src/runtime/log.h"
#include "src/runtime/plan.h"
#include "src/runtime/plan_request.h"
#include "src/runtime/reading.h"
#include "src/runtime/recent_map.h"
#include "src/runtime/settings.h"
#include "src/runtime/single_flight.h"
#include "src/runtime/status.h"
#include "src/runtime/winners.h"
#include "src/runtime/workspaces.h"

namespace autotune::runtime {

// What is behind an autotune_handle. Members throw; src/runtime/c_api.cpp turns that into statuses. Thread-safe.
class Handle {
  public:
    // Throws Error{no_gpu} without a driver.
    // `general`: what stands in while better kernels are compiled in the background; compiled here where the policy says so.
    explicit Handle(Settings settings, const std::vector<GeneralKernel>& general = {});

    // Throws Failure{no kernel} with the reasons if no family can do the problem on the current context's device.
    void check_supported(const PlanRequest& request);

    // Looks up, builds and keeps the plan of a problem for the current context.
    std::shared_ptr<const Plan> plan(const PlanRequest& request);

    // Makes ready every kernel that plans of this problem take for a first extent of 1 up to the problem's own; how many there
    // are.
    std::size_t warm(const PlanRequest& request);

    // Plans made before are made again when they are asked for next: winners that were stored since then are found.
    void refresh();
    // Until the library's threads have nothing to do.
    void finish_background() { background_.wait(); }

    // Runs a problem by the plan that is kept for it, or as the policy says. Failures that run() itself finds come as its status.
    autotune_status tuned(const PlanRequest& request, const Plan::Call& call, gpu::StreamHandle stream);
    // The same where the call can be made only when its plan is known; make_call may throw Failure.
    using MakeCall = std::function<Plan::Call(const Plan&)>;
    autotune_status tuned(const PlanRequest& request, const MakeCall& make_call, gpu::StreamHandle stream);

    void flush_misses() { winners_.flush_misses(); }
    // Nothing is said any more; is_speaking(): this thread is in the log function, called for this handle.
    void silence() noexcept { log_.silence(); }
    bool is_speaking() const noexcept { return log_.is_speaking_here(); }
    // Whether warm() runs on some thread.
    bool is_warming() const noexcept { return warming_ > 0; }
    bool is_foreign() const noexcept;  // made before a fork
    LastError& errors() { return *errors_; }
    const Catalogue& catalogue() const { return catalogue_; }

  private:
    using Shared = std::shared_ptr<const Plan>;
    struct PlanLookup {
        const PlanRequest& request;
        PlanKey key;
        gpu::CurrentContext context;
    };
    // The same where it outlives the call.
    struct PlanSpec {
        PlanKey key;
        gpu::CurrentContext context;
        Problem problem;
        CallForm form;
        // The problem with a scalar fixed at zero, where the caller leaves that to each call.
        std::optional<Problem> zeroed;
        std::size_t zero_scalar = 0;
    };
    // What is kept for a key.
    struct CachedPlan {
        enum class Kind : std::uint8_t {
            made,     // the best there is
            stand_in  // a kernel that was loaded
        };
        Shared plan;
        std::uint64_t generation = 0;  // of refresh()
        Kind kind = Kind::made;
        std::shared_ptr<std::atomic<bool>> is_awaited = nullptr;  // of a stand-in: the best is being made in the background
        bool stays = false;                                       // the policy serves nothing else than what was planned

        std::size_t bytes() const { return plan->bytes(); }
        bool must_stay() const { return stays; }
    };

    // Throw Failure{no context}.
    std::uint64_t current_context_id() const;
    gpu::CurrentContext current_context() const;
    const Device& device_of(int ordinal);
    PlanSpec spec_of(const PlanLookup& lookup) const;
    Shared make(const PlanSpec& spec);
    // An instance with how it was found.
    struct Chosen {
        std::shared_ptr<const Instance> instance;
        autotune_origin origin;
        double recorded_us = 0;
        double recorded_rival_us = 0;
        double regret = -1;
        Shared when_zero = nullptr;
    };
    std::shared_ptr<Plan> bind(const Chosen& chosen, const Problem& problem, const PlanSpec& spec);
    // A plan that was made for the key since the last refresh, nullptr if there is none or a stand-in.
    Shared made(const PlanKey& key) const;
    // What is kept for a key, for calls that take long.
    std::optional<CachedPlan> cached_for(const PlanKey& key) const;
    bool may_serve(const CachedPlan& cached) const noexcept;
    std::vector<ResolvedCandidate> untuned(const Problem& problem, const Device& device, std::size_t count);
    Shared best(const PlanSpec& spec);
    // The plan of a problem with nothing to add up (OpSchema::empty_sums): without an instance where nothing is written either.
    // `if_loaded`: nullptr where its kernel is not loaded.
    Shared of_nothing(const PlanSpec& spec, bool if_loaded);
    std::string make_ready(const WarmupEntry& served, const PlanSpec& spec);
    Shared best_when_zero(const PlanSpec& spec);
    struct DisqualifiedCandidate {
        ResolvedCandidate found;
        std::shared_ptr<const Instance> instance;
        double likely_us = 0;  // predicted, and slower for what disqualifies it
    };
    struct Attempt {
        const Problem& problem;
        const PlanSpec& spec;
        Shared when_zero;
        std::exception_ptr failure;    // the first
        Source source = Source::none;  // of the one that works
        std::optional<DisqualifiedCandidate> disqualified =
            std::nullopt;  // the best that works but that the compiler's report disqualifies
    };
    double predicted_us(const Candidate& candidate, const Problem& problem, const Device& device) const;
    std::shared_ptr<Plan> bind_found(const ResolvedCandidate& found, const std::shared_ptr<const Instance>& instance,
                                     Attempt& attempt);
    // nullptr if none of them does. What was measured is fit, whatever the compiler says of it.
    std::shared_ptr<Plan> first_usable(const std::vector<ResolvedCandidate>& candidates, Attempt& attempt);
    // The best legal kernel among those loaded. Throws Failure{not planned} if there is none. With `scratch`, the best of those
    // that take no more scratch than the stream has, so that the call asks the driver for none; what a faster one takes that was
    // passed over is left in it. Where all take more, or are slower by far, it is the fastest. nullptr: whatever it takes.
    struct Scratch {
        gpu::StreamHandle stream = nullptr;
        std::optional<Workspaces::Request> lacking = std::nullopt;
    };
    Shared best_loaded_stand_in(const PlanLookup& lookup, const PlanSpec& spec, const char* because, Scratch* scratch);
    // Of those that are ranked for a problem, the first `count`: the first that `is_enough`, else nullptr.
    using Judge = std::function<bool(const Shared&)>;
    Shared loaded_plan(const PlanSpec& spec, const Problem& problem, std::size_t count, const Judge& is_enough);
    Shared on_miss(const PlanLookup& lookup, const CachedPlan* cached, gpu::StreamHandle stream);
    Shared in_background(const PlanLookup& lookup, const CachedPlan* cached, gpu::StreamHandle stream);
    void load_general_kernels(const std::vector<GeneralKernel>& kernels);
    void load_general_kernel(const GeneralKernel& general, const Device& device, bool into_context);
    void reserve_scratch(const Workspaces::Request& request);
    void refuse_foreign_stream(gpu::StreamHandle stream) const;
    autotune_status run_missing(const PlanLookup& lookup, const MakeCall& make_call, gpu::StreamHandle stream);
    // With a workspace of the handle's where the plan needs one.
    autotune_status run(const Plan& plan, const Plan::Call& call, std::uint64_t context_id, gpu::StreamHandle stream);

    Settings settings_;
    Log log_;
    std::shared_ptr<LastError> errors_ = std::make_shared<LastError>();
    std::shared_ptr<const gpu::Driver> driver_;
    std::shared_ptr<gpu::Reach> reach_;  // nullptr where there is one device
    Catalogue catalogue_ = Catalogue::embedded();
    Winners winners_;
    LoadGate gate_;
    Instances instances_;
    Workspaces workspaces_;
    RecentMap<PlanKey, CachedPlan> plans_;
    std::atomic<std::uint64_t> generation_{0};
    SingleFlight<PlanKey, Shared, PlanKey::Hash> making_;
    std::mutex devices_mutex_;
    std::map<int, Device> devices_;  // by ordinal; never erased
    std::atomic<int> warming_{0};
    std::atomic<bool> has_planned_{false};
    int fork_generation_;
    Background background_;  // the last member: its threads use the others
};

}  // namespace autotune::runtime
