#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kernel_templates/catalogue.h"
#include "src/core/config_domain.h"
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

    // The same of a candidate whose launch parameters are still to be chosen for this problem: every value is one of its domain,
    // and every rule holds that reads compile parameters alone. REQUIRED of what comes from a file before its family's code sees
    // it: cost models divide by tiles and by threads.
    std::optional<std::string> why_not_relaunched(const Candidate& candidate) {
        const FamilyRules& known = rules_of(candidate.family);
        if (!known.rules) return known.refusal;
        if (auto reason = why_outside_domain(known.rules->parameters, candidate.config)) return reason;
        for (const std::size_t rule : known.of_compile_parameters) {
            const Constraint& constraint = known.rules->constraints[rule];
            if (!constraint.holds(candidate.config)) return constraint.reason;
        }
        return std::nullopt;
    }

  private:
    struct FamilyRules {
        std::optional<SearchSpace> rules;
        std::vector<std::size_t> of_compile_parameters{};  // those constraints that read no launch parameter
        std::optional<std::string> refusal{};              // where there are no rules
    };

    static bool reads_compile_parameters_alone(const SearchSpace& rules, const Constraint& constraint) {
        return std::all_of(constraint.needs.begin(), constraint.needs.end(), [&](const std::string& name) {
            const Parameter* parameter = rules.find(name);
            return parameter != nullptr && parameter->kind == ParameterKind::compile;
        });
    }

    const FamilyRules& rules_of(const std::string& name) {
        const auto [entry, is_new] = families_.try_emplace(name);
        FamilyRules& known = entry->second;
        if (!is_new) return known;
        const Family* family = name.starts_with(problem_.op + "/") ? catalogue_.find_family(name) : nullptr;
        known.refusal = family == nullptr ? "there is no family '" + name + "' here" : family->refuses(problem_, device_);
        if (known.refusal) return known;
        known.rules = family->rules(problem_, device_);
        for (std::size_t rule = 0; rule < known.rules->constraints.size(); ++rule)
            if (reads_compile_parameters_alone(*known.rules, known.rules->constraints[rule]))
                known.of_compile_parameters.push_back(rule);
        return known;
    }

    const Catalogue& catalogue_;
    const Problem& problem_;
    const Device& device_;
    std::map<std::string, FamilyRules> families_;
};

}  // namespace autotune
