#include "src/core/problem.h"

#include <algorithm>
#include <bit>

#include "src/core/error.h"

namespace autotune {
namespace {

constexpr int kWidestAccessBytes = 16;

template <class Items>
auto& find_named(const Items& items, std::string_view name, std::string_view what, const std::string& op) {
    const auto found = std::find_if(items.begin(), items.end(), [&](const auto& item) { return item.name == name; });
    check(found != items.end(), "op '" + op + "' has no " + std::string(what) + " '" + std::string(name) + "'");
    return *found;
}

}  // namespace

std::int64_t Operand::span() const {
    if (rows == 0 || cols == 0 || batch == 0) return 0;
    return (batch - 1) * batch_stride + (rows - 1) * ld + cols;
}

std::int64_t Problem::extent(std::string_view name) const {
    return find_named(extents, name, "extent", op).value;
}

const std::string& Problem::trait(std::string_view name) const {
    return find_named(traits, name, "trait", op).value;
}

const Operand& Problem::operand(std::string_view name) const {
    return find_named(operands, name, "operand", op);
}

std::string Problem::class_key() const {
    std::string key = op;
    for (const Trait& trait_entry : traits) key += " " + trait_entry.name + "=" + trait_entry.value;
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

}  // namespace autotune
