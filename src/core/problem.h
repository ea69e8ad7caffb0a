#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/dtype.h"

namespace autotune {

// One named extent of a problem, in the order its op declares them: {"m", 4096}.
struct Extent {
    std::string name;
    std::int64_t value = 0;
    bool operator==(const Extent&) const = default;
};

// One named word that changes the answer or the cost: {"layout", "nn"}, {"acc", "f32"}. Words come from closed lists of the op.
struct Trait {
    std::string name;
    std::string value;
    bool operator==(const Trait&) const = default;
};

enum class Access : std::uint8_t { in, out, inout };

// One array in device memory, row-major as stored: element (b, r, c) is at base + b * batch_stride + r * ld + c.
struct Operand {
    std::string name;
    DType dtype = DType::f32;
    Access access = Access::in;
    std::int64_t rows = 0;  // as stored
    std::int64_t cols = 0;  // as stored; the contiguous direction
    std::int64_t ld = 0;    // elements between rows, >= cols
    std::int64_t batch = 1;
    std::int64_t batch_stride = 0;  // elements
    int alignment_bytes = 16;       // power of two <= 16 that divides the base address, every row and every batch

    // Elements from the first to one past the last, gaps included. 0 if any extent is 0.
    std::int64_t span() const;
    std::int64_t span_bytes() const { return span() * static_cast<std::int64_t>(size_bytes(dtype)); }
};

// A number passed at launch, such as alpha or beta. `value` is what tuning and verifying use.
struct Scalar {
    std::string name;
    double value = 0;
};

// An op with everything fixed that changes the answer or the cost. Made by Op::problem only; a plain value afterwards.
struct Problem {
    std::string op;
    std::vector<Extent> extents;
    std::vector<Trait> traits;
    std::vector<Operand> operands;
    std::vector<Scalar> scalars;

    // Value of an extent or a trait. REQUIRES: the op declares it (throws Error{internal} otherwise).
    std::int64_t extent(std::string_view name) const;
    const std::string& trait(std::string_view name) const;
    const Operand& operand(std::string_view name) const;

    // Everything of the hard key but the extents: "gemm a=f16 b=f16 c=f16 compute=f16 acc=f32 layout=nn beta=zero
    // align=16,16,16". Two problems of one class differ in extents alone, so winners of one may serve the other with origin
    // `near`.
    std::string class_key() const;
    // "4096x4096x2048": the extents in order; an extent named "batch" is left out when it is 1, and "batch*" comes first
    // otherwise.
    std::string shape() const;
    // class_key() + " " + shape(): the identity of a problem in logs, locks and journals.
    std::string key() const;
};

// Largest power of two <= 16 that divides `bytes`; 16 for 0.
int alignment_class(std::int64_t bytes);

}  // namespace autotune
