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

// An instance with how it was found.
struct ChosenInstance {
    std::shared_ptr<const Instance> instance;  // nullptr where nothing is launched
    autotune_origin origin = AUTOTUNE_ORIGIN_DEFAULT;
    double recorded_us = 0;
    double recorded_rival_us = 0;
    double regret = -1;
    SharedPlan when_zero = nullptr;
};

// The plan of a problem by an instance, in the context of the spec: not yet kept. Throws DriverError.
std::shared_ptr<Plan> bind(Services& services, const ChosenInstance& chosen, const Problem& problem, const PlanSpec& spec);

// The plan of a problem with nothing to add up (OpSchema::empty_sums): nothing is looked up, and nothing is faster. Without an
// instance where nothing is written either. `if_loaded`: nullptr where its kernel is not loaded.
enum class EmptySumKernel : std::uint8_t { load, if_loaded };
SharedPlan bind_empty_sum(Services& services, const PlanSpec& spec, EmptySumKernel kernel);

// A failure that another candidate would meet too.
bool is_final(const Error& error);

}  // namespace autotune::runtime
