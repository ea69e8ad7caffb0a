#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "src/runtime/api/agreement.h"
#include "src/runtime/plan/pick_up.h"
#include "src/runtime/plan/plan.h"
#include "src/runtime/plan/plan_builder.h"
#include "src/runtime/plan/plan_cache.h"
#include "src/runtime/plan/plan_spec.h"
#include "src/runtime/plan/services.h"
#include "src/runtime/plan/stand_ins.h"
#include "src/runtime/process/background.h"
#include "src/runtime/process/periodic.h"

namespace autotune::runtime {

// The object behind an autotune_handle. It runs calls with plans of the cache; options.on_miss decides how a call without a plan
// is served. Members throw; src/runtime/api/c_api.cpp converts exceptions to statuses. Thread-safe.
class Handle {
  public:
    // Throws Error{no_gpu} without a driver. `general`: kernels that stand in while better ones are compiled in the background;
    // they are compiled here if the policy says so.
    explicit Handle(Settings settings, const std::vector<GeneralKernel>& general = {});

    // Makes the op of a user's kernel file known and returns its name. Throws Error{usage} or Failure{invalid argument}.
    std::string open_kernel(const std::string& path) { return services_.kernels.open(path); }
    const OpenedKernels& kernels() const { return services_.kernels; }

    // Throws Error{no_valid_config} with the reasons if no family can do the problem on the current context's device.
    void check_supported(const PlanRequest& request);

    // Looks up, builds and caches the plan of a problem for the current context.
    SharedPlan plan(const PlanRequest& request);

    // Loads every kernel that plans of this problem use when its first extent is 1 up to the problem's own. Returns how many
    // there are.
    std::size_t warm(const PlanRequest& request);

    // Plans made before are made again at their next look-up, so that they find winners stored since then.
    void refresh();
    // Waits until the library's threads have nothing to do.
    void finish_background() { background_.wait(); }

    // Runs a problem with its cached plan, or as the policy says. Failures that run() itself finds are returned as its status.
    autotune_status tuned(const PlanRequest& request, const Plan::Call& call, gpu::StreamHandle stream);
    // The same if the call can be made only once its plan is known; make_call may throw Failure.
    using MakeCall = std::function<Plan::Call(const Plan&)>;
    autotune_status tuned(const PlanRequest& request, const MakeCall& make_call, gpu::StreamHandle stream);

    void flush_misses() { services_.misses.flush(); }
    std::vector<AgreementPart> agreement() { return agreement_of(services_); }
    // After silence() nothing is logged. is_speaking(): this thread is inside the log function, called for this handle.
    void silence() noexcept { services_.log.silence(); }
    bool is_speaking() const noexcept { return services_.log.is_speaking_here(); }
    // Whether any thread is in warm().
    bool is_warming() const noexcept { return warming_ > 0; }
    bool is_foreign() const noexcept;  // made before a fork
    LastError& errors() { return *services_.errors; }
    const Catalogue& catalogue() const { return services_.catalogue; }

  private:
    void start_looking();
    // Throw Failure{no context}.
    std::uint64_t current_context_id() const;
    PlanLookup lookup(const PlanRequest& request) const;

    template <typename CallFor>
    autotune_status run_cached(const PlanRequest& request, const CallFor& call_for, gpu::StreamHandle stream);
    autotune_status run_missing(const PlanLookup& lookup, const MakeCall& make_call, gpu::StreamHandle stream);
    SharedPlan on_miss(const PlanLookup& lookup, const CachedPlan* known, gpu::StreamHandle stream);
    SharedPlan in_background(const PlanLookup& lookup, const CachedPlan* known, gpu::StreamHandle stream);
    SharedPlan wider_plan(const PlanLookup& lookup) const;
    SharedPlan not_planned(const PlanLookup& lookup);
    // Runs the plan, with a workspace of the handle if it needs one.
    autotune_status run(const Plan& plan, const Plan::Call& call, std::uint64_t context_id, gpu::StreamHandle stream);
    void refuse_foreign_stream(gpu::StreamHandle stream) const;

    Services services_;
    PlanCache cache_;
    PlanBuilder builder_;
    StandIns stand_ins_;
    std::atomic<int> warming_{0};
    std::mutex refreshing_;  // held while refresh() runs
    int fork_generation_;
    // The last members, because their threads use the others.
    Background background_;
    PickUp pick_up_;
    std::optional<Periodic> looks_;
};

}  // namespace autotune::runtime
