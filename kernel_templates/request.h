#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/op.h"

namespace autotune {

// What every op's parsing shares. All members and functions throw Error{usage}: one sentence with the culprit and what is
// allowed.

// Largest extent of any op: kernels count in 32-bit integers along one direction.
constexpr std::int64_t kLargestExtent = 2147483647;
// Largest operand: 128 TiB, what a 47-bit address space holds.
constexpr std::int64_t kLargestOperandBytes = std::int64_t{1} << 47;

// A shape's numbers: "16*512x256x64" gives batch 16 and {512, 256, 64}. Every number is in 1..kLargestExtent.
struct ShapeNumbers {
    std::optional<std::int64_t> batch;
    std::vector<std::int64_t> extents;
};
// `form` is the op's shape_form(), "MxNxK": its letters name the culprit, and there must be as many numbers.
ShapeNumbers parse_shape(std::string_view shape, std::string_view form);

// The options of a request over the presets of the alias it names, checked against what the op declares.
class RequestOptions {
  public:
    RequestOptions(const Op& op, const ProblemRequest& request);

    std::optional<std::string> find(std::string_view name) const;
    std::string word(std::string_view name, std::string_view otherwise) const;
    // An integer in 1..kLargestOperandBytes: no operand has more elements, and no later product overflows.
    std::optional<std::int64_t> positive(std::string_view name) const;
    // A finite number that fits a float.
    std::optional<double> number(std::string_view name) const;

  private:
    void add(const Op& op, const std::string& name, const std::string& value);

    std::map<std::string, std::string, std::less<>> values_;
};

// Refuses an operand that spans more than kLargestOperandBytes, without overflowing on the way.
void check_operand_size(const Operand& operand);

[[noreturn]] void refuse(const std::string& sentence);

}  // namespace autotune
