#pragma once

#include <vector>

#include "db/winner_store.h"
#include "tuner/session/idle/miss_source.h"
#include "tuner/session/tune.h"

namespace autotune::tuner {

// Tunes what the source gives on the cards that it counts as idle, a lane for each, until the source is exhausted. Lanes open
// `store` themselves. Throws Error for what ends a whole run: no compiler, a store that fails, cards none of which can be used.
void work_when_idle(const std::vector<LaneGpu>& gpus, MissSource& source, const TuneOptions& each, const db::OpenOptions& store,
                    TuneServices& services);

}  // namespace autotune::tuner
