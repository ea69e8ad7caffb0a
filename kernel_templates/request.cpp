#include "kernel_templates/request.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#include "src/core/error.h"
#include "src/core/integer_math.h"
#include "src/core/spelling.h"
#include "src/core/text.h"

namespace autotune {
namespace {

enum class Parsed { number, no_number, too_large };

// Accepts only digits with an optional sign.
Parsed parse_integer(std::string_view text, std::int64_t& value) {
    const char* const end = text.data() + text.size();
    const auto [stopped, code] = std::from_chars(text.data(), end, value);
    if (code == std::errc::result_out_of_range) return Parsed::too_large;
    return code == std::errc{} && stopped == end ? Parsed::number : Parsed::no_number;
}

struct ExtentText {
    std::string_view text;
    std::string name;
};

std::int64_t parse_extent(const ExtentText& extent, const std::string& shape, const ExtentRange& range) {
    std::int64_t value = 0;
    const Parsed parsed = parse_integer(extent.text, value);
    const std::string where = "shape '" + shape + "': " + extent.name;
    const std::string least = "at least " + std::to_string(range.least);
    if (parsed == Parsed::no_number && extent.text.empty()) refuse(where + " is missing; give a whole number of " + least);
    if (parsed == Parsed::no_number) refuse(where + " is '" + std::string(extent.text) + "'; give a whole number of " + least);
    // "4,096" is refused, because the command reads "4,096x4,096" as a list of 4 and 096.
    if (extent.text.size() > 1 && extent.text.front() == '0')
        refuse(where + " is '" + std::string(extent.text) + "'; write it without a 0 in front, and 4096 without a comma");
    if (parsed == Parsed::number && value < range.least) {
        refuse(
            where + " is " + std::to_string(value) + "; every extent is " + least +
            (value == 0 ? " (the library answers a problem without elements itself: there is nothing to tune or to time)" : ""));
    }
    if (parsed == Parsed::too_large || value > range.most) {
        refuse(where + " is " + std::string(extent.text) + "; the largest extent is " + std::to_string(range.most));
    }
    return value;
}

std::vector<std::string> names_of(const std::vector<OpOption>& options) {
    std::vector<std::string> names;
    for (const OpOption& each : options) names.push_back(each.name);
    return names;
}

// The word of a closed list that `value` means.
std::string checked_word(const std::string& name, const std::string& value, const std::vector<std::string>& allowed) {
    const std::string word = known_word(value, allowed);
    if (!allowed.empty() && std::find(allowed.begin(), allowed.end(), word) == allowed.end())
        refuse("unknown " + name + " '" + word + "'" + did_you_mean(word, allowed) + "; allowed are " + join(allowed));
    return word;
}

// An option with its name and value in the op's spelling. `known` are the options of the op.
std::pair<std::string, std::string> checked_option(const Op& op, const std::vector<OpOption>& known,
                                                   const std::pair<std::string, std::string>& given) {
    const std::vector<std::string> names = names_of(known);
    const std::string name = known_word(given.first, names);
    const auto option = std::find_if(known.begin(), known.end(), [&](const OpOption& entry) { return entry.name == name; });
    if (option == known.end()) {
        refuse("op '" + std::string(op.name()) + "' has no option '" + name + "'" + did_you_mean(name, names) +
               "; its options are " + join(names));
    }
    return {name, checked_word(name, given.second, option->allowed)};
}

const OpAlias* alias_named(const std::vector<OpAlias>& aliases, std::string_view name) {
    const auto found = std::find_if(aliases.begin(), aliases.end(), [&](const OpAlias& alias) { return alias.name == name; });
    return found == aliases.end() ? nullptr : &*found;
}

}  // namespace

[[noreturn]] void refuse(const std::string& sentence) {
    throw Error(ErrorCode::usage, sentence);
}

ShapeNumbers parse_shape(std::string_view shape, std::string_view form, const ExtentRange& range) {
    const std::string whole(shape);
    const std::vector<std::string> letters = split(form, 'x');
    if (const auto with_x = letters.size() > 1 ? shape_with_x(whole, letters.size()) : std::nullopt)
        refuse("shape '" + whole + "': put x between extents: " + *with_x);
    ShapeNumbers numbers;
    if (const std::size_t star = shape.find('*'); star != std::string_view::npos) {
        numbers.batch = parse_extent({shape.substr(0, star), "the batch"}, whole, {});
        shape.remove_prefix(star + 1);
    }
    const std::vector<std::string> parts = split(shape, 'x');
    for (std::size_t i = 0; i < std::min(parts.size(), letters.size()); ++i) {
        numbers.extents.push_back(parse_extent({parts[i], std::string(letters[i])}, whole, range));
    }
    if (parts.size() != letters.size()) {
        refuse("shape '" + whole + "' has " + std::to_string(parts.size()) + (parts.size() == 1 ? " extent; " : " extents; ") +
               std::string(form) + " has " + std::to_string(letters.size()));
    }
    return numbers;
}

RequestOptions::RequestOptions(const Op& op, const ProblemRequest& request) {
    const std::vector<OpOption> known = op.options();
    for (const auto& given : request.options) {
        auto [name, value] = checked_option(op, known, given);
        if (!values_.emplace(name, std::move(value)).second) refuse("option '" + name + "' is given twice");
    }
    const std::vector<OpAlias> aliases = op.aliases();
    const OpAlias* const alias = alias_named(aliases, request.op);
    if (alias == nullptr) return;
    for (const auto& [name, preset] : alias->presets) {
        const std::optional<std::string> given = find(name);
        if (given && *given != preset) {
            refuse("op '" + request.op + "' means " + name + " " + preset + ", not " + *given + "; use op '" +
                   std::string(op.name()) + "' to choose it");
        }
        values_[name] = preset;
    }
}

std::optional<std::string> RequestOptions::find(std::string_view name) const {
    const auto found = values_.find(name);
    if (found == values_.end()) return std::nullopt;
    return found->second;
}

std::string RequestOptions::word(std::string_view name, std::string_view otherwise) const {
    return find(name).value_or(std::string(otherwise));
}

std::optional<std::int64_t> RequestOptions::positive(std::string_view name) const {
    const std::optional<std::string> text = find(name);
    if (!text) return std::nullopt;
    std::int64_t value = 0;
    if (parse_integer(*text, value) != Parsed::number || value < 1 || value > kLargestTensorBytes) {
        refuse(std::string(name) + " is '" + *text + "'; give a whole number from 1 to 2^47");
    }
    return value;
}

std::optional<double> RequestOptions::number(std::string_view name) const {
    const std::optional<std::string> text = find(name);
    if (!text) return std::nullopt;
    double value = 0;
    const char* const end = text->data() + text->size();
    const auto [stopped, code] = std::from_chars(text->data(), end, value);
    const bool fits = std::isfinite(value) && std::fabs(value) <= static_cast<double>(std::numeric_limits<float>::max());
    if (code != std::errc{} || stopped != end || !fits) {
        refuse(std::string(name) + " is '" + *text + "'; give a finite number that fits a 32-bit float");
    }
    return value;
}

std::vector<int> parse_alignments(const RequestOptions& options, std::size_t element_bytes,
                                  const std::vector<std::string>& names) {
    const std::string text = options.word("align", "16");
    std::vector<int> alignments;
    const char* at = text.data();
    const char* const end = at + text.size();
    while (true) {
        unsigned value = 0;
        const auto [stopped, code] = std::from_chars(at, end, value);
        const bool is_good = code == std::errc{} && std::has_single_bit(value) && value <= 16 && value >= element_bytes;
        if (!is_good || (stopped != end && *stopped != ',')) {
            refuse("align is '" + text + "'; give a power of two from " + std::to_string(element_bytes) +
                   " (one element) to 16 bytes, once or for each of " + join(names));
        }
        alignments.push_back(static_cast<int>(value));
        if (stopped == end) break;
        at = stopped + 1;
    }
    if (alignments.size() == 1) alignments.assign(names.size(), alignments[0]);
    if (alignments.size() != names.size()) refuse("align is '" + text + "'; give one number, or one for each of " + join(names));
    return alignments;
}

namespace {

// The larger of two numbers: the bytes of all elements, each counted as often as it is repeated, and the bytes that the elements
// span. nullopt if it exceeds 64 bits.
std::optional<std::int64_t> largest_size(const Tensor& tensor) {
    std::optional<std::int64_t> elements = 1, last = 0;
    for (const Dim& dim : tensor.dims) {
        const std::optional<std::int64_t> distance = checked_product(dim.extent - 1, dim.stride);
        elements = elements ? checked_product(*elements, dim.extent) : std::nullopt;
        last = last && distance ? checked_sum(*last, *distance) : std::nullopt;
    }
    const std::optional<std::int64_t> span = last ? checked_sum(*last, 1) : std::nullopt;
    if (!elements || !span) return std::nullopt;
    return checked_product(std::max(*elements, *span), static_cast<std::int64_t>(size_bytes(tensor.dtype)));
}

}  // namespace

void check_tensor_size(const Tensor& tensor) {
    if (tensor.is_empty()) return;
    const std::optional<std::int64_t> bytes = largest_size(tensor);
    if (bytes && *bytes <= kLargestTensorBytes) return;
    std::string extents;
    for (const Dim& dim : tensor.dims) extents += (extents.empty() ? "" : "x") + std::to_string(dim.extent);
    refuse("tensor " + tensor.name + " of " + extents + " elements is larger than 128 TiB; make the shape smaller");
}

DescribedTensors::DescribedTensors(const Op& op, const ProblemDescription& description)
    : op_(op.name()), forms_(op.tensors()), known_attributes_(op.attributes()), given_(forms_.size(), nullptr) {
    for (const TensorDescription& tensor : description.tensors) add_tensor(tensor);
    for (const Attribute& attribute : description.attributes) add_attribute(attribute);
    for (std::size_t i = 0; i < forms_.size(); ++i) {
        if (given_[i] == nullptr && !forms_[i].is_optional) refuse("op '" + op_ + "' needs the tensor '" + forms_[i].name + "'");
    }
}

void DescribedTensors::add_tensor(const TensorDescription& tensor) {
    const auto form =
        std::find_if(forms_.begin(), forms_.end(), [&](const TensorForm& entry) { return entry.name == tensor.name; });
    if (form == forms_.end()) {
        std::vector<std::string> names;
        for (const TensorForm& entry : forms_) names.push_back(entry.name);
        refuse("op '" + op_ + "' has no tensor '" + tensor.name + "'; its tensors are " + join(names));
    }
    const TensorDescription*& place = given_[static_cast<std::size_t>(form - forms_.begin())];
    if (place != nullptr) refuse("tensor '" + tensor.name + "' is given twice");
    place = &tensor;
    const auto what = [&] { return "tensor " + tensor.name; };
    if (tensor.dims.size() > form->dims.size())
        refuse(what() + " has " + std::to_string(tensor.dims.size()) + " dimensions; it has at most " +
               std::to_string(form->dims.size()) + ": " + join(form->dims));
    for (const Dim& dim : tensor.dims) {
        if (dim.extent < 0) refuse(what() + " has an extent of " + std::to_string(dim.extent) + "; extents are not negative");
        if (dim.stride < 0) refuse(what() + " has a stride of " + std::to_string(dim.stride) + "; strides are not negative");
    }
    const auto alignment = static_cast<unsigned>(tensor.alignment_bytes);
    if (tensor.alignment_bytes < static_cast<int>(size_bytes(tensor.dtype)) || alignment > 16 || !std::has_single_bit(alignment))
        refuse(what() + " is aligned to " + std::to_string(tensor.alignment_bytes) + " bytes; give a power of two from " +
               std::to_string(size_bytes(tensor.dtype)) + " (one element) to 16");
}

void DescribedTensors::add_attribute(const Attribute& attribute) {
    const auto known = std::find_if(known_attributes_.begin(), known_attributes_.end(),
                                    [&](const OpOption& entry) { return entry.name == attribute.name; });
    if (known == known_attributes_.end()) {
        const std::vector<std::string> names = names_of(known_attributes_);
        refuse("op '" + op_ + "' has no attribute '" + attribute.name + "'" + did_you_mean(attribute.name, names) + "; " +
               (names.empty() ? "it has none" : "its attributes are " + join(names)));
    }
    AttributeValue value = attribute.value;
    if (!known->allowed.empty()) {
        const std::string word = to_string(attribute.value);
        const std::string spelled = checked_word(attribute.name, word, known->allowed);
        if (spelled != word) value = spelled;
    }
    if (!attributes_.emplace(attribute.name, std::move(value)).second)
        refuse("attribute '" + attribute.name + "' is given twice");
}

const TensorDescription* DescribedTensors::find(std::string_view name) const {
    const auto form = std::find_if(forms_.begin(), forms_.end(), [&](const TensorForm& entry) { return entry.name == name; });
    check(form != forms_.end(), "op " + op_ + " asks for a tensor that it does not declare");
    return given_[static_cast<std::size_t>(form - forms_.begin())];
}

std::vector<Dim> DescribedTensors::dims(std::string_view name) const {
    const auto form = std::find_if(forms_.begin(), forms_.end(), [&](const TensorForm& entry) { return entry.name == name; });
    std::vector<Dim> dims = at(name).dims;
    dims.insert(dims.begin(), form->dims.size() - dims.size(), Dim{1, 0});
    return dims;
}

std::optional<std::string> DescribedTensors::find_word(std::string_view name) const {
    const auto found = attributes_.find(name);
    if (found == attributes_.end()) return std::nullopt;
    return to_string(found->second);
}

std::string DescribedTensors::word(std::string_view name, std::string_view otherwise) const {
    return find_word(name).value_or(std::string(otherwise));
}

double DescribedTensors::number(std::string_view name, double otherwise) const {
    const auto found = attributes_.find(name);
    if (found == attributes_.end()) return otherwise;
    if (const auto* value = std::get_if<double>(&found->second)) return *value;
    if (const auto* value = std::get_if<std::int64_t>(&found->second)) return static_cast<double>(*value);
    refuse("attribute '" + std::string(name) + "' is the word '" + std::get<std::string>(found->second) + "'; it is a number");
}

}  // namespace autotune
