#pragma once

#include "src/runtime/plan/plan_cache.h"
#include "src/runtime/plan/services.h"

namespace autotune::runtime {

// Lets a running program find winners that are stored while it runs. A thread of the library calls it now and then, no call of
// the program does. Thread-safe.
class PickUp {
  public:
    // REQUIRES: both outlive it.
    PickUp(Services& services, PlanCache& cache) : services_(services), cache_(cache) {}

    // Writes the misses. Where winners were stored since the last look, or removed, it finds the plans of the cache that another
    // winner serves now: they are made again when they are looked up next. Other plans, plans that a caller holds, and graphs
    // stay as they are. Throws std::bad_alloc.
    void look();

  private:
    bool is_outdated(const Plan& plan);

    Services& services_;
    PlanCache& cache_;
};

}  // namespace autotune::runtime
