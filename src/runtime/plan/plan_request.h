#pragma once

#include <autotune/autotune.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/catalogue/catalogue.h"
#include "src/core/problem/problem.h"
#include "src/runtime/plan/plan_key.h"

namespace autotune::runtime {

// How a call passes a problem's tensors.
struct CallForm {
    static constexpr std::size_t kMostTensors = 16;

    std::array<std::uint8_t, kMostTensors> order = in_order();  // tensor i of the problem is address order[i] of the call
    // The first output may be an input of the same layout. No output may overlap another tensor otherwise.
    bool may_be_in_place = false;

    static constexpr std::array<std::uint8_t, kMostTensors> in_order() {
        std::array<std::uint8_t, kMostTensors> order{};
        for (std::uint8_t i = 0; i < kMostTensors; ++i) order[i] = i;
        return order;
    }
};

// A problem as a caller describes it in the C struct of its op. One class per op; lives as long as the call.
class PlanRequest {
  public:
    virtual ~PlanRequest() = default;

    // Key of its plan, computed before every launch: no checks, no allocation.
    virtual PlanKey key(std::uint64_t context_id) const noexcept = 0;
    // The problem with another value of an attribute, or nullopt if the caller's struct cannot express it.
    virtual std::optional<Problem> with_word(const Catalogue& catalogue, const std::string& attribute,
                                             const std::string& word) const {
        (void)catalogue, (void)attribute, (void)word;
        return std::nullopt;
    }
    // The key of a plan that serves more problems, including this one.
    virtual std::optional<PlanKey> wider_key(std::uint64_t context_id) const noexcept {
        (void)context_id;
        return std::nullopt;
    }
    // Wider problems whose kernels serve this one too, with code that it does not need: the narrowest first.
    virtual std::vector<Problem> wider_problems(const Catalogue& catalogue) const {
        (void)catalogue;
        return {};
    }
    // REQUIRES: problem() was called before.
    virtual CallForm form() const noexcept { return {}; }

    // The problem in its op's form. Throws Failure{invalid argument} naming the member and the allowed values.
    virtual Problem problem(const Catalogue& catalogue) const = 0;
};

// ---- shared by the structs of all ops; failures are Failure{invalid argument} ----

[[noreturn]] void refuse(const std::string& message);

// Refuses AUTOTUNE_DTYPE_DEFAULT too.
DType dtype_of(autotune_dtype type, const char* member);
// `usual` for AUTOTUNE_DTYPE_DEFAULT.
DType dtype_of(autotune_dtype type, const char* member, DType usual);

// The alignment that a tensor's member gives; 0 means 16. `name`: the tensor's, for messages.
int checked_align(int align, const std::string& name, std::int64_t element_bytes);

// Largest power of two <= 16 that divides the address.
inline unsigned alignment_of(const void* address) noexcept {
    const auto bits = static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(address) & 15U) | 16U;
    return bits & (~bits + 1U);
}

}  // namespace autotune::runtime
