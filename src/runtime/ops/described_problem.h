#pragma once

#include <autotune/autotune.h>

#include <span>
#include <string>
#include <string_view>

#include "src/runtime/plan/plan_request.h"

namespace autotune::runtime {

// Converts autotune_problem, the description that serves every op, to the library's own types.

// A caller's problem after the checks that need no op. Refers to the caller's arrays, which must outlive it.
class GivenProblem {
  public:
    // Throws Failure{invalid argument} for sizes that no version has, and for NULL where an address is required.
    explicit GivenProblem(const autotune_problem* given);

    std::string_view op() const noexcept { return given_.op; }
    std::size_t tensor_count() const noexcept { return given_.tensor_count; }
    std::size_t attribute_count() const noexcept { return given_.attribute_count; }
    // The tensor at a position in the caller's array, whose element size the caller's struct gives. Returns the element itself,
    // or `copy`.
    const autotune_tensor& tensor(std::size_t index, autotune_tensor& copy) const noexcept;
    const autotune_attribute& attribute(std::size_t index, autotune_attribute& copy) const noexcept;

  private:
    autotune_problem given_{};
};

// A request for the plan of a described problem, by autotune_plan_create() or autotune_tuned().
class DescribedPlanRequest final : public PlanRequest {
  public:
    // The request with the alignments that the problem gives.
    explicit DescribedPlanRequest(const autotune_problem* given) : given_(given) {}
    // The request with the alignments of one call's addresses, in the op's documented order. REQUIRES: the addresses outlive
    // this.
    DescribedPlanRequest(const autotune_problem* given, std::span<const void* const> addresses)
        : given_(given), addresses_(addresses) {}

    // A 128-bit hash of everything that the caller gives: names, types, extents, strides, alignments, attributes.
    PlanKey key(std::uint64_t context_id) const noexcept override;
    // REQUIRES: problem() was called.
    CallForm form() const noexcept override { return form_; }
    Problem problem(const Catalogue& catalogue) const override;
    std::optional<Problem> with_word(const Catalogue& catalogue, const std::string& attribute,
                                     const std::string& word) const override;
    // If the problem fixes a scalar at zero, these are the problem that leaves the scalar open, and the same problem with tensors
    // that are only aligned to their elements.
    std::vector<Problem> wider_problems(const Catalogue& catalogue) const override;

  private:
    ProblemDescription whole_description(const Op& op) const;
    TensorDescription description(const Op& op, const autotune_tensor& tensor) const;

    GivenProblem given_;
    std::span<const void* const> addresses_;  // empty: alignments are the problem's
    mutable CallForm form_;
};

}  // namespace autotune::runtime
