#pragma once

#include <cstddef>
#include <optional>

#include "src/catalogue/catalogue.h"
#include "src/core/problem/problem.h"
#include "src/gpu/driver/driver.h"
#include "src/runtime/plan/plan_key.h"
#include "src/runtime/plan/plan_request.h"

namespace autotune::runtime {

// A request for a plan, with its key and context. Lives as long as the call.
struct PlanLookup {
    const PlanRequest& request;
    PlanKey key;
    gpu::CurrentContext context;
};

// The request with copies of the caller's values, so that it can outlive the call. Plans are made from this.
struct PlanSpec {
    PlanKey key;
    gpu::CurrentContext context;
    Problem problem;
    CallForm form;
    // The problem with a scalar fixed at zero, if the caller leaves that scalar to each call.
    std::optional<Problem> zeroed = std::nullopt;
    std::size_t zero_scalar = 0;
};

// Throws Failure{invalid argument} for an invalid request.
PlanSpec spec_of(const PlanLookup& lookup, const Catalogue& catalogue);

}  // namespace autotune::runtime
