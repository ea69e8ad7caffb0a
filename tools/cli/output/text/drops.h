#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "db/winner_store.h"

namespace autotune::cli {

// How many candidates a tune dropped at one stage on the way from all legal configs to the winner, and why.
struct Drop {
    std::string stage{};  // "cost model", "compiler", "launch", "verification", "timing", "final rounds"
    std::uint64_t count = 0;
    std::string why{};
};

// In chronological order, without stages that dropped nothing. Constraints are not included: they exclude configs that are not
// legal, which the family's space shows. Computed from the evidence only, so that it also works for a shipped winner.
std::vector<Drop> drops_of(const db::Evidence& evidence);

}  // namespace autotune::cli
