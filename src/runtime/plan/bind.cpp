#include "src/runtime/plan/bind.h"

#include <string>

#include "kernel_templates/empty_sum.h"

namespace autotune::runtime {

std::shared_ptr<Plan> bind(Services& services, const ChosenInstance& chosen, const Problem& problem, const PlanSpec& spec) {
    const std::string name(chosen.instance ? chosen.instance->candidate.family : empty_sum_family().name());
    const Family* family = services.catalogue.find_family(name);
    if (family == nullptr) internal_error("no family " + name);
    return std::make_shared<Plan>(Plan::Parts{services.driver, chosen.instance, *family, problem,
                                              services.device(spec.context.ordinal), spec.context.id, chosen.origin,
                                              chosen.recorded_us, chosen.recorded_rival_us, chosen.regret, spec.form,
                                              services.errors, chosen.when_zero, spec.zero_scalar, services.reach});
}

SharedPlan bind_empty_sum(Services& services, const PlanSpec& spec, EmptySumKernel kernel) {
    ChosenInstance chosen{.instance = nullptr, .regret = 0};
    const Device& device = services.device(spec.context.ordinal);
    const Candidate candidate{std::string(empty_sum_family().name()), {}};
    if (!services.catalogue.op_of(spec.problem).empty_sums(spec.problem)->empty()) {
        chosen.instance = kernel == EmptySumKernel::if_loaded ? services.instances.find(candidate, spec.problem, device)
                                                              : services.instances.make({candidate}, spec.problem, device);
        if (!chosen.instance) return nullptr;
    }
    return bind(services, chosen, spec.problem, spec);
}

bool is_final(const Error& error) {
    const auto* driver = dynamic_cast<const gpu::DriverError*>(&error);
    if (driver != nullptr) return driver->severity() != gpu::Severity::refused;
    return error.code() == ErrorCode::internal;
}

}  // namespace autotune::runtime
