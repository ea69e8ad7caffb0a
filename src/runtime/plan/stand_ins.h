#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "src/catalogue/catalogue.h"
#include "src/gpu/driver/driver.h"
#include "src/runtime/memory/workspaces.h"
#include "src/runtime/plan/general_kernel.h"
#include "src/runtime/plan/plan_cache.h"
#include "src/runtime/plan/plan_spec.h"
#include "src/runtime/plan/services.h"

namespace autotune::runtime {

// What a call lacks of scratch memory, so that a kernel that needs it was passed over.
struct Scratch {
    gpu::StreamHandle stream = nullptr;
    std::optional<Workspaces::Request> lacking = std::nullopt;
};

Workspaces::Request workspace_request(const Plan& plan, std::uint64_t context_id, gpu::StreamHandle stream);

// Plans by kernels that are loaded already, for calls that must not wait for a better one. Thread-safe.
class StandIns {
  public:
    // REQUIRES: it outlives this.
    explicit StandIns(Services& services) : services_(services) {}

    // The best legal kernel among those loaded. Throws Failure{not planned} with `because` if there is none. With `scratch`, the
    // best of those that take no more scratch than the stream has, so that the call allocates none; what a faster one takes that
    // was passed over is left in it. Where all take more, or are slower by far, it is the fastest. nullptr: whatever it takes.
    SharedPlan best_loaded_stand_in(const PlanRequest& request, const PlanSpec& spec, const char* because, Scratch* scratch);

    // Compiles and loads general kernels for every device's architecture, and into the context that is current, if one is.
    void load_general_kernels(const std::vector<GeneralKernel>& kernels);
    // Asks the driver for memory, which takes longer than a call may take. Where there is none, a call that needs it asks itself.
    void reserve_scratch(const Workspaces::Request& request);

  private:
    // Of the kernels that are ranked for a problem, the first `count`: the first that `is_enough`, else nullptr.
    using Judge = std::function<bool(const SharedPlan&)>;
    SharedPlan loaded_plan(const PlanSpec& spec, const Problem& problem, std::size_t count, const Judge& is_enough);
    void load_general_kernel(const GeneralKernel& general, const Device& device, bool into_context);

    Services& services_;
};

}  // namespace autotune::runtime
