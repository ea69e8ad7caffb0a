#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kernel_templates/catalogue.h"
#include "tools/cli/output/drops.h"

namespace autotune::cli {

// Evidence in words, a sentence or two each. Shared by explain and report.
std::string wins_text(const db::Winner& winner, const Op& op, const Problem& problem);  // with how much, and its interval
std::string decided_text(const db::Evidence& evidence);                                 // against whom, and how sure that is
std::string rivals_text(const db::Evidence& evidence);                                  // against vendors; empty: none raced
std::string verified_text(const db::Evidence& evidence);                                // its error; empty: not known
std::string contexts_text(const db::Evidence& evidence);  // the winner's time after other kernels; empty: not known
std::string phases_text(const db::Evidence& evidence);    // how long what took
std::string measured_text(const db::Winner& winner);      // on what, when and by what

// Whether a winner still answers, and what would make it fresh.
struct Freshness {
    bool usable = true;     // its family and template are those of this version
    bool stale = false;     // usable, but measured under other circumstances
    std::string because{};  // why it is not fresh; empty: nothing speaks against it
    std::string remedy{};   // what to run
};
// `today` nullopt: no GPU to compare with.
Freshness freshness_of(const Catalogue& catalogue, const db::Winner& winner, const Problem& problem,
                       const std::optional<db::Provenance>& today);
std::string freshness_text(const Freshness& freshness, bool compared);

}  // namespace autotune::cli
