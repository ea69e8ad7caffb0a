#include "src/runtime/plan/plan_spec.h"

#include <string>

namespace autotune::runtime {

// If the problem leaves a scalar to each call, the scalar may be zero in all of them. `zeroed` is the problem that fixes it at
// zero. Its kernels do not read the operand that the scalar multiplies.
PlanSpec spec_of(const PlanLookup& lookup, const Catalogue& catalogue) {
    PlanSpec spec{lookup.key, lookup.context, lookup.request.problem(catalogue), {}};
    spec.form = lookup.request.form();
    for (std::size_t i = 0; i < spec.problem.scalars.size(); ++i) {
        const std::string& name = spec.problem.scalars[i].name;
        if (!spec.problem.has_attribute(name) || spec.problem.attribute(name) != AttributeValue("any")) continue;
        spec.zeroed = lookup.request.with_word(catalogue, name, "zero");
        spec.zero_scalar = i;
        break;
    }
    return spec;
}

}  // namespace autotune::runtime
