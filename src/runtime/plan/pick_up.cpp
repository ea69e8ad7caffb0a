#include "src/runtime/plan/pick_up.h"

#include <cxxabi.h>

#include <utility>

#include "src/core/error.h"

namespace autotune::runtime {

void PickUp::look() {
    dispatch::StoredCandidates& stored = services_.dispatcher.stored();
    if (stored.winners_changed()) {
        services_.misses.forget(
            [&](const Problem& problem, const Device& device) { return !stored.winners(problem, device).empty(); });
        for (const auto& [key, cached] : cache_.made_plans())
            if (is_outdated(*cached)) cache_.make_again(key, cached);
    }
    services_.misses.flush();
}

// If the next call would have to compile or load the winner's code, that is done here, so that the call only binds it. A winner
// that cannot be loaded does not replace the present plan. Under ON_MISS_BACKGROUND another thread loads it, also into the
// context.
bool PickUp::is_outdated(const Plan& plan) {
    if (plan.origin() == AUTOTUNE_ORIGIN_PINNED || plan.is_empty_sum()) return false;
    const bool is_tuned = plan.origin() == AUTOTUNE_ORIGIN_EXACT || plan.origin() == AUTOTUNE_ORIGIN_SHIPPED;
    const auto winners = services_.dispatcher.stored().winners(plan.problem(), plan.device());
    if (winners.empty()) return is_tuned;
    if (is_tuned && winners.front().candidate.to_string() == plan.candidate()) return false;
    if (services_.settings.on_miss != AUTOTUNE_ON_MISS_COMPILE) return true;
    try {
        services_.instances.make(winners.front(), plan.problem(), plan.device(), /*into_context=*/false);
        return true;
    } catch (const abi::__forced_unwind&) {
        throw;
    } catch (const Error& error) {
        services_.log.warn_once(plan.problem().key(), std::string("a new winner is not used: ") + error.what());
    } catch (const Failure& failure) {
        services_.log.warn_once(plan.problem().key(), std::string("a new winner is not used: ") + failure.what());
    }
    return false;
}

}  // namespace autotune::runtime
