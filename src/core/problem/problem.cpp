#include "src/core/problem/problem.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>

#include "src/core/error.h"

namespace autotune {
namespace {

constexpr int kWidestAccessBytes = 16;

template <class Items>
auto& find_named(Items& items, std::string_view name, std::string_view what, const std::string& op) {
    const auto found = std::find_if(items.begin(), items.end(), [&](const auto& item) { return item.name == name; });
    if (found == items.end()) internal_error("op '" + op + "' has no " + std::string(what) + " '" + std::string(name) + "'");
    return *found;
}

template <class Value>
const Value& value_as(const AttributeValue& value, std::string_view name, std::string_view what) {
    const auto* const typed = std::get_if<Value>(&value);
    if (typed == nullptr) internal_error("attribute '" + std::string(name) + "' is no " + std::string(what));
    return *typed;
}

}  // namespace

std::string to_string(const AttributeValue& value) {
    if (const auto* word = std::get_if<std::string>(&value)) return *word;
    if (const auto* integer = std::get_if<std::int64_t>(&value)) return std::to_string(*integer);
    std::array<char, 32> text{};
    const auto written = std::to_chars(text.data(), text.data() + text.size(), std::get<double>(value));
    return {text.data(), written.ptr};
}

double Scalar::number() const {
    return std::visit([](auto typed) { return static_cast<double>(typed); }, value);
}

std::uint64_t Scalar::bits() const {
    std::uint64_t bits = 0;
    std::visit([&](auto typed) { std::memcpy(&bits, &typed, sizeof(typed)); }, value);
    return bits;
}

std::int64_t Problem::extent(std::string_view name) const {
    return find_named(extents, name, "extent", op).value;
}

const AttributeValue& Problem::attribute(std::string_view name) const {
    return find_named(attributes, name, "attribute", op).value;
}

const std::string& Problem::word(std::string_view name) const {
    return value_as<std::string>(attribute(name), name, "word");
}

std::int64_t Problem::integer(std::string_view name) const {
    return value_as<std::int64_t>(attribute(name), name, "integer");
}

double Problem::number(std::string_view name) const {
    return value_as<double>(attribute(name), name, "number");
}

const Tensor& Problem::tensor(std::string_view name) const {
    return find_named(tensors, name, "tensor", op);
}

bool Problem::has_attribute(std::string_view name) const {
    return std::any_of(attributes.begin(), attributes.end(), [&](const Attribute& entry) { return entry.name == name; });
}

void Problem::set_extent(std::string_view name, std::int64_t value) {
    find_named(extents, name, "extent", op).value = value;
}

std::vector<std::uint64_t> Problem::scalar_bits() const {
    std::vector<std::uint64_t> all;
    for (const Scalar& scalar : scalars) all.push_back(scalar.bits());
    return all;
}

std::string Problem::class_key() const {
    std::string key = op;
    for (const Attribute& entry : attributes) key += " " + entry.name + "=" + to_string(entry.value);
    return key;
}

std::string Problem::shape() const {
    std::string batch_prefix;
    std::string text;
    for (const Extent& extent_entry : extents) {
        if (extent_entry.name == "batch") {
            if (extent_entry.value != 1) batch_prefix = std::to_string(extent_entry.value) + "*";
            continue;
        }
        text += (text.empty() ? "" : "x") + std::to_string(extent_entry.value);
    }
    return batch_prefix + text;
}

std::string Problem::key() const {
    return class_key() + " " + shape();
}

int alignment_class(std::int64_t bytes) {
    if (bytes == 0) return kWidestAccessBytes;
    const int zeros = std::countr_zero(static_cast<std::uint64_t>(bytes));
    return 1 << std::min(zeros, std::countr_zero(static_cast<unsigned>(kWidestAccessBytes)));
}

int alignment_of_stride(std::int64_t elements, std::int64_t element_bytes) {
    return alignment_class(elements % kWidestAccessBytes * element_bytes);
}

}  // namespace autotune
