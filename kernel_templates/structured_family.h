#pragma once

#include <vector>

#include "src/core/family/family.h"

namespace autotune {

// A family that defines its space in parts, from which rules(), default_config() and space() follow.
class StructuredFamily : public Family {
  public:
    SearchSpace rules(const Problem& problem, const Device& device) const final;
    Config default_config(const Problem& problem, const Device& device) const final;
    SearchSpace space(const Problem& problem, const Device& device) const final;

  protected:
    // REQUIRES for all below: !refuses(problem, device).
    virtual std::vector<Parameter> parameters() const = 0;
    virtual std::vector<Constraint> constraints(const Problem& problem, const Device& device) const = 0;
    // The default config of the space, whose parameters and constraints are in `rules`. If it is not legal, or is empty as for a
    // family with an empty space, the first legal config is used instead.
    virtual Config usual_config(const SearchSpace& rules, const Problem& problem, const Device& device) const = 0;
    // Configs that the space does not have are left out.
    virtual std::vector<NamedConfig> named_configs(const Problem& problem, const Device& device) const = 0;

  private:
    Config legal_default(const SearchSpace& space, const Problem& problem, const Device& device) const;
};

}  // namespace autotune
