#pragma once

#include <autotune/autotune.h>

#include <array>

#include "src/runtime/plan/plan_request.h"

namespace autotune::runtime {

// Copies a caller's problem. Throws Failure{invalid argument} for a size that is not one of autotune_add_problem.
autotune_add_problem read_problem(const autotune_add_problem* given);

// A request for the plan of an add, by autotune_add_plan() or autotune_tuned_add(). Refers to the struct, which must outlive it.
class AddPlanRequest final : public PlanRequest {
  public:
    explicit AddPlanRequest(const autotune_add_problem& given);
    // Alignments are those of one call's addresses: a, b, c.
    AddPlanRequest(const autotune_add_problem& given, const std::array<const void*, 3>& operands);

    PlanKey key(std::uint64_t context_id) const noexcept override;
    CallForm form() const noexcept override {
        CallForm form;
        form.may_be_in_place = true;
        return form;
    }
    Problem problem(const Catalogue& catalogue) const override;

  private:
    const autotune_add_problem& given_;
    std::array<int, 3> aligns_;
};

}  // namespace autotune::runtime
