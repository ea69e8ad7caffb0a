#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/core/oracle.h"
#include "tuner/harness.h"

namespace autotune::tuner {

// Freivalds' check: out x = left (right x) + what was in out, for vectors x of weights, in integers and without a tolerance. It
// sees every element, at the cost of reading each tensor once; an answer that is wrong anywhere passes with a probability of at
// most kWeights ^ -kVectors.
class ProductCheck {
  public:
    static constexpr int kVectors = 2;

    // REQUIRES: tensors hold the form's fills, the output as before a run. `harness` outlives it.
    ProductCheck(Harness& harness, const Problem& problem, const ProductForm& form, std::span<const gpu::DeviceAddress> tensors,
                 std::uint64_t seed);
    // What is wrong with the output at this address; empty if nothing is.
    std::string judge(gpu::DeviceAddress out) const;

  private:
    struct Vector {
        std::vector<std::int64_t> weights, expected;
    };
    Harness& harness_;
    TypedMatrix out_;
    std::vector<Vector> vectors_;
};

}  // namespace autotune::tuner
