#pragma once

#include <autotune/autotune.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/catalogue/catalogue.h"
#include "src/core/problem/problem.h"
#include "src/gpu/driver/driver.h"

namespace autotune::host_cost {

// One way to start the same product: `call` enqueues it once.
struct Rival {
    std::string name;
    std::function<void()> call;
};

// Everything that the calls use; lives as long as they are made.
struct Bench {
    std::shared_ptr<const gpu::Driver> driver;
    const gpu::Stream& stream;
    const Handle& handle;
    GemmProblem problem;
    const GemmPlan& plan;
    GemmPlan::Call call;
};

// The plan's kernels started with driver calls only: parameters are packed once, here.
Rival raw_launches(const Bench& bench);
Rival through_plan(const Bench& bench);
Rival through_one_call(const Bench& bench);
// The plan and the one-call form through the generic description.
Rival through_generic_plan(const Bench& bench);
Rival through_generic_call(const Bench& bench);
// Empty without cuBLAS, with the reason in `why`.
std::vector<Rival> through_vendor(const Bench& bench, std::string& why);

}  // namespace autotune::host_cost
