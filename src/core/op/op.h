#pragma once

#include <string_view>

#include "src/core/op/oracle.h"
#include "src/core/op/schema.h"

namespace autotune {

// The cost of an op's problems. Stateless, pure, thread-safe.
class OpCost {
  public:
    virtual ~OpCost() = default;

    // Floating-point operations, and the least number of bytes that device memory must move.
    virtual double flops(const Problem& problem) const = 0;
    virtual double bytes(const Problem& problem) const = 0;
    // The cost of computing the references of all tests, in FLOPs of gemm's naive kernel.
    virtual double reference_flops(const Problem& problem) const { return 2 * flops(problem); }
    // The unit of speed in tables: "tflops" for compute-bound ops, "gb_per_s" for bandwidth-bound ones.
    virtual std::string_view rate_unit() const = 0;
};

// An op: how its problems are described, what they cost and what their right answers are. Code that needs only one of the three
// takes that base class.
class Op : public OpSchema, public OpCost, public OpOracle {};

}  // namespace autotune
