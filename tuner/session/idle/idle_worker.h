#pragma once

#include <vector>

#include "db/winner_store.h"
#include "tuner/session/idle/idle_source.h"
#include "tuner/session/tune.h"

namespace autotune::tuner {

// Tunes the source's items on the cards that it counts as idle, one lane per card, until the source is exhausted. Lanes open
// `store` themselves. Throws Error for whatever ends a whole run: no compiler, a store that fails, no usable card.
void work_when_idle(const std::vector<LaneGpu>& gpus, IdleSource& source, const TuneOptions& each, const db::OpenOptions& store,
                    TuneServices& services);

}  // namespace autotune::tuner
