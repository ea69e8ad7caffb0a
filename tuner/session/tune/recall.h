#pragma once

#include <optional>

#include "tuner/session/tune.h"

namespace autotune::tuner {

// The best row of the store that why_unusable() accepts: fresh before stale, the user's before shipped. Stale rows count. With a
// choice: a row that the choice allows, or the winner of a search with the same restriction. Without one, winners of restricted
// searches do not count.
std::optional<db::Winner> valid_winner(const Problem& problem, const TuneServices& services, const Choice& choice = {});
// How a row's soft key differs from today's, as text; empty if it does not. A value that one side does not know does not differ.
std::string why_stale(const db::Provenance& stored, const db::Provenance& today);

}  // namespace autotune::tuner
