#include "kernel_templates/structured_family.h"

#include "kernel_templates/named_configs.h"

namespace autotune {

SearchSpace StructuredFamily::rules(const Problem& problem, const Device& device) const {
    SearchSpace space;
    space.version = space_version();
    space.parameters = parameters();
    space.constraints = constraints(problem, device);
    return space;
}

Config StructuredFamily::default_config(const Problem& problem, const Device& device) const {
    return legal_default(rules(problem, device), problem, device);
}

// The family's usual config, if its rules allow it here.
Config StructuredFamily::legal_default(const SearchSpace& space, const Problem& problem, const Device& device) const {
    const Config usual = usual_config(space, problem, device);
    if (!usual.empty() && space.contains(usual)) return usual;
    // The first config is computed only if it is needed, because finding it takes longer than everything else here.
    return space.first().value_or(Config{});
}

SearchSpace StructuredFamily::space(const Problem& problem, const Device& device) const {
    SearchSpace space = rules(problem, device);
    space.default_config = legal_default(space, problem, device);
    space.named = legal_ones(named_configs(problem, device), space);
    return space;
}

}  // namespace autotune
