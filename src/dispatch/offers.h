#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "src/catalogue/catalogue.h"
#include "src/dispatch/rules/legality.h"
#include "src/dispatch/rules/refusals.h"

namespace autotune {

// Ranks candidates of other problems for this one by predicted time, with launch parameters chosen for it. Tuner, library and
// command use it for untuned problems. Offers may come from any file: those that are not configs of their families are left out
// before a family computes with them. REQUIRES: the constructor's arguments outlive it.
class OfferRanking {
  public:
    OfferRanking(const Catalogue& catalogue, const Problem& problem, const Device& device)
        : catalogue_(catalogue), problem_(problem), device_(device), legality_(catalogue, problem, device) {}

    struct Ranked {
        std::size_t offer = 0;  // the index in the given offers
        Candidate candidate{};
        double predicted_us = 0;  // infinity: no opinion
    };
    // The first `count` legal offers, fastest predicted first; ties stay in the order given.
    std::vector<Ranked> best(std::span<const Candidate* const> offers, std::size_t count);
    std::vector<Ranked> best(std::span<const Candidate> offers, std::size_t count);

    // Like best(), if some of the offers were checked before for a problem of the same class. A check takes some microseconds,
    // and a plan ranks the same offers for each problem. Sets the flags of offers that pass now; offers that fail are left out.
    using Checked = std::vector<char>;  // by offer
    void check(std::span<const Candidate* const> offers, Checked& checked);
    std::vector<Ranked> best_of_checked(std::span<const Candidate* const> offers, const Checked& checked, std::size_t count);

  private:
    // Unchanged and unpredicted if its family does not exist or refuses the problem. REQUIRES: legality_ allows the candidate.
    Relaunched relaunched(const Candidate& candidate);

    const Catalogue& catalogue_;
    const Problem& problem_;
    const Device& device_;
    Legality legality_;
    std::map<std::string, Relauncher> relaunchers_;  // by family; empty function: it cannot do the problem
};

// The defaults of all families that can do a problem, and why the others cannot.
struct FamilyDefaults {
    std::vector<Candidate> candidates;
    Refusals refusals;
};
FamilyDefaults family_defaults(const Catalogue& catalogue, const Problem& problem, const Device& device);

// The candidate's family and compile parameters as text. Candidates with equal keys use the same instance of a problem.
std::string instance_key(const Catalogue& catalogue, const Problem& problem, const Device& device, const Candidate& candidate);

}  // namespace autotune
