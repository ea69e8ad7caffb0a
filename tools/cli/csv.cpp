#include "tools/cli/csv.h"

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

std::string csv_of(const std::vector<Json>& rows) {
    std::vector<std::string> names;
    std::vector<Cells> flat(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
        flatten(rows[i], "", flat[i]);
        for (const auto& [name, text] : flat[i]) {
            if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
        }
    }
    if (rows.empty()) return "";
    std::string result = line_of(names);
    for (const Cells& cells : flat) {
        std::vector<std::string> line;
        for (const std::string& name : names) {
            const auto found = std::find_if(cells.begin(), cells.end(), [&](const auto& cell) { return cell.first == name; });
            line.push_back(found == cells.end() ? "" : found->second);
        }
        result += line_of(line);
    }
    return result;
}

}  // namespace autotune::cli
