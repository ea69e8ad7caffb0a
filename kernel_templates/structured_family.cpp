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
    return usual_config(rules(problem, device), problem, device);
}

SearchSpace StructuredFamily::space(const Problem& problem, const Device& device) const {
    SearchSpace space = rules(problem, device);
    space.default_config = usual_config(space, problem, device);
    space.named = legal_ones(named_configs(problem, device), space);
    return space;
}

}  // namespace autotune
