#pragma once

#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "kernel_templates/catalogue.h"
#include "src/gpu/driver.h"
#include "src/runtime/ask.h"
#include "src/runtime/insert_only_map.h"
#include "src/runtime/instances.h"
#include "src/runtime/log.h"
#include "src/runtime/plan.h"
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
    explicit Handle(Settings settings);

    // Throws Failure{no kernel} with the reasons if no family can do the problem on the current context's device.
    void check_supported(const Ask& ask);

    // Looks up, builds and keeps the plan of a problem for the current context.
    std::shared_ptr<const Plan> plan(const Ask& ask);

    // Runs a problem by the plan that is kept for it, or as the policy says. Failures that run() itself finds come as its status.
    autotune_status tuned(const Ask& ask, const Plan::Call& call, gpu::StreamHandle stream);
    // The same where the call can be made only when its plan is known; make_call may throw Failure.
    using MakeCall = std::function<Plan::Call(const Plan&)>;
    autotune_status tuned(const Ask& ask, const MakeCall& make_call, gpu::StreamHandle stream);

    void flush_misses() { winners_.flush_misses(); }
    bool is_foreign() const noexcept;  // made before a fork
    LastError& errors() { return *errors_; }
    const Catalogue& catalogue() const { return catalogue_; }

  private:
    using Shared = std::shared_ptr<const Plan>;
    struct Wanted {
        const Ask& ask;
        PlanKey key;
        gpu::CurrentContext context;
    };

    gpu::CurrentContext current_context() const;
    const Device& device_of(int ordinal);
    Shared make(const Wanted& wanted);
    // An instance with how it was found.
    struct Chosen {
        std::shared_ptr<const Instance> instance;
        autotune_origin origin;
        double recorded_us = 0;
        double recorded_rival_us = 0;
    };
    Shared bind(const Chosen& chosen, const Problem& problem, const Wanted& wanted);
    // A plan that was made for the key, nullptr if there is none or a stand-in.
    const Shared* made(const PlanKey& key) const;
    Shared best(const Problem& problem, const Wanted& wanted);
    // nullptr if none of them does; the first failure stays in `failure`.
    Shared first_that_works(const std::vector<Found>& candidates, const Problem& problem, const Wanted& wanted,
                            std::exception_ptr& failure);
    // The best legal kernel among those loaded. Throws Failure{not planned} if there is none.
    Shared any_loaded(const Wanted& wanted, const char* because);
    Shared loaded_plan(const Wanted& wanted, const Problem& problem);
    Shared on_miss(const Wanted& wanted, const Shared* kept, gpu::StreamHandle stream);
    const Plan& find_or_make(const Wanted& wanted, gpu::StreamHandle stream, Shared& made);
    // With a workspace of the handle's where the plan needs one.
    autotune_status run(const Plan& plan, const Plan::Call& call, std::uint64_t context_id, gpu::StreamHandle stream);

    Settings settings_;
    Log log_;
    std::shared_ptr<LastError> errors_ = std::make_shared<LastError>();
    std::shared_ptr<const gpu::Driver> driver_;
    Catalogue catalogue_ = Catalogue::embedded();
    Winners winners_;
    Instances instances_;
    Workspaces workspaces_;
    InsertOnlyMap<PlanKey, Shared> plans_;
    SingleFlight<PlanKey, Shared, PlanKey::Hash> making_;
    std::mutex devices_mutex_;
    std::map<int, Device> devices_;  // by ordinal; never erased
    int fork_generation_;
};

}  // namespace autotune::runtime
