#pragma once

#include <array>
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

// A shape's numbers: "16*512x256x64" gives batch 16 and {512, 256, 64}.
struct ShapeNumbers {
    std::optional<std::int64_t> batch;
    std::vector<std::int64_t> extents;
};
struct ExtentRange {
    std::int64_t least = 1;
    std::int64_t most = kLargestExtent;
};
// `form` is a form of the op's shape, "MxNxK": its letters name the culprit, and there must be as many numbers, each in `range`.
ShapeNumbers parse_shape(std::string_view shape, std::string_view form, const ExtentRange& range = {});

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
    std::map<std::string, std::string, std::less<>> values_;
};

// The option "align" of an op with the operands A, B and C: a power of two from one element to 16 bytes, once for all of them or
// one for each ("16" or "16,8,2"); 16 where it is not given.
std::array<int, 3> parse_alignments(const RequestOptions& options, std::size_t element_bytes);

// Refuses an operand that spans more than kLargestOperandBytes, without overflowing on the way.
void check_operand_size(const Operand& operand);

[[noreturn]] void refuse(const std::string& sentence);

}  // namespace autotune
