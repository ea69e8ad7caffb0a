#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "src/core/problem/problem.h"
#include "src/core/statistics/trial.h"

namespace autotune::dispatch {

// How a candidate was found. The library's public origins have these names.
enum class Origin : std::uint8_t {
    exact,           // a winner of the user's database for this very problem
    shipped,         // the same of the shipped winners
    near,            // a winner of other extents
    family_default,  // a portfolio's kernel, or a family's default config
    pinned           // the user named it
};
std::string_view to_string(Origin origin);  // "exact", "shipped", "near", "default", "pinned"

// The same for an untuned problem, in more detail: recorded with a miss.
enum class Source : std::uint8_t {
    none,            // the problem was tuned, or its kernel pinned
    portfolio,       // of the problem's class, or of the class most like it
    near,            // a winner of other extents
    other_card,      // "near (other card)": of a card with this one's chip and another memory, of these extents or others
    family_default,  // "default"
    fallback         // a default, after what was predicted faster did not compile or load, or spilled
};
std::string_view to_string(Source source);

// A candidate that may serve a problem.
struct ResolvedCandidate {
    Candidate candidate;
    Origin origin = Origin::family_default;
    std::string nvrtc{};           // the compiler version of the stored winner; empty: none is stored
    double recorded_us = 0;        // by a stored winner of this very problem; 0: none
    double recorded_rival_us = 0;  // by the fastest rival in the same rounds; 0: none
    double regret = -1;            // how much slower than the best known it is expected to be, 0.04 for 4 %; negative: not known
    Source source = Source::none;
    bool is_checked = false;  // its values have passed OfferRanking::check() for a problem of its class
};

// By how much a choice is slower than the best kernel known, 0.04 for 4 %, over problems for which both times are known.
struct ExpectedRegret {
    double median = -1, p90 = -1;  // negative: not known
    int problems = 0;
};

// A candidate with a problem that it is legal for.
struct WarmupEntry {
    ResolvedCandidate found;
    Problem problem;
};

}  // namespace autotune::dispatch
