#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/catalogue/catalogue.h"
#include "src/core/problem/device.h"
#include "src/core/problem/problem.h"
#include "src/core/space/config_domain.h"
#include "src/core/space/search_space.h"
#include "src/core/statistics/trial.h"

namespace autotune {

// Tells whether candidates are legal for one problem on one device. A family's rules are built once, however many of its
// candidates are checked. REQUIRES: the constructor's arguments outlive it.
class Legality {
  public:
    Legality(const Catalogue& catalogue, const Problem& problem, const Device& device)
        : catalogue_(catalogue), problem_(problem), device_(device) {}

    bool allows(const Candidate& candidate) { return !why_not(candidate); }

    // Why a candidate is not legal, as a clause: its family does not exist, is of another op or refuses the problem, or its rules
    // exclude the config.
    std::optional<std::string> why_not(const Candidate& candidate) {
        const FamilyRules& known = rules_of(candidate.family);
        return known.rules ? known.rules->why_not(candidate.config) : known.refusal;
    }

    // Why a candidate is not legal whose launch parameters will be chosen for this problem. Every value must be in its domain,
    // and every rule must hold that reads only compile parameters. Candidates from files must pass this check before their
    // family's code sees them, because cost models divide by tiles and threads.
    std::optional<std::string> why_not_relaunched(const Candidate& candidate) {
        FamilyRules& known = rules_of(candidate.family);
        if (!known.rules) return known.refusal;
        if (!known.knows_compile_rules) find_compile_rules(known);
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
        bool knows_compile_rules = false;
        std::vector<std::size_t> of_compile_parameters{};  // constraints that read no launch parameter
        std::optional<std::string> refusal{};              // set if there are no rules
    };

    static void find_compile_rules(FamilyRules& known) {
        std::vector<std::string_view> launch_parameters;
        for (const Parameter& parameter : known.rules->parameters)
            if (parameter.kind == ParameterKind::launch) launch_parameters.push_back(parameter.name);
        const auto is_of_launch = [&](const std::string& name) {
            return std::find(launch_parameters.begin(), launch_parameters.end(), name) != launch_parameters.end();
        };
        for (std::size_t rule = 0; rule < known.rules->constraints.size(); ++rule) {
            const std::vector<std::string>& needs = known.rules->constraints[rule].needs;
            if (std::none_of(needs.begin(), needs.end(), is_of_launch)) known.of_compile_parameters.push_back(rule);
        }
        known.knows_compile_rules = true;
    }

    FamilyRules& rules_of(const std::string& name) {
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
