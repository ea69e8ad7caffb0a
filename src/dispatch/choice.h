#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "src/core/problem/problem.h"
#include "src/core/statistics/trial.h"

namespace autotune::dispatch {

// How a candidate was found. The library's public origins have the same names.
enum class Origin : std::uint8_t {
    exact,           // a winner of the user's database for exactly this problem
    shipped,         // a shipped winner for exactly this problem
    near,            // a winner of other extents
    family_default,  // a portfolio's kernel, or a family's default config
    pinned,          // the user named it
    label            // a winner of the fleet's frozen set for exactly this problem
};
// The word for an origin: "exact", "shipped", "near", "default", "pinned" or "label".
std::string_view to_string(Origin origin);

// The origin of an untuned problem's kernel in more detail. It is recorded with a miss.
enum class Source : std::uint8_t {
    none,            // the problem was tuned, or its kernel pinned
    portfolio,       // a portfolio of the problem's class, or of the most similar class
    near,            // a winner of other extents
    other_card,      // "near (other card)": a winner from a card with the same chip but other memory, for these or other extents
    family_default,  // "default"
    fallback         // a default, because candidates predicted to be faster did not compile, did not load or spilled
};
std::string_view to_string(Source source);

// A candidate that may serve a problem.
struct ResolvedCandidate {
    Candidate candidate;
    Origin origin = Origin::family_default;
    std::string nvrtc{};           // NVRTC version of the stored winner; empty: none is stored
    double recorded_us = 0;        // the time of a stored winner of exactly this problem, or 0
    double recorded_rival_us = 0;  // the time of the fastest rival in the same rounds, or 0
    double regret = -1;            // how much slower than the best known it is expected to be, 0.04 for 4 %; negative: unknown
    Source source = Source::none;
    bool is_checked = false;  // its values have passed OfferRanking::check() for a problem of its class
};

// How much slower than the best known kernel a choice is, 0.04 for 4 %, over problems for which both times are known.
struct ExpectedRegret {
    double median = -1, p90 = -1;  // negative: not known
    int problems = 0;
};

// A candidate with a problem for which it is legal.
struct WarmupEntry {
    ResolvedCandidate found;
    Problem problem;
};

}  // namespace autotune::dispatch
