#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/core/op/op.h"

namespace autotune {

// Shared by the schemas of all ops. All members and functions throw Error{usage}: one sentence with the culprit and what is
// allowed.

// The largest extent of any op. Kernels count in 32-bit integers along one direction.
constexpr std::int64_t kLargestExtent = 2147483647;
// Largest tensor: 128 TiB, the size of a 47-bit address space.
constexpr std::int64_t kLargestTensorBytes = std::int64_t{1} << 47;

// A shape's numbers: "16*512x256x64" gives batch 16 and {512, 256, 64}.
struct ShapeNumbers {
    std::optional<std::int64_t> batch;
    std::vector<std::int64_t> extents;
};
struct ExtentRange {
    std::int64_t least = 1;
    std::int64_t most = kLargestExtent;
};
// `form` is a form of the op's shape, "MxNxK": messages name the culprit by its letter, and there must be as many numbers, each
// in `range`.
ShapeNumbers parse_shape(std::string_view shape, std::string_view form, const ExtentRange& range = {});

// The options of a request, added to the presets of the alias that it names, and checked against what the op declares.
class RequestOptions {
  public:
    RequestOptions(const Op& op, const ProblemRequest& request);

    std::optional<std::string> find(std::string_view name) const;
    std::string word(std::string_view name, std::string_view otherwise) const;
    // An integer in 1..kLargestTensorBytes: no tensor has more elements, and later products cannot overflow.
    std::optional<std::int64_t> positive(std::string_view name) const;
    // A finite number that fits a float.
    std::optional<double> number(std::string_view name) const;

  private:
    std::map<std::string, std::string, std::less<>> values_;
};

// The option "align" of an op: a power of two from one element to 16 bytes, one for all of these tensors or one for each ("16" or
// "16,8,2"); 16 if it is not given.
std::vector<int> parse_alignments(const RequestOptions& options, std::size_t element_bytes,
                                  const std::vector<std::string>& names);

// Refuses a tensor that spans more than kLargestTensorBytes, without overflowing on the way.
void check_tensor_size(const Tensor& tensor);

// The tensors and attributes of a description, checked against what the op declares: names, ranks, extents, strides, alignment.
class DescribedTensors {
  public:
    // Throws Error{usage} for a name that the op does not have, one given twice, and a tensor that is missing.
    DescribedTensors(const Op& op, const ProblemDescription& description);

    // The tensor with this name, or nullptr if it is optional and was left out.
    const TensorDescription* find(std::string_view name) const;
    const TensorDescription& at(std::string_view name) const { return *find(name); }
    // The dimensions of a tensor, as many as the op declares. If leading ones were left out, they have an extent of 1.
    std::vector<Dim> dims(std::string_view name) const;

    // An attribute's word, which must be one that the op allows, or `otherwise` if it was left out.
    std::string word(std::string_view name, std::string_view otherwise) const;
    std::optional<std::string> find_word(std::string_view name) const;
    // An attribute's number, or `otherwise` if it was left out.
    double number(std::string_view name, double otherwise) const;

  private:
    void add_tensor(const TensorDescription& tensor);
    void add_attribute(const Attribute& attribute);

    std::string op_;
    std::vector<TensorForm> forms_;
    std::vector<OpOption> known_attributes_;
    std::vector<const TensorDescription*> given_;  // by form
    std::map<std::string, AttributeValue, std::less<>> attributes_;
};

[[noreturn]] void refuse(const std::string& sentence);

}  // namespace autotune
