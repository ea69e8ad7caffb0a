#include "db/store/pairs.h"

#include <algorithm>
#include <charconv>

#include "src/records/validate.h"

namespace autotune::db {
namespace {

std::optional<std::int64_t> integer_from(std::string_view text) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || std::to_string(value) != text) return std::nullopt;
    return value;
}

}  // namespace

std::string pairs_to_text(const Pairs& pairs) {
    std::string text;
    for (const auto& [name, value] : pairs) {
        if (!text.empty()) text += ' ';
        text.append(name).append("=").append(std::to_string(value));
    }
    return text;
}

std::optional<Pairs> pairs_from_text(std::string_view text) {
    Pairs pairs;
    while (!text.empty()) {
        const auto space = text.find(' ');
        const std::string_view pair = text.substr(0, space);
        const auto equals = pair.find('=');
        if (equals == std::string_view::npos || !records::is_parameter_name(pair.substr(0, equals))) return std::nullopt;
        const auto value = integer_from(pair.substr(equals + 1));
        const std::string_view name = pair.substr(0, equals);
        const bool repeated = std::any_of(pairs.begin(), pairs.end(), [&](const auto& other) { return other.first == name; });
        if (!value || repeated) return std::nullopt;
        pairs.emplace_back(name, *value);
        if (space == std::string_view::npos) return pairs;
        text.remove_prefix(space + 1);
        if (text.empty()) return std::nullopt;  // a space at the end
    }
    return pairs;
}

std::string words_to_text(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) {
        if (!text.empty()) text += ' ';
        text += word;
    }
    return text;
}

std::vector<std::string> words_from_text(std::string_view text) {
    std::vector<std::string> words;
    while (!text.empty()) {
        const auto space = text.find(' ');
        if (space != 0) words.emplace_back(text.substr(0, space));
        if (space == std::string_view::npos) break;
        text.remove_prefix(space + 1);
    }
    return words;
}

}  // namespace autotune::db
