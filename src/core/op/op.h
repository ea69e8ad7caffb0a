#pragma once

#include <string_view>

#include "src/core/op/oracle.h"
#include "src/core/op/schema.h"

namespace autotune {

// What problems of an op cost. Stateless, pure, thread-safe.
class OpCost {
  public:
    virtual ~OpCost() = default;

    // Floating-point operations, and the fewest bytes that device memory must move.
    virtual double flops(const Problem& problem) const = 0;
    virtual double bytes(const Problem& problem) const = 0;
    // What the references of all its tests cost, in FLOPs of gemm's naive kernel.
    virtual double reference_flops(const Problem& problem) const { return 2 * flops(problem); }
    // What tables show for speed: "tflops" for compute-bound ops, "gb_per_s" for bandwidth-bound ones.
    virtual std::string_view rate_unit() const = 0;
};

// An op: how its problems are said, what they cost and what their right answers are. Whoever needs one of the three takes that
// one.
class Op : public OpSchema, public OpCost, public OpOracle {};

}  // namespace autotune
