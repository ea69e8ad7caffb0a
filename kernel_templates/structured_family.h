#pragma once

#include <vector>

#include "src/core/family/family.h"

namespace autotune {

// A family that says its space in parts, from which rules(), default_config() and space() follow.
class StructuredFamily : public Family {
  public:
    SearchSpace rules(const Problem& problem, const Device& device) const final;
    Config default_config(const Problem& problem, const Device& device) const final;
    SearchSpace space(const Problem& problem, const Device& device) const final;

  protected:
    // REQUIRES for all below: !refuses(problem, device).
    virtual std::vector<Parameter> parameters() const = 0;
    virtual std::vector<Constraint> constraints(const Problem& problem, const Device& device) const = 0;
    // A config of the space, of which `rules` is given. One that is not legal or has no parameters, which is what a family gives
    // where its space is empty, is replaced by the space's first.
    virtual Config usual_config(const SearchSpace& rules, const Problem& problem, const Device& device) const = 0;
    // Those that the space does not have are left out.
    virtual std::vector<NamedConfig> named_configs(const Problem& problem, const Device& device) const = 0;

  private:
    Config legal_default(const SearchSpace& space, const Problem& problem, const Device& device) const;
};

}  // namespace autotune
