#pragma once

#include <autotune/autotune.h>

#include <memory>

#include "src/core/error.h"
#include "src/runtime/load/instances.h"
#include "src/runtime/plan/plan.h"
#include "src/runtime/plan/plan_cache.h"
#include "src/runtime/plan/plan_spec.h"
#include "src/runtime/plan/services.h"

namespace autotune::runtime {

// An instance and its origin.
struct ChosenInstance {
    std::shared_ptr<const Instance> instance;  // nullptr if nothing is launched
    autotune_origin origin = AUTOTUNE_ORIGIN_DEFAULT;
    double recorded_us = 0;
    double recorded_rival_us = 0;
    double regret = -1;
    SharedPlan when_zero = nullptr;
};

// Binds an instance to a problem in the context of the spec. The plan is not cached yet. Throws DriverError.
std::shared_ptr<Plan> bind(Services& services, const ChosenInstance& chosen, const Problem& problem, const PlanSpec& spec);

// The plan of a problem whose sums are empty (OpSchema::empty_sums); nothing is looked up. A plan without an output has no
// instance. With `if_loaded` the result is nullptr if the plan's kernel is not loaded.
enum class EmptySumKernel : std::uint8_t { load, if_loaded };
SharedPlan bind_empty_sum(Services& services, const PlanSpec& spec, EmptySumKernel kernel);

// Whether another candidate would fail in the same way.
bool is_final(const Error& error);

}  // namespace autotune::runtime
