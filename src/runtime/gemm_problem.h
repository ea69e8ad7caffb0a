#pragma once

#include <autotune/autotune.h>

#include <array>

#include "kernel_templates/catalogue.h"
#include "src/core/problem.h"
#include "src/runtime/plan_key.h"

namespace autotune::runtime {

// The public struct in the terms of this library: what is checked, and how column-major becomes row-major. A column-major
// C = op(A) op(B) is, in the same memory, a row-major C' = op(B)' op(A)': the operands swap places, and so do m and n.
// Address i of a call belongs to operand operand_order(...)[i] of the problem.

// Copies a caller's problem. Throws Failure{invalid argument} for a size that is not one of autotune_gemm_problem.
autotune_gemm_problem read_problem(const autotune_gemm_problem* given);

// The problem as the op `gemm` knows it. Throws Failure{invalid argument} naming the member and what is allowed.
Problem to_problem(const autotune_gemm_problem& given, const Catalogue& catalogue);

inline bool swaps_operands(const autotune_gemm_problem& given) {
    return given.order == AUTOTUNE_COLUMN_MAJOR;
}

// What is looked up before every launch: no checks, no allocation. `aligns` are alignment classes of a, b and c in the caller's
// order.
PlanKey key_of(const autotune_gemm_problem& given, std::uint64_t context_id, const std::array<unsigned, 3>& aligns,
               bool beta_is_zero) noexcept;

// Largest power of two <= 16 that divides the address.
inline unsigned alignment_of(const void* address) noexcept {
    const auto bits = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(address) & 15U) | 16U;
    return bits & (~bits + 1U);
}

}  // namespace autotune::runtime
