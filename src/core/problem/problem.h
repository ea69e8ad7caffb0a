#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "src/core/problem/tensor.h"

namespace autotune {

// One named extent of a problem, in the order its op declares them: {"m", 4096}.
struct Extent {
    std::string name;
    std::int64_t value = 0;
    bool operator==(const Extent&) const = default;
};

using AttributeValue = std::variant<std::string, std::int64_t, double>;

// One named word or number that changes the answer or the cost but is not a tensor: {"layout", "nn"}, {"window", 128}. Words come
// from closed lists of the op.
struct Attribute {
    std::string name;
    AttributeValue value;
    bool operator==(const Attribute&) const = default;
};
// The text of a value, such as "nn", "128" or "0.125". A word is unchanged, and a number has the shortest form that reads back as
// the same number.
std::string to_string(const AttributeValue& value);

using ScalarValue = std::variant<float, std::int32_t, std::uint64_t>;

// A typed number passed at launch, such as alpha, beta or a seed. `value` is used for tuning and verifying.
struct Scalar {
    std::string name;
    ScalarValue value = 0.0F;

    double number() const;
    // The value as a kernel parameter: its bytes first, then zeros.
    std::uint64_t bits() const;
};

// An op with everything fixed that changes the answer or the cost. Made by Op::problem only; a plain value afterwards.
struct Problem {
    std::string op;
    std::vector<Extent> extents;
    std::vector<Attribute> attributes;
    std::vector<Tensor> tensors;
    std::vector<Scalar> scalars;

    // The extent with this name. REQUIRES: the op declares it, with the type that the caller reads (throws Error{internal}
    // otherwise).
    std::int64_t extent(std::string_view name) const;
    const AttributeValue& attribute(std::string_view name) const;
    const std::string& word(std::string_view name) const;
    std::int64_t integer(std::string_view name) const;
    double number(std::string_view name) const;
    const Tensor& tensor(std::string_view name) const;

    bool has_attribute(std::string_view name) const;
    void set_extent(std::string_view name, std::int64_t value);
    // Scalar::bits() of every scalar, in order.
    std::vector<std::uint64_t> scalar_bits() const;

    // Everything of the hard key except the extents: "gemm a=f16 b=f16 c=f16 compute=f16 acc=f32 layout=nn beta=zero
    // align=16,16,16". Two problems of one class differ only in extents, so winners of one may serve the other with origin
    // `near`.
    std::string class_key() const;
    // The extents in order, such as "4096x4096x2048". An extent named "batch" is left out if it is 1; otherwise "batch*" comes
    // first.
    std::string shape() const;
    // class_key() + " " + shape(): the identity of a problem in logs, locks and journals.
    std::string key() const;
};

// Largest power of two <= 16 that divides `bytes`; 16 for 0.
int alignment_class(std::int64_t bytes);
// The alignment of a distance in elements, which may be of any length, because only the lowest bits count.
int alignment_of_stride(std::int64_t elements, std::int64_t element_bytes);

}  // namespace autotune
