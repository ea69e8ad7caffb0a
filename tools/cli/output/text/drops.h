#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "db/winner_store.h"

namespace autotune::cli {

// How many candidates a tune lost at one stage on the way from every legal config to one winner, and why.
struct Drop {
    std::string stage{};  // "cost model", "compiler", "launch", "verification", "timing", "final rounds"
    std::uint64_t count = 0;
    std::string why{};
};

// In the order in which they happen; stages that dropped nobody are left out. Constraints are not among them: what they drop is
// no legal config, and the family's space tells. From the evidence alone, so that it is as true for a shipped winner.
std::vector<Drop> drops_of(const db::Evidence& evidence);

}  // namespace autotune::cli
