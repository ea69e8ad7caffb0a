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

// Scratch memory that a stream lacks, so that a faster kernel was not used.
struct Scratch {
    gpu::StreamHandle stream = nullptr;
    std::optional<Workspaces::Request> lacking = std::nullopt;
};

Workspaces::Request workspace_request(const Plan& plan, std::uint64_t context_id, gpu::StreamHandle stream);

// Makes plans with kernels that are already loaded, for calls that must not wait for a better one. Thread-safe.
class StandIns {
  public:
    // REQUIRES: it outlives this.
    explicit StandIns(Services& services) : services_(services) {}

    // The best legal kernel among those loaded. Throws Failure{not planned} with `because` if there is none. With `scratch`,
    // kernels that fit into the stream's present scratch come first, so that the call allocates nothing; the request of a faster
    // kernel that does not fit is left in `scratch`. If none fits, or those that fit are far slower, the result is the fastest.
    // With nullptr, scratch does not matter.
    SharedPlan best_loaded_stand_in(const PlanRequest& request, const PlanSpec& spec, const char* because, Scratch* scratch);

    // Compiles and loads general kernels for every device's architecture, and into the current context if there is one.
    void load_general_kernels(const std::vector<GeneralKernel>& kernels);
    // Allocates scratch ahead, because that takes longer than a call may take. If it fails, the call that needs the memory
    // allocates it itself.
    void reserve_scratch(const Workspaces::Request& request);

  private:
    // Tries the first `count` kernels ranked for a problem; returns the first that `is_enough` accepts, else nullptr.
    using Judge = std::function<bool(const SharedPlan&)>;
    SharedPlan loaded_plan(const PlanSpec& spec, const Problem& problem, std::size_t count, const Judge& is_enough);
    void load_general_kernel(const GeneralKernel& general, const Device& device, bool into_context);

    Services& services_;
};

}  // namespace autotune::runtime
