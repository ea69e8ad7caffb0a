#pragma once

#include <map>
#include <optional>
#include <string>

#include "kernel_templates/catalogue.h"
#include "src/core/device.h"
#include "src/core/problem.h"
#include "src/core/search_space.h"
#include "src/core/trial.h"

namespace autotune {

// Whether candidates are legal for one problem on one device. A family's rules are made once, however many of its candidates are
// asked about. REQUIRES: what it is made of outlives it.
class Legality {
  public:
    Legality(const Catalogue& catalogue, const Problem& problem, const Device& device)
        : catalogue_(catalogue), problem_(problem), device_(device) {}

    bool allows(const Candidate& candidate) { return !why_not(candidate); }

    // A clause: the family does not exist, is of another op or refuses the problem, or its rules exclude the config.
    std::optional<std::string> why_not(const Candidate& candidate) {
        const FamilyRules& known = rules_of(candidate.family);
        return known.rules ? known.rules->why_not(candidate.config) : known.refusal;
    }

  private:
    struct FamilyRules {
        std::optional<SearchSpace> rules;
        std::optional<std::string> refusal;  // where there are none
    };

    const FamilyRules& rules_of(const std::string& name) {
        const auto [entry, is_new] = families_.try_emplace(name);
        FamilyRules& known = entry->second;
        if (!is_new) return known;
        const Family* family = name.starts_with(problem_.op + "/") ? catalogue_.find_family(name) : nullptr;
        known.refusal = family == nullptr ? "there is no family '" + name + "' here" : family->refuses(problem_, device_);
        if (!known.refusal) known.rules = family->rules(problem_, device_);
        return known;
    }

    const Catalogue& catalogue_;
    const Problem& problem_;
    const Device& device_;
    std::map<std::string, FamilyRules> families_;
};

}  // namespace autotune
