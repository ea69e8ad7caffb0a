#pragma once

#include <map>
#include <optional>
#include <string>

#include "kernel_templates/catalogue.h"
#include "src/core/device.h"
#include "src/core/problem.h"
#include "src/core/search_space.h"
#include "src/core/trial.h"

namespace autotune::runtime {

// Whether candidates are legal for one problem on one device. A family's rules are made once, however many of its candidates are
// asked about. REQUIRES: what it is made of outlives it.
class Legality {
  public:
    Legality(const Catalogue& catalogue, const Problem& problem, const Device& device)
        : catalogue_(catalogue), problem_(problem), device_(device) {}

    bool allows(const Candidate& candidate) {
        const std::optional<SearchSpace>& rules = rules_of(candidate.family);
        return rules && rules->contains(candidate.config);
    }

  private:
    // nullopt for a family that does not exist, that is of another op, or that refuses the problem.
    const std::optional<SearchSpace>& rules_of(const std::string& name) {
        const auto [entry, is_new] = rules_.try_emplace(name);
        const Family* family = is_new && name.starts_with(problem_.op + "/") ? catalogue_.find_family(name) : nullptr;
        if (family != nullptr && !family->refuses(problem_, device_)) entry->second = family->rules(problem_, device_);
        return entry->second;
    }

    const Catalogue& catalogue_;
    const Problem& problem_;
    const Device& device_;
    std::map<std::string, std::optional<SearchSpace>> rules_;
};

}  // namespace autotune::runtime
