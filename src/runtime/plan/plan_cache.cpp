#include "src/runtime/plan/plan_cache.h"

#include <utility>

namespace autotune::runtime {

std::optional<CachedPlan> PlanCache::copy(const PlanKey& key) const {
    const Reading reading;
    const CachedPlan* const found = plans_.find(key, reading);
    return found == nullptr ? std::nullopt : std::optional(*found);
}

SharedPlan PlanCache::made(const PlanKey& key) const {
    const Reading reading;
    const CachedPlan* const found = plans_.find(key, reading);
    const bool is_made = found != nullptr && found->kind == CachedPlan::Kind::made && found->generation == generation_;
    return is_made ? found->plan : nullptr;
}

void PlanCache::keep(const PlanKey& key, SharedPlan plan, std::uint64_t generation) {
    plans_.assign(key, {std::move(plan), generation, CachedPlan::Kind::made, nullptr, serves_planned_alone()});
}

std::vector<std::pair<PlanKey, SharedPlan>> PlanCache::made_plans() const {
    std::vector<std::pair<PlanKey, SharedPlan>> made;
    for (auto& [key, cached] : plans_.copy())
        if (cached.kind == CachedPlan::Kind::made && cached.generation == generation_)
            made.emplace_back(key, std::move(cached.plan));
    return made;
}

void PlanCache::make_again(const PlanKey& key, SharedPlan plan) {
    plan->mark_outdated();
    if (serves_planned_alone())
        plans_.assign(key, {std::move(plan), generation_, CachedPlan::Kind::stand_in, nullptr, true});
    else
        plans_.assign(key, {std::move(plan), kNoGeneration, CachedPlan::Kind::made});
}

void PlanCache::keep_stand_in(const PlanKey& key, SharedPlan plan, std::shared_ptr<std::atomic<bool>> is_awaited) {
    plans_.assign(key, {std::move(plan), generation_, CachedPlan::Kind::stand_in, std::move(is_awaited)});
}

}  // namespace autotune::runtime
