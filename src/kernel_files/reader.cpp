#include "src/kernel_files/reader.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "src/core/spelling.h"
#include "src/core/text.h"

namespace autotune::kernel_files {

void Reading::fault(const Place& place, const std::string& text, bool is_warning) {
    for (const Finding& known : loaded_.findings)
        if (known.text == text && known.place.line == place.line && known.place.column == place.column) return;
    loaded_.findings.push_back({place, text, is_warning, loaded_.file.line(place.line)});
}

std::size_t Reading::faults() const {
    return static_cast<std::size_t>(
        std::count_if(loaded_.findings.begin(), loaded_.findings.end(), [](const Finding& each) { return !each.is_warning; }));
}

Place Reading::place_of(const toml::source_region& region, std::size_t length) const {
    return {path_, region.begin.line, region.begin.column, length};
}

Place Reading::inside(const toml::node& node) const {
    Place place = place_of(node);
    const std::string line = loaded_.file.line(place.line);
    if (place.column > 0 && place.column <= line.size()) {
        const std::string_view rest = std::string_view(line).substr(place.column - 1);
        if (rest.starts_with("\"\"\"") || rest.starts_with("'''")) return place;
        if (rest.starts_with('"') || rest.starts_with('\'')) ++place.column;
    }
    return place;
}

bool Reading::take_expression(const std::string& text, const Place& place) {
    loaded_.file.expressions.emplace(text, place);
    try {
        const Expression parsed(text);
        return true;
    } catch (const ExpressionError& error) {
        loaded_.file.bad_expressions.push_back(text);
        const Finding found = loaded_.file.finding_of(error);
        fault(found.place, found.text);
        return false;
    }
}

const toml::node* TableReader::node(std::string_view key) {
    if (std::find(known_.begin(), known_.end(), key) == known_.end()) known_.emplace_back(key);
    return table_.get(key);
}

std::optional<std::string> TableReader::text(std::string_view key) {
    const toml::node* const found = node(key);
    if (found == nullptr) return std::nullopt;
    const auto text = found->value_exact<std::string>();
    if (!text) reading_.fault(*found, title_ + ": '" + std::string(key) + "' is a text in quotes");
    return text;
}

std::string TableReader::needed_text(std::string_view key) {
    if (!has(key)) fault("'" + std::string(key) + "' is missing");
    return text(key).value_or("");
}

std::string TableReader::one_of(std::string_view key, const std::vector<std::string>& allowed, const std::string& otherwise) {
    const auto given = text(key);
    if (!given) return otherwise;
    if (std::find(allowed.begin(), allowed.end(), *given) != allowed.end()) return *given;
    reading_.fault(reading_.inside(*node(key)), "'" + std::string(key) + "' is one of " + join(allowed) + ", not '" + *given +
                                                    "'" + did_you_mean(*given, allowed));
    return otherwise;
}

std::optional<std::int64_t> TableReader::integer(std::string_view key) {
    const toml::node* const found = node(key);
    if (found == nullptr) return std::nullopt;
    const auto value = found->value_exact<std::int64_t>();
    if (!value) reading_.fault(*found, title_ + ": '" + std::string(key) + "' is an integer");
    return value;
}

std::optional<double> TableReader::number(std::string_view key) {
    const toml::node* const found = node(key);
    if (found == nullptr) return std::nullopt;
    if (const auto value = found->value<double>(); value && std::isfinite(*value)) return value;
    reading_.fault(*found, title_ + ": '" + std::string(key) + "' is a number");
    return std::nullopt;
}

std::optional<bool> TableReader::boolean(std::string_view key) {
    const toml::node* const found = node(key);
    if (found == nullptr) return std::nullopt;
    const auto value = found->value_exact<bool>();
    if (!value) reading_.fault(*found, title_ + ": '" + std::string(key) + "' is true or false");
    return value;
}

std::string TableReader::expression_of(const toml::node& found, std::string_view key) {
    std::string text;
    Place place = reading_.place_of(found);
    if (const auto quoted = found.value_exact<std::string>()) {
        text = *quoted;
        place = reading_.inside(found);
    } else if (const auto integer = found.value_exact<std::int64_t>()) {
        text = std::to_string(*integer);
    } else if (const auto truth = found.value_exact<bool>()) {
        text = *truth ? "1" : "0";
    } else if (const auto number = found.value_exact<double>(); number && std::isfinite(*number)) {
        std::ostringstream out;
        out.precision(17);
        out << *number;
        text = out.str();
        if (text.find_first_of(".e") == std::string::npos) text += ".0";
    } else {
        reading_.fault(found, title_ + ": '" + std::string(key) + "' is an expression: a text in quotes or a number");
        return "0";
    }
    return reading_.take_expression(text, place) ? text : "0";
}

std::string TableReader::expression(std::string_view key, const std::string& otherwise) {
    const toml::node* const found = node(key);
    return found == nullptr ? otherwise : expression_of(*found, key);
}

std::vector<std::string> TableReader::expressions(std::string_view key, std::size_t most) {
    std::vector<std::string> all;
    const toml::node* const found = node(key);
    if (found == nullptr) return all;
    const toml::array* const list = found->as_array();
    if (list == nullptr) return {expression_of(*found, key)};
    if (list->size() > most)
        reading_.fault(*found, title_ + ": '" + std::string(key) + "' has " + std::to_string(list->size()) +
                                   " members; the most is " + std::to_string(most));
    for (const toml::node& each : *list)
        if (all.size() < most) all.push_back(expression_of(each, key));
    return all;
}

std::vector<std::string> TableReader::texts(std::string_view key) {
    std::vector<std::string> all;
    const toml::node* const found = node(key);
    if (found == nullptr) return all;
    const toml::array* const list = found->as_array();
    if (list == nullptr) {
        reading_.fault(*found, title_ + ": '" + std::string(key) + "' is a list of texts");
        return all;
    }
    for (const toml::node& each : *list) {
        if (const auto text = each.value_exact<std::string>()) {
            all.push_back(*text);
        } else {
            reading_.fault(each, title_ + ": '" + std::string(key) + "' is a list of texts");
        }
    }
    return all;
}

std::vector<const toml::table*> TableReader::tables(std::string_view key) {
    std::vector<const toml::table*> all;
    const toml::node* const found = node(key);
    if (found == nullptr) return all;
    const toml::array* const list = found->as_array();
    if (list == nullptr) {
        reading_.fault(*found, "write [[" + std::string(key) + "]]: there may be several");
        return all;
    }
    for (const toml::node& each : *list) {
        if (const toml::table* const one = each.as_table()) {
            all.push_back(one);
        } else {
            reading_.fault(each, "a member of '" + std::string(key) + "' is no table");
        }
    }
    return all;
}

const toml::table* TableReader::table(std::string_view key) {
    const toml::node* const found = node(key);
    if (found == nullptr) return nullptr;
    const toml::table* const one = found->as_table();
    if (one == nullptr) reading_.fault(*found, "write [" + std::string(key) + "]: it is one table");
    return one;
}

bool TableReader::later(const std::vector<std::string>& keys) {
    bool is_any = false;
    for (const std::string& key : keys)
        if (const toml::node* const found = table_.get(key)) {
            is_any = true;
            known_.push_back(key);
            reading_.fault(*found, title_ + ": '" + key + "' is part of the format, and this version does not do it yet");
        }
    return is_any;
}

void TableReader::finish() {
    for (const auto& [key, value] : table_) {
        const std::string name(key.str());
        if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
        std::string also = did_you_mean(name, known_);
        if (also.empty()) also = "; known here are " + join(known_);
        reading_.fault(reading_.place_of(key.source(), name.size()), title_ + " has no key '" + name + "'" + also);
    }
}

}  // namespace autotune::kernel_files
