#pragma once

#include <autotune/autotune.h>

#include <array>

#include "src/catalogue/catalogue.h"
#include "src/core/problem/problem.h"
#include "src/runtime/plan/general_kernel.h"
#include "src/runtime/plan/plan_key.h"
#include "src/runtime/plan/plan_request.h"

namespace autotune::runtime {

// Converts the public struct to the library's own types: checks it, and turns column-major into row-major. A column-major C =
// op(A) op(B) is, in the same memory, a row-major C' = op(B)' op(A)': the operands swap, and so do m and n. CallForm::order gives
// the address of each tensor.

// Copies a caller's problem. Throws Failure{invalid argument} for a size that is not one of autotune_gemm_problem.
autotune_gemm_problem read_problem(const autotune_gemm_problem* given);

// The problem as the op `gemm` knows it. Throws Failure{invalid argument} naming the member and what is allowed.
Problem to_problem(const autotune_gemm_problem& given, const Catalogue& catalogue);

inline bool swaps_operands(const autotune_gemm_problem& given) {
    return given.order == AUTOTUNE_COLUMN_MAJOR;
}

// The key that is looked up before every launch: no checks, no allocation. `aligns`: alignment classes of a, b and c in the
// caller's order.
PlanKey key_of(const autotune_gemm_problem& given, std::uint64_t context_id, const std::array<unsigned, 3>& aligns,
               autotune_beta beta) noexcept;

// A request for the plan of a gemm, by autotune_gemm_plan() or autotune_tuned_gemm(). Refers to the struct, which must outlive
// it.
class GemmPlanRequest final : public PlanRequest {
  public:
    // The request for a plan that serves every call that the struct allows.
    explicit GemmPlanRequest(const autotune_gemm_problem& given);
    // The request for one call, with the alignments of its addresses in the caller's order, and its beta.
    GemmPlanRequest(const autotune_gemm_problem& given, const std::array<const void*, 3>& operands, float beta);

    PlanKey key(std::uint64_t context_id) const noexcept override;
    // A plan for any beta serves beta = 0 as well.
    std::optional<PlanKey> wider_key(std::uint64_t context_id) const noexcept override;
    std::vector<Problem> wider_problems(const Catalogue& catalogue) const override;
    std::optional<Problem> with_word(const Catalogue& catalogue, const std::string& attribute,
                                     const std::string& word) const override;
    CallForm form() const noexcept override;
    Problem problem(const Catalogue& catalogue) const override;

  private:
    Problem problem_of(autotune_beta beta, const std::array<unsigned, 3>& aligns, const Catalogue& catalogue) const;

    const autotune_gemm_problem& given_;
    std::array<unsigned, 3> aligns_;
    autotune_beta beta_;
};

}  // namespace autotune::runtime
