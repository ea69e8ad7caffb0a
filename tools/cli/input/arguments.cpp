#include "tools/cli/input/arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "src/core/error.h"
#include "src/core/spelling.h"

namespace autotune::cli {

std::string Arguments::text(std::string_view flag, const std::string& fallback) const {
    const auto found = values_.find(flag);
    return found == values_.end() ? fallback : found->second.back();
}

std::vector<std::string> Arguments::all(std::string_view flag) const {
    const auto found = values_.find(flag);
    return found == values_.end() ? std::vector<std::string>{} : found->second;
}

std::vector<std::string> Arguments::list(std::string_view flag) const {
    std::vector<std::string> items;
    for (const std::string& value : all(flag)) {
        for (std::string& item : split(value, ',')) {
            if (item.empty()) {
                throw Error(ErrorCode::usage,
                            "--" + std::string(flag) + " has an empty item in '" + value + "'; separate by one comma");
            }
            items.push_back(std::move(item));
        }
    }
    return items;
}

std::int64_t Arguments::integer(std::string_view flag, std::int64_t fallback, IntegerRange range) const {
    return has(flag) ? parse_integer(text(flag), "--" + std::string(flag), range) : fallback;
}

std::string Arguments::word(std::string_view flag, const std::string& fallback, const std::vector<std::string>& allowed) const {
    return has(flag) ? parse_word(text(flag), "--" + std::string(flag), allowed) : fallback;
}

double Arguments::positive_number(std::string_view flag, double fallback) const {
    return has(flag) ? parse_positive(text(flag), "--" + std::string(flag)) : fallback;
}

FlagCheck integer_value(IntegerRange range) {
    return [range](const std::string& what, const std::string& value) { parse_integer(value, what, range); };
}

FlagCheck positive_value(double most) {
    return [most](const std::string& what, const std::string& value) { parse_positive(value, what, most); };
}

std::string parse_word(std::string_view text, const std::string& what, const std::vector<std::string>& allowed) {
    const std::string word = known_word(text, allowed);
    if (std::find(allowed.begin(), allowed.end(), word) != allowed.end()) return word;
    throw Error(ErrorCode::usage,
                what + " is one of " + join(allowed, ", ") + ", not '" + word + "'" + did_you_mean(word, allowed));
}

std::int64_t parse_integer(std::string_view given, const std::string& what, IntegerRange range) {
    const std::string_view text = trimmed(given);
    std::int64_t value = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (failure == std::errc() && end == text.data() + text.size() && value >= range.least && value <= range.most) return value;
    std::string wanted = "an integer";
    if (range.least != INT64_MIN) wanted += " >= " + std::to_string(range.least);
    if (range.most != INT64_MAX) wanted += " and <= " + std::to_string(range.most);
    throw Error(ErrorCode::usage, what + " wants " + wanted + ", not '" + std::string(text) + "'");
}

double parse_positive(std::string_view given, const std::string& what, double most) {
    const std::string_view text = trimmed(given);
    double value = 0;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool is_number = failure == std::errc() && end == text.data() + text.size() && std::isfinite(value);
    if (is_number && value > 0 && value <= most) return value;
    throw Error(ErrorCode::usage, what + " wants a number > 0" + (std::isinf(most) ? "" : fmt::format(" and <= {}", most)) +
                                      ", not '" + std::string(text) + "'");
}

}  // namespace autotune::cli
