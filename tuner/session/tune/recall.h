#pragma once

#include <optional>

#include "tuner/session/tune.h"

namespace autotune::tuner {

// The best row of the store that why_unusable() has nothing against: fresh before stale, the user's before shipped. Stale ones
// count. With a choice it is one that the choice allows, or the winner of a search that was narrowed to the same; without, the
// winners of narrowed searches are none.
std::optional<db::Winner> valid_winner(const Problem& problem, const TuneServices& services, const Choice& choice = {});
// How a row's soft key differs from today's, for people; empty if it does not. Facts that one side does not know do not differ.
std::string why_stale(const db::Provenance& stored, const db::Provenance& today);

}  // namespace autotune::tuner
