#include "tools/cli/output/data/csv.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace autotune::cli {
namespace {

using Json = nlohmann::ordered_json;
using Cells = std::vector<std::pair<std::string, std::string>>;  // name -> text

std::string scalar_text(const Json& value) {
    if (value.is_null()) return "";
    return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string words_text(const Json& value) {
    std::string text;
    for (const auto& [name, member] : value.items()) {
        if (!text.empty()) text += ' ';
        text += (value.is_object() ? name + "=" : "") + scalar_text(member);
    }
    return text;
}

void flatten(const Json& object, const std::string& prefix, Cells& cells) {
    for (const auto& [name, value] : object.items()) {
        if (value.is_object() && name != "config") {
            flatten(value, prefix + name + ".", cells);
        } else {
            cells.emplace_back(prefix + name, value.is_structured() ? words_text(value) : scalar_text(value));
        }
    }
}

std::string quoted(const std::string& text) {
    if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
    std::string result = "\"";
    for (const char c : text) {
        if (c == '"') result += '"';
        result += c;
    }
    return result + "\"";
}

std::string line_of(const std::vector<std::string>& cells) {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i) line += (i == 0 ? "" : ",") + quoted(cells[i]);
    return line + "\n";
}

}  // namespace

void CsvColumns::learn(const Json& row) {
    Cells cells;
    flatten(row, "", cells);
    for (const auto& [name, text] : cells) {
        if (std::find(names_.begin(), names_.end(), name) == names_.end()) names_.push_back(name);
    }
}

std::string CsvColumns::title() const {
    return names_.empty() ? "" : line_of(names_);
}

std::string CsvColumns::line(const Json& row) const {
    Cells cells;
    flatten(row, "", cells);
    std::vector<std::string> line;
    for (const std::string& name : names_) {
        const auto found = std::find_if(cells.begin(), cells.end(), [&](const auto& cell) { return cell.first == name; });
        line.push_back(found == cells.end() ? "" : found->second);
    }
    return line_of(line);
}

std::string csv_of(const std::vector<Json>& rows) {
    CsvColumns columns;
    for (const Json& row : rows) columns.learn(row);
    std::string result = columns.title();
    for (const Json& row : rows) result += columns.line(row);
    return result;
}

}  // namespace autotune::cli
