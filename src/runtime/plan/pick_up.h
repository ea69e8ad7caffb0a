#pragma once

#include "src/runtime/plan/plan_cache.h"
#include "src/runtime/plan/services.h"

namespace autotune::runtime {

// Finds winners that are stored while the program runs. A thread of the library calls it periodically; calls of the program do
// not. Thread-safe.
class PickUp {
  public:
    // REQUIRES: both outlive it.
    PickUp(Services& services, PlanCache& cache) : services_(services), cache_(cache) {}

    // Writes the misses. If winners were stored or removed since the last time, marks the cached plans that another winner should
    // serve now: they are made again at their next look-up. Other plans, plans that a caller holds, and graphs stay as they are.
    // Throws std::bad_alloc.
    void look();

  private:
    bool is_outdated(const Plan& plan);

    Services& services_;
    PlanCache& cache_;
};

}  // namespace autotune::runtime
