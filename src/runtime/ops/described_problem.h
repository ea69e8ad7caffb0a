#pragma once

#include <autotune/autotune.h>

#include <span>
#include <string>
#include <string_view>

#include "src/runtime/plan/plan_request.h"

namespace autotune::runtime {

// autotune_problem, the description that serves every op, in the terms of this library.

// A caller's problem after the checks that need no op. Refers to the caller's arrays, which must outlive it.
class GivenProblem {
  public:
    // Throws Failure{invalid argument} for sizes that cannot be and NULL where something must be.
    explicit GivenProblem(const autotune_problem* given);

    std::string_view op() const noexcept { return given_.op; }
    std::size_t tensor_count() const noexcept { return given_.tensor_count; }
    std::size_t attribute_count() const noexcept { return given_.attribute_count; }
    // By position in the caller's array, whose elements are as large as the caller's struct says: those themselves, or `copy`.
    const autotune_tensor& tensor(std::size_t index, autotune_tensor& copy) const noexcept;
    const autotune_attribute& attribute(std::size_t index, autotune_attribute& copy) const noexcept;

  private:
    autotune_problem given_{};
};

// A problem as autotune_plan_create() and autotune_tuned() are asked for one.
class DescribedPlanRequest final : public PlanRequest {
  public:
    // As the problem says.
    explicit DescribedPlanRequest(const autotune_problem* given) : given_(given) {}
    // As one call says: alignments are those of its addresses, in the op's documented order. REQUIRES: they outlive this.
    DescribedPlanRequest(const autotune_problem* given, std::span<const void* const> addresses)
        : given_(given), addresses_(addresses) {}

    // A hash of 128 bits of all that the caller says: names, types, extents, strides, alignments, attributes.
    PlanKey key(std::uint64_t context_id) const noexcept override;
    // REQUIRES: problem() was called.
    CallForm form() const noexcept override { return form_; }
    Problem problem(const Catalogue& catalogue) const override;
    std::optional<Problem> with_word(const Catalogue& catalogue, const std::string& attribute,
                                     const std::string& word) const override;
    // Where a scalar is fixed at zero one that leaves it open, and then one whose tensors are aligned to their elements alone.
    std::vector<Problem> wider_problems(const Catalogue& catalogue) const override;

  private:
    ProblemDescription whole_description(const Op& op) const;
    TensorDescription description(const Op& op, const autotune_tensor& tensor) const;

    GivenProblem given_;
    std::span<const void* const> addresses_;  // empty: alignments are the problem's
    mutable CallForm form_;
};

}  // namespace autotune::runtime
