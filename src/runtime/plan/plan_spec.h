#pragma once

#include <cstddef>
#include <optional>

#include "src/catalogue/catalogue.h"
#include "src/core/problem/problem.h"
#include "src/gpu/driver/driver.h"
#include "src/runtime/plan/plan_key.h"
#include "src/runtime/plan/plan_request.h"

namespace autotune::runtime {

// A request on its way to a plan. Lives as long as the call.
struct PlanLookup {
    const PlanRequest& request;
    PlanKey key;
    gpu::CurrentContext context;
};

// The same in values of our own, so that it outlives the call: what a plan is made from.
struct PlanSpec {
    PlanKey key;
    gpu::CurrentContext context;
    Problem problem;
    CallForm form;
    // The problem with a scalar fixed at zero, where the caller leaves that to each call.
    std::optional<Problem> zeroed = std::nullopt;
    std::size_t zero_scalar = 0;
};

// Throws Failure{invalid argument} for a request that cannot be.
PlanSpec spec_of(const PlanLookup& lookup, const Catalogue& catalogue);

}  // namespace autotune::runtime
