#pragma once

#include <autotune/autotune.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "src/runtime/memory/reading.h"
#include "src/runtime/memory/recent_map.h"
#include "src/runtime/plan/plan.h"
#include "src/runtime/plan/plan_key.h"

namespace autotune::runtime {

using SharedPlan = std::shared_ptr<const Plan>;

// The cache's entry for a key.
struct CachedPlan {
    enum class Kind : std::uint8_t {
        made,     // the best plan
        stand_in  // made with a kernel that was already loaded
    };
    SharedPlan plan;
    std::uint64_t generation = 0;
    Kind kind = Kind::made;
    // Set for a stand-in, whose best plan is being made in the background.
    std::shared_ptr<std::atomic<bool>> is_awaited = nullptr;
    bool stays = false;  // the policy serves only planned problems, so the plan is kept

    std::size_t bytes() const { return plan->bytes(); }
    bool must_stay() const { return stays; }
};

// The plans of a handle by key: at most 16 MiB of them, found without a lock. Thread-safe.
class PlanCache {
  public:
    explicit PlanCache(autotune_on_miss policy) : policy_(policy), plans_(kMostPlanBytes) {}

    // The entry of a key, nullptr if there is none. Valid as long as `reading`.
    const CachedPlan* find(const PlanKey& key, const Reading& reading) const { return plans_.find(key, reading); }
    // A copy of the entry that find() returns, for calls that take long.
    std::optional<CachedPlan> copy(const PlanKey& key) const;
    // The plan that was made for the key since the last refresh; nullptr if there is none or only a stand-in.
    SharedPlan made(const PlanKey& key) const;
    // Whether a call may use the entry without searching for a better plan.
    bool may_serve(const CachedPlan& cached) const noexcept;

    // Stores a plan that was made while the generation was `generation`.
    void keep(const PlanKey& key, SharedPlan plan, std::uint64_t generation);
    void keep_stand_in(const PlanKey& key, SharedPlan plan, std::shared_ptr<std::atomic<bool>> is_awaited = nullptr);

    // All plans that made() would return.
    std::vector<std::pair<PlanKey, SharedPlan>> made_plans() const;
    // Marks the plan of a key to be made again at its next look-up; until then it serves calls under policies that make no plans.
    void make_again(const PlanKey& key, SharedPlan plan);

    // Plans of an older generation are made again at their next look-up.
    std::uint64_t generation() const noexcept { return generation_; }
    void begin_generation() noexcept { ++generation_; }

  private:
    static constexpr std::uint64_t kNoGeneration = ~std::uint64_t{0};
    // Plans take some 6 to 16 KB each: a program that plans 20,000 row counts would keep 200 MB of them.
    static constexpr std::size_t kMostPlanBytes = std::size_t{16} << 20;

    bool serves_planned_alone() const noexcept {
        return policy_ == AUTOTUNE_ON_MISS_LOADED_ONLY || policy_ == AUTOTUNE_ON_MISS_NOT_PLANNED;
    }

    const autotune_on_miss policy_;
    RecentMap<PlanKey, CachedPlan> plans_;
    std::atomic<std::uint64_t> generation_{0};
};

inline bool PlanCache::may_serve(const CachedPlan& cached) const noexcept {
    if (cached.generation != generation_.load(std::memory_order_relaxed)) return false;
    if (cached.kind == CachedPlan::Kind::made) return true;
    return (cached.is_awaited && cached.is_awaited->load(std::memory_order_relaxed)) || serves_planned_alone();
}

}  // namespace autotune::runtime
