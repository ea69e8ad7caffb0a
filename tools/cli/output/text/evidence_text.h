#pragma once

#include <optional>
#include <string>
#include <vector>

#include "src/catalogue/catalogue.h"
#include "tools/cli/input/arguments.h"
#include "tools/cli/output/text/drops.h"

namespace autotune::cli {

// The rival that took the least time in the final rounds; nullptr: none was timed.
const db::Finalist* fastest_rival(const db::Evidence& evidence);
// How a winner compares with the rivals that were timed in the same rounds.
enum class Standing { not_raced, faster, tie, slower };
Standing standing_of(const db::Evidence& evidence);
std::string_view standing_word(Standing standing);

// Evidence in words, a sentence or two each. Shared by explain and report.
std::string result_text(const db::Winner& winner);     // which kernel is fastest, and by how much; comes first
std::string rival_text(const db::Evidence& evidence);  // the fastest rival compared with the winner; empty if none raced
// By how much the winner wins, with the interval.
std::string wins_text(const db::Winner& winner, const Op& op, const Problem& problem);
std::string_view origin_text(const db::Winner& winner);  // "shipped", "tuned" or "imported, in doubt"
// The finalists that the winner was compared with, and how certain the result is.
std::string decided_text(const db::Evidence& evidence);
std::string rivals_text(const db::Evidence& evidence);    // the winner compared with vendors' libraries; empty if none raced
std::string verified_text(const db::Evidence& evidence);  // its error; empty: unknown
std::string contexts_text(const db::Evidence& evidence);  // the winner's time after other kernels; empty if unknown
// The gain that a longer search would probably have brought; empty: unknown.
std::string more_time_text(const db::Evidence& evidence);
std::string phases_text(const db::Evidence& evidence);  // how long each phase took
std::string measured_text(const db::Winner& winner);    // the device, the date and the versions of the measurement

// Whether a winner may still be served, and what would make it fresh.
struct Freshness {
    bool usable = true;     // its family and template have this version's identity
    bool stale = false;     // the winner can be used, but was measured under other conditions
    std::string because{};  // why it is not fresh; empty: it is
    // Complete commands; each of them makes the winner fresh.
    std::vector<std::string> remedies{};
};
// `today` nullopt: no GPU to compare with. `arguments`: of the current command line, whose --db and the like are repeated in
// remedies.
Freshness freshness_of(const Catalogue& catalogue, const db::Winner& winner, const Problem& problem,
                       const std::optional<db::Provenance>& today, const Arguments& arguments);
// A sentence; print the remedies after it, each on a line that can be copied.
std::string freshness_text(const Freshness& freshness, bool compared);

}  // namespace autotune::cli
